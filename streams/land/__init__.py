"""The land workers: from the events topic to the tables, exactly once.

    consume -> fold (transforms.landing) -> commit (sinks.ledger) -> snapshot -> group offsets

Stage: land. Reads: the Kafka topic of events, the tables' offsets, snapshots. Writes: tables, payloads, snapshots,
and ticks into the topic that it reads. May import: expectations, transforms, sinks, other modules of streams.
"""
