"""Curation as pure functions: which steps and rewards a run consists of, whether it is sound, and the published row.

Stage: between the restricted zone and the training zone. Reads: rows of `runs`, `steps`, `rewards` as Arrow tables, and
verdicts of policy. Writes: rows of `curation` and `trajectories`.
May import: expectations, transforms.policy.
"""
