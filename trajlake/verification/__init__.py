"""Proof from the tables: every offset once, and steps, runs, rewards and payloads that agree with the ledger.

Stage: after the tables. Reads: the tables and stored payloads. Writes: nothing.
May import: every other package.
"""
