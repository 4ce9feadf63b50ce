"""Loopback ports for the embedded broker."""

from __future__ import annotations

import random
import socket

from trajlake.streams.broker.errors import BrokerError

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A loopback port that nobody listens on now.

    Taken from below the range that the system hands to outgoing connections: a client that reconnects to a broker that
    is away could otherwise be given that very port, and keep the broker from it.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if is_free(port):
            return port
    raise BrokerError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free on {HOST}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Kafka itself binds: connections of an earlier broker that are still in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
