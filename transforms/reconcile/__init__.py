"""Proves a lake against itself: are all offsets covered once, and do the derived tables say what the ledger says?

Stage: behind the tables. Reads: rows of every table. Writes: faults, by code and place.
May import: expectations.
"""
