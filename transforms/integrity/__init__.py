"""Fixes what the ledger says: rows of `events` to hashes, and hashes to a chain by offset ranges of a partition.

Stage: between columns and commit, and again behind the tables. Reads: record batches of `events`. Writes: hashes.
May import: expectations, other transforms.
"""
