"""Structured logs: readable lines in a terminal, JSON lines elsewhere. Never a payload: call sites log names and
numbers."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any, TextIO, cast

import structlog

from trajlake.streams.settings import Settings


def configure_logs(settings: Settings) -> None:
    """Set up structlog for this process, on stderr, by `log_level` and `log_format`."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR")))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Stderr())),
    )


class _Stderr(io.TextIOBase):
    """Whatever stderr is when something is logged: a command that shows its progress puts lines above that."""

    def write(self, text: str, /) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()
