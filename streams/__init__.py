"""Wires the flow to the world: settings, Kafka in and out, the land worker, the local broker, health.

Stage: around the transforms and sinks. Reads: Kafka, the environment, the clock. Writes: Kafka; tables through sinks.
May import: expectations, transforms, sinks.
"""
