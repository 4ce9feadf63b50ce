"""Training sets: published runs as the rows that trainers read, one module a format.

Stage: behind the training zone. Reads: rows of `trajectories` as Python values. Writes: rows of a format, or why a
run or step has none.
May import: expectations, and its own modules.
"""
