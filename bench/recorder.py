"""The agent's time for one recorded event: from the call to its return, publisher and real Kafka behind it.

Three conditions: an agent that records without a pause, one whose Kafka is away so that everything goes to the disk,
and one that pauses a millisecond between events. The figure is the slower median of the first two. The third mostly
measures how cold the processor's caches are by then: a bare JSON encoding, timed beside it, grows alike.

Each call publishes one event of about 700 bytes; what a step costs on entering and leaving counts with its response.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import Figure, show

EVENTS = 20_000
PACED_EVENTS = 4_000
EVENTS_A_RUN = 7
AT_MOST_US = 20.0
_TEXT = "The order was placed on Tuesday; the parcel left the depot on Wednesday. " * 6
_ARGUMENTS = {"query": "order 1234567", "filters": {"status": ["open", "sent"], "limit": 20}, "note": _TEXT[:300]}


def main() -> None:
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.topics import ensure_topics

    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        servers = broker.bootstrap_servers
        ensure_topics(servers, {"bench.recorder": 4})
        conditions = {
            "flat_out": record(servers, Path(folder), EVENTS, 0.0),
            "paced_1ms": record(servers, Path(folder), PACED_EVENTS, 0.001),
        }
        broker.stop()
        conditions["kafka_away"] = record(servers, Path(folder), EVENTS, 0.0, is_away=True)
    detail: dict[str, Any] = {name: summary(times) for name, times in conditions.items()}
    detail["bare_json_encoding_us"] = {"flat_out": bare_encoding_us(0.0), "paced_1ms": bare_encoding_us(0.001)}
    slowest = max(detail[name]["median_us"] for name in ("flat_out", "kafka_away"))
    show(Figure("recorder_agent_us_per_event_median", slowest, "us", at_most=AT_MOST_US, detail=detail))


def record(servers: str, folder: Path, events: int, pause_s: float, *, is_away: bool = False) -> list[int]:
    """Record so many events and return the time that each took, in ns."""
    from trajlake import Recorder

    times: list[int] = []
    recorder = Recorder("bench", bootstrap_servers=servers, topic="bench.recorder", spool=folder / "spool")
    with recorder.run(skill="warm-up"):
        pass
    if not is_away and recorder.flush(30):
        raise RuntimeError("Kafka did not take the first events")
    for _ in range(events // EVENTS_A_RUN):
        one_run(recorder, times, pause_s)
    if is_away:
        recorder.close(0)
    elif left := recorder.close(60):
        raise RuntimeError(f"{left} events did not reach Kafka")
    if recorder.counts.dropped or recorder.counts.errors or recorder.counts.altered:
        raise RuntimeError(f"not all went well: {recorder.counts}")
    return times


def one_run(recorder: Any, times: list[int], pause_s: float) -> None:
    """One run of seven events; appends the time of each."""
    clock = time.perf_counter_ns

    def timed(call: Callable[[], Any]) -> Any:
        start = clock()
        result = call()
        times.append(clock() - start)
        if pause_s:
            time.sleep(pause_s)
        return result

    run = recorder.run(skill="refund", skill_version="3", model="model-large", model_tier="upper", input=_TEXT)
    timed(run.start)
    start = clock()
    with run.step() as step:
        step.respond(
            message=_TEXT[:300],
            tool_calls=[{"tool_call_id": "call-a", "function_name": "search", "arguments": _ARGUMENTS}],
            usage={"input_tokens": 1200, "output_tokens": 85},
            finish_reason="tool_calls",
        )
        times.append(clock() - start)
        call = step.tool("search", _ARGUMENTS)
        timed(call.start)
        call.result(_TEXT, exit_code=0)
        timed(call.end)
    timed(lambda: run.step(message=_TEXT, usage={"input_tokens": 1400, "output_tokens": 60}).respond())
    timed(lambda: run.reward("tests", 1.0, explanation=_TEXT[:400]))
    timed(lambda: run.end(success=True, output=_TEXT))


def bare_encoding_us(pause_s: float) -> float:
    """Median time of encoding a tool call's arguments and nothing else, in µs: the machine's part in the figures."""
    import orjson

    times = []
    for _ in range(1_000):
        start = time.perf_counter_ns()
        orjson.dumps(_ARGUMENTS)
        times.append(time.perf_counter_ns() - start)
        if pause_s:
            time.sleep(pause_s)
    return round(statistics.median(times) / 1e3, 2)


def summary(times_ns: list[int]) -> dict[str, float]:
    """Median, p99 and the share of events above a millisecond, of times in ns."""
    cuts = statistics.quantiles(times_ns, n=1000)
    return {
        "events": len(times_ns),
        "median_us": round(statistics.median(times_ns) / 1e3, 1),
        "mean_us": round(statistics.fmean(times_ns) / 1e3, 1),
        "p99_us": round(cuts[989] / 1e3, 1),
        "above_1ms": round(sum(value > 1_000_000 for value in times_ns) / len(times_ns), 5),
    }


if __name__ == "__main__":
    main()
