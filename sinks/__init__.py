"""Writes rows where they stay: Delta commits that carry their offsets, quarantine, snapshots, payloads, object stores.

Stage: after the transforms. Reads: rows and offsets given to it, and the tables' own transaction versions.
Writes: Delta tables and files below the lake's root.
May import: expectations. Never transforms.
"""
