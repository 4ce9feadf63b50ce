"""The embedded broker: a real Apache Kafka for the demo, tests and benchmarks, and for a first look without containers.

Stage: before the flow, where no other Kafka is. Reads: a JDK from a Python package, Kafka's jars from the user's cache.
Writes: the broker's folder. May import: other modules of streams.
"""

from trajlake.streams.broker.embedded import BrokerStatus, EmbeddedBroker
from trajlake.streams.broker.errors import BrokerError, JarsError
from trajlake.streams.broker.ports import free_port

__all__ = ["BrokerError", "BrokerStatus", "EmbeddedBroker", "JarsError", "free_port"]
