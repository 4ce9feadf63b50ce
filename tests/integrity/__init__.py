"""The chain of hashes over the ledger: what it must find, and what it must live with."""
