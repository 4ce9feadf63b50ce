"""Events as an agent publishes them, and records that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson


class Sent(NamedTuple):
    """One record to be produced."""

    key: bytes | None
    value: bytes | None


def event(
    kind: str,
    run: str | None,
    sequence: int | None,
    data: dict[str, Any] | None = None,
    *,
    tenant: str = "acme",
    time: Any = "2026-03-01T10:00:00.000001Z",
    **envelope: Any,
) -> Sent:
    """An event of a run. `kind` without its `agent.`."""
    body = {
        "specversion": "1.0",
        "id": f"{run}:{sequence}:{kind}",
        "source": "urn:test:agent",
        "type": f"agent.{kind}",
        "time": time,
        "tenantid": tenant,
        "runid": run,
        "sequence": sequence,
        "data": data or {},
        **envelope,
    }
    return Sent(f"{tenant}/{run}".encode(), orjson.dumps({k: v for k, v in body.items() if v is not None}))


def run_events(
    run: str, steps: int = 2, *, text: str = "x" * 40, ended: bool = True, rewarded: bool = True, start: bool = True
) -> list[Sent]:
    """All events of one run: start, `steps` decisions with a call and its result each, a reward, the end."""
    sent: list[Sent] = []

    def add(kind: str, **data: Any) -> None:
        sent.append(event(kind, run, len(sent) + 1, data))

    if start:
        add("run.started", agent={"name": "tester", "version": "1"}, skill={"name": "landing"}, input=text)
    for step in range(steps):
        call = f"{run}-{step}"
        calls = [{"tool_call_id": call, "function_name": "look", "arguments": '{"at":1}'}]
        add("model.responded", message=text, tool_calls=calls, usage={"input_tokens": 3, "output_tokens": 4})
        add("tool.called", tool_call_id=call, function_name="look")
        add("tool.returned", tool_call_id=call, content=text, is_error=False)
    if rewarded:
        add("reward.assigned", name="reward", score=0.5, annotator_kind="code", reward_id=f"{run}-reward")
    if ended:
        add("run.ended", end_state="completed", success=True, output=text)
    return sent


POISON = (b"{", b'{"specversion":"1.0"', b"\xff\xfe", b"", b"[1,2]", b'{"a":NaN}', b"null")


def poison(number: int) -> Sent:
    """A record that cannot be let in."""
    return Sent(b"acme/poison", POISON[number % len(POISON)])


def interleaved(streams: Iterable[list[Sent]], width: int = 8) -> Iterator[Sent]:
    """Records of several runs in turn, `width` of them open at a time."""
    waiting = iter(streams)
    open_now: list[Iterator[Sent]] = []
    while True:
        while len(open_now) < width and (following := next(waiting, None)) is not None:
            open_now.append(iter(following))
        if not open_now:
            return
        for stream in list(open_now):
            if (sent := next(stream, None)) is None:
                open_now.remove(stream)
            else:
                yield sent


def mixture(runs: int, *, name: str = "run", poisoned: int = 7, width: int = 8, text: str = "x" * 40) -> list[Sent]:
    """Runs in turn with a record that cannot be let in after every `poisoned` events, and some events twice."""
    mixed: list[Sent] = []
    for number, sent in enumerate(interleaved((run_events(f"{name}-{i}", text=text) for i in range(runs)), width)):
        mixed.append(sent)
        if number % poisoned == poisoned - 1:
            mixed.append(poison(number // poisoned))
        if number % 23 == 22:
            mixed.append(sent)
    return mixed
