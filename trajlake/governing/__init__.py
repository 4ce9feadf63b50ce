"""Policies applied to what is stored: why a run may or may not serve a purpose, and what other policies would change.

Stage: after the tables. Reads: the tables and policy files. Writes: nothing. May import: every other package.
"""
