"""Outcomes of closed runs, from rows of `runs`: what statistics count, and what a later revision takes back.

Stage: after assembly. Reads: record batches of `runs`. Writes: nothing.
May import: expectations, and the packages of transforms that come before it.
"""
