"""What can keep a demo from its end.

Exception
├── DemoError      it cannot go on; the message says why, and what to do
└── Interrupted    somebody stopped it
"""

from __future__ import annotations

import signal


class DemoError(Exception):
    """The demo cannot go on."""


class Interrupted(Exception):
    """A signal asked for the end. `exit_code` is the one that shells show for it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number
