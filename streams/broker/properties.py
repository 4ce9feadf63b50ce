"""The embedded broker's `server.properties`: one node that is broker and controller, on loopback, expiring nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trajlake.streams.broker.ports import HOST
from trajlake.streams.topics import MAX_MESSAGE_BYTES

DEFAULT_PROPERTIES: dict[str, str] = {
    # One node holds everything, so every internal topic has one replica.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A group of one has nobody to wait for.
    "group.initial.rebalance.delay.ms": "0",
    # After a crash the controller takes the node back only once its old session is over (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "message.max.bytes": str(MAX_MESSAGE_BYTES),
    # The ledger may be rebuilt from the topic at any time: nothing expires by default.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    # A slip in a topic's name is an error, not a new topic with the wrong partitions.
    "auto.create.topics.enable": "false",
    # Two cores and a small heap are enough: fewer threads, and 16 MiB instead of 128 for compaction.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(16 * 2**20),
}


def server_properties(data: Path, port: int, controller_port: int, changes: Mapping[str, str]) -> str:
    """The text of `server.properties` for a node that listens on these ports and keeps its logs in `data`.

    changes: properties that replace the defaults of this module.
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        **DEFAULT_PROPERTIES,
        **changes,
    }
    return "".join(f"{name}={_escape(value)}\n" for name, value in properties.items())


def _escape(value: str) -> str:
    # Java properties: a backslash starts an escape, a newline ends the value.
    return value.replace("\\", "\\\\").replace("\n", "\\n")
