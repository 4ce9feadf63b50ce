"""A Kafka record's bytes to a typed event, or to a rejection that says what is wrong and where.

Stage: first of the land path. Reads: records' keys, headers and values. Writes: typed events, rejections, references
to large content. May import: expectations.
"""
