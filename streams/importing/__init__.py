"""Importing runs from files: read, convert (transforms.importers), publish what the lake does not hold yet.

Stage: before the log. Reads: run files, the `events` table, the tail of the events topic. Writes: the events topic.
May import: expectations, transforms, sinks, other modules of streams.
"""
