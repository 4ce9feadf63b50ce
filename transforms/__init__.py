"""Turns values into values: decode, redact, gate, assemble, classify, import.

Stage: between Kafka and the tables. Reads: event bytes and state given to it. Writes: rows and state as return values.
May import: expectations. Pure: no clock, no randomness, no environment, no files, no network, so that the same events
in the same partition order give the same rows whatever the batch boundaries, restarts or redeliveries.
"""
