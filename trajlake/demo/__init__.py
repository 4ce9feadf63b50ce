"""The demo: the whole flow on this machine, fed by scripted agents that do real work with real tools.

Stage: outermost; the flow from an agent's first event to the proof over the tables.
Reads: the command line's choices, and the lake that it filled.
Writes: the lake, and beside it `.trajlake/demo/<name of the lake>/` with the broker's log, the recorders' spool and
what the land workers say.
May import: every other package.

Reading order: `plan` (who runs what, and what goes wrong), `provider` (the model, the one simulated thing), `tools`,
`skills`, `harness` (one agent from start to end), `crew` (all of them), `site` (broker and land workers), `summary`
(what the tables say), `flow` (everything in order).
"""
