"""The whole system on one machine: what `trajlake up` runs, keeps running, and shows.

Stage: outermost; the workers, and the broker where none is given.
Reads: the settings, and the health endpoints of what it runs.
Writes: `.trajlake/up/<name of the lake>/`, one log a service; everything else is written by the services.
May import: every other package.

Reading order: `services` (what runs), `process` (one service in a process of its own), `supervisor` (all of them, in
order), `view` (what a person or a program is told).
"""
