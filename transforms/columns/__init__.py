"""Rows to Arrow record batches, nested columns as flat arrays with offsets.

Stage: between assembly and commit. Reads: landed rows. Writes: record batches in the contract's schemas.
May import: expectations, transforms.assemble and transforms.landing.
"""
