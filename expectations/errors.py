"""Errors that the layers share. Each names the thing and its place, never a value, and says what to do next.

TrajlakeError
└── EventError (ValueError)      one event cannot be read; `field`, `reason`
    └── BinaryModeError          its CloudEvents headers or body are not what the Kafka binding asks for
"""

from __future__ import annotations

from trajlake.expectations.reasons import Reason


class TrajlakeError(Exception):
    """Root of the errors that name something a person or a caller can act on."""


class EventError(TrajlakeError, ValueError):
    """One event cannot be read. `field`: header or path at fault; `reason`: the code under which it is quarantined."""

    def __init__(self, field: str, problem: str, reason: Reason) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self.reason = reason


class BinaryModeError(EventError):
    """An event in CloudEvents binary mode that the Kafka protocol binding does not allow."""
