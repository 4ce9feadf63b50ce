"""The dashboard: which skill needs attention, and why; read-only pages over the tables.

Stage: behind the tables. Reads: `skill_stats` and `decisions` (kept in memory, `board`), and single runs when they are
asked for. Writes: HTML, SVG and JSON over HTTP; never a table. May import: every other package.

`app` has the routes, `board` what is kept, `attention` the order and the sentences that the terminal shows too.
"""
