"""Turns what is known of a skill, or of a common cause, into advice on one lever, with its evidence.

Stage: after statistics. Reads: a `Snapshot`. Writes: a `Decision`; the same snapshot always gives the same one. Also
reads and writes a team's own tier file, and tells the week in a review. Start at `advice`; `docs/levers.md` explains
it. May import: expectations, and `transforms.stats`.
"""
