"""Quality rules as pure functions: suites compiled to Polars expressions, and what batches are measured by.

Stage: between columns and commit, and before a publication. Reads: record batches, frames and suites given to it.
Writes: judgements and marked record batches as return values. May import: expectations.
"""
