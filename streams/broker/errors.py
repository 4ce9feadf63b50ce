"""What can go wrong with the embedded broker.

RuntimeError
├── BrokerError   it did not start or stop
└── JarsError     what it runs on is not to be had
"""

from __future__ import annotations


class BrokerError(RuntimeError):
    """The embedded broker did not start or stop. `log_tail` holds the end of its log, oldest line first."""

    def __init__(self, message: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log_tail = log_tail


class JarsError(RuntimeError):
    """Java or Kafka's jars are not to be had; the message says what to do."""
