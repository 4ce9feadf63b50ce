"""OpenTelemetry traces of our own workers: off unless setting `tracing_endpoint` names where they go.

A span says how long a part of the work took and how much it was: records, bytes, partitions, runs. It never holds what
an event said. Spans of a batch link to the traces of the agents whose events are in it, where these carry a
`traceparent`, so that one finds the commit from the agent's trace and back.

The packages of OpenTelemetry are the extra `tracing`, imported only where tracing is on. What the exporter cannot
deliver is dropped: no work waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import structlog

from trajlake.streams.settings import SettingError, Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link, Span

log = structlog.get_logger("trajlake.tracing")

EXPORT_S: Final = 2.0
"""Time that the endpoint has to take spans; at a stop, too."""
MOST_LINKS: Final = 32
"""Traces that one span links to: a batch may hold the events of thousands."""


class Tracing:
    """Makes spans, or does nothing where no provider is given. Not shared between processes."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer = None if provider is None else provider.get_tracer("trajlake")

    @classmethod
    def of(cls, settings: Settings, process: str) -> Tracing:
        """Tracing of a process by the settings. Raises `SettingError` where the packages for it are not installed."""
        if not settings.tracing_endpoint:
            return cls()
        check_tracing(settings)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        names = {"service.name": f"trajlake-{process}", "service.version": _version()}
        provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=settings.tracing_endpoint, timeout=EXPORT_S)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        log.info("tracing", process=process)
        return cls(provider)

    @property
    def is_on(self) -> bool:
        return self._tracer is not None

    @contextmanager
    def span(
        self, name: str, parent: Span | None = None, *, traceparents: Iterable[str] = (), **attributes: Any
    ) -> Iterator[Span | None]:
        """A span around a block. An exception that leaves the block marks it as failed, by the exception's type."""
        span = self.start(name, parent, traceparents=traceparents, **attributes)
        if span is None:
            yield None
            return
        try:
            yield span
        except BaseException as error:
            fail(span, error)
            raise
        finally:
            span.end()

    def start(
        self,
        name: str,
        parent: Span | None = None,
        *,
        began_ns: int | None = None,
        traceparents: Iterable[str] = (),
        **attributes: Any,
    ) -> Span | None:
        """A span that the caller ends; None where tracing is off. `began_ns`: Unix time, now unless given.

        Attributes' names have `__` for `.`: `messaging__system`.
        """
        if self._tracer is None:
            return None
        from opentelemetry import trace

        return self._tracer.start_span(
            name,
            context=None if parent is None else trace.set_span_in_context(parent),
            start_time=began_ns,
            attributes={key.replace("__", "."): value for key, value in attributes.items()},
            links=_links(traceparents),
        )

    def close(self) -> None:
        """Send what waits, for two seconds at most."""
        if self._provider is not None:
            self._provider.force_flush(int(EXPORT_S * 1000))
            self._provider.shutdown()


OFF: Final = Tracing()


def check_tracing(settings: Settings) -> None:
    """Raises `SettingError` where tracing is asked for and its packages are not installed."""
    if not settings.tracing_endpoint:
        return
    for package in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise SettingError("tracing_endpoint", f"tracing needs {package}: pip install 'trajlake[tracing]'")


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed. The error's text stays out: it may name what is nobody else's business."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))


def _links(traceparents: Iterable[str]) -> list[Link]:
    """Links to traces by their W3C `traceparent`; what is none is left out."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    links = []
    for each in traceparents:
        context = trace.get_current_span(propagator.extract({"traceparent": each})).get_span_context()
        if context.is_valid:
            links.append(trace.Link(context))
        if len(links) == MOST_LINKS:
            break
    return links


def _version() -> str:
    try:
        return version("trajlake")
    except PackageNotFoundError:
        return "unknown"
