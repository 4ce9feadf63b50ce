"""Rolling state of skills: outcomes in, buckets by event time and windows out, in whatever order they are delivered.

Stage: behind the outcomes topic. Reads: outcome batches, and stored values of an earlier state. Writes: the values that
changed, and messages with statistics.
May import: expectations, and `transforms.stats`.
"""
