"""`trajlake.redact`: the built-in rules on one value, for a team that tries its own data first."""

from __future__ import annotations

import threading
from typing import Any, Final

from trajlake.transforms.redact.redactor import Redactor


class _PerThread(threading.local):
    """The built-in rules, ready: a redactor is for one thread, and making one takes time."""

    def __init__(self) -> None:
        self.redactor = Redactor()


_RULES: Final = _PerThread()


def redact(value: Any) -> Any:
    """Redact a JSON value with the built-in rules and markers; returns the value alone. From any thread.

    To see what was done, to make pseudonyms, or to set actions and limits, use `Redactor`.
    """
    return _RULES.redactor.redact(value).value
