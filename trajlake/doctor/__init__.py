"""What `trajlake doctor` looks at: is everything there, does it answer, does it fit together, and what to do if not.

Stage: outermost; beside the flow. Reads: the settings, the machine, Kafka, the lake, health endpoints. Writes: one
small object below the root, which it removes again. May import: every other package.

Reading order: `finding` (what a check says, and what it may look at), `program`, `rules`, `store`, `tables`, `kafka`,
`workers` (the checks, each a small function), `checks` (the table of all).
"""
