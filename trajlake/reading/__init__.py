"""Readers of a lake: tables at pinned versions, the current rows of runs and steps, SQL, lag.

Stage: after the tables. Reads: the tables, and Kafka's end offsets for lag. Writes: nothing.
May import: every other package.
"""
