"""Tracing is off unless an endpoint is set; on, it says where the time of a batch goes, and nothing of its content."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.conftest import MakeTopic
from tests.curate.lab import Lab, story
from tests.landkit.events import Sent, run_events
from tests.landkit.kafka import produce
from tests.landkit.running import settings as land_settings
from trajlake.streams.curate.curator import Done
from trajlake.streams.curate.service import keep_curating
from trajlake.streams.land.tracing import BatchTrace
from trajlake.streams.land.worker import LandWorker
from trajlake.streams.settings import SettingError, load_settings
from trajlake.streams.tracing import MOST_LINKS, Tracing, check_tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "hush" * 5


class Traced:
    """Tracing whose spans stay in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


def below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id


def with_traceparent(sent: Sent, number: int) -> Sent:
    body = orjson.loads(sent.value or b"")
    return sent._replace(value=orjson.dumps(body | {"traceparent": f"00-{TRACE}-{number:016x}-01"}))


def test_without_an_endpoint_nothing_is_imported_and_nothing_is_made() -> None:
    tracing = Tracing.of(load_settings(), "land")
    assert not tracing.is_on
    with tracing.span("work") as span:
        assert span is None
    steps: list[str] = []
    observer = steps.append
    assert BatchTrace(tracing).observe(observer) is observer
    tracing.close()


def test_an_endpoint_that_is_no_url_stops_the_program() -> None:
    with pytest.raises(SettingError, match="tracing_endpoint"):
        load_settings(tracing_endpoint="collector:4318")


def test_missing_packages_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajlake.streams.tracing.find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"pip install 'trajlake\[tracing\]'"):
        check_tracing(load_settings(tracing_endpoint="http://127.0.0.1:4318/v1/traces"))
    check_tracing(load_settings())


@pytest.mark.integration
def test_a_batch_is_traced_from_poll_to_commit_with_links_and_without_content(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    traced, topic = Traced(), make_topic(1)
    events = run_events("run-a", steps=2, text=SECRET)
    sent = [with_traceparent(each, number + 1) for number, each in enumerate(events)]
    produce(broker, topic, sent)
    LandWorker(land_settings(broker, topic, tmp_path / "lake"), until_end=True, tracing=traced.tracing).run()
    batches = traced.named("land batch")
    assert batches
    assert all(batch.parent is None for batch in batches)
    first = batches[0]
    assert first.attributes is not None
    assert first.attributes["messaging.destination.name"] == topic
    for name in ("poll", "fold", "columns"):
        assert any(below(span, first) for span in traced.named(name)), name
    commits = traced.named("commit")
    counted = [commit.attributes["trajlake.records"] for commit in commits if commit.attributes]
    assert sum(int(str(count)) for count in counted) >= len(sent)
    steps = [span.name for span in traced.spans if below(span, commits[0])]
    assert {"2 data files", "3 runs", "3 steps", "4 events"} <= set(steps)
    linked = {f"{link.context.trace_id:032x}" for commit in commits for link in commit.links}
    assert linked == {TRACE}
    assert all(len(commit.links) <= MOST_LINKS for commit in commits)
    assert SECRET not in "".join(span.to_json() for span in traced.spans)
    assert traced.named("snapshot")


def test_passes_of_curation_are_traced_with_their_publications(lab: Lab) -> None:
    traced, stop = Traced(), threading.Event()
    lab.land(story("run-a"))

    def report(done: Done) -> None:
        stop.set()

    keep_curating(load_settings(root=lab.lake.uri), 0.05, stop, report, tracing=traced.tracing)
    (whole,) = traced.named("curate pass")
    (publication,) = traced.named("publication")
    assert below(publication, whole)
    assert publication.attributes is not None
    assert (publication.attributes["trajlake.cause"], publication.attributes["trajlake.runs"]) == ("new", 1)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lake")


def test_a_failure_is_told_by_its_kind_alone() -> None:
    traced = Traced()
    with pytest.raises(OSError, match=SECRET), traced.tracing.span("work"):
        raise OSError(SECRET)
    (span,) = traced.spans
    assert not span.status.is_ok
    assert span.attributes is not None
    assert span.attributes["error.type"] == "OSError"
    assert SECRET not in span.to_json()


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An endpoint that keeps what it is sent."""
    taken: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", taken
    server.shutdown()
    server.server_close()


def test_spans_arrive_at_the_endpoint_that_is_set_when_the_process_ends(collector: tuple[str, list[bytes]]) -> None:
    endpoint, taken = collector
    tracing = Tracing.of(load_settings(tracing_endpoint=endpoint), "land")
    with tracing.span("a piece of work"):
        pass
    tracing.close()
    assert len(taken) == 1
    assert b"trajlake-land" in taken[0]
    assert b"a piece of work" in taken[0]
