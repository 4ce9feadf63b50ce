"""Benchmarks: each prints JSON lines, one figure a line. `python -m bench [NAME ...]` runs all or the named ones."""
