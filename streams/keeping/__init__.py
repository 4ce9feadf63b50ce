"""Keeping: what becomes of rows after they have landed. Upkeep of tables, retention, erasure, quarantine.

    maintain -> upkeep of every table (sinks.maintenance), on a schedule

Stage: beside the land workers, in processes of its own. Reads: tables, payloads, snapshots. Writes: the same, by
commits that the land workers never wait for.
May import: expectations, transforms, sinks, other modules of streams.
"""
