"""Batch rules before a publication: a checkpoint of Great Expectations on each batch, and the report that people read.

Stage: between curation and publication. Reads: a frame of runs and a suite. Writes: a report without row values.
May import: expectations, transforms. Great Expectations is imported only when a checkpoint runs: that takes seconds.
"""
