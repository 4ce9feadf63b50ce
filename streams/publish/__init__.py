"""The sending side of the recorder: from the agent's thread to Kafka, through a spool on disk, never blocking it.

    put (agent's thread) -> publisher (queue, thread) -> outbox (spool, memory, in flight) -> sender (librdkafka)

Stage: before the log. Reads: drafts of events, the spool folder. Writes: the events topic, the spool, parked events.
May import: expectations, other modules of streams.
"""
