"""Says what counts of outcomes mean: rates with intervals, drops, common causes, and one assessment a skill.

Stage: after a run has its outcome class. Reads: counts and small states given to it. Writes: readings, and states
that are plain JSON. Start at `assessment`; `docs/statistics.md` explains the reasoning. May import: expectations.
"""
