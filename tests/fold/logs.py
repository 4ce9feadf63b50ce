"""Strategies for whole logs: several runs at once, and everything that can go wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.fold.story import Log, Run
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.rules import DEFAULT_RULES

RUNS = ("r0", "r1", "r2", "r2/sub")
CALLS = ("c0", "c1", "c2")

_DATA: dict[str, Callable[[int], dict[str, Any]]] = {
    "run.started": lambda n: {"skill": {"name": f"s{n}"}, "input": "do it", "tools": [{"name": "look"}]},
    "model.responded": lambda n: {
        "message": "hm" * n,
        "usage": {"input_tokens": n, "output_tokens": 7},
        "cost_usd": 0.25,
    },
    "calling": lambda n: {
        "message": f"call {n}",
        "tool_calls": [{"tool_call_id": CALLS[(n + k) % 3], "function_name": "look"} for k in range(1 + n % 2)],
    },
    "streamed": lambda n: {
        "message_id": f"m{n % 2}",
        "partial": n < 3,
        "message": [{"type": "text", "text": "word " * n}],
        "usage": {"output_tokens": n},
        "cost_usd": 0.1,
        "tool_calls": [{"tool_call_id": CALLS[n % 3], "arguments": "{" * n}] if n % 2 else None,
    },
    "telling": lambda n: {
        "message_id": f"m{n % 2}",
        "partial": n < 3,
        "message": f"mail jane{n % 2}@example.org, or 010-12",
    },
    "copied": lambda n: {"message": "as before", "is_copied_context": True, "usage": {"output_tokens": 100}},
    "failing": lambda n: {"http_status": 429, "error_type": "RateLimitError", "retry_count": n},
    "tool.called": lambda n: {"tool_call_id": CALLS[n % 3], "function_name": "look", "arguments": {"n": n}},
    "tool.returned": lambda n: {
        "tool_call_id": CALLS[n % 3],
        "content": {"n": n},
        "is_error": n == 4,
        "partial": n == 5,
    },
    "orphan": lambda n: {"tool_call_id": f"nobody{n % 2}" if n else "", "content": "late"},
    "policy.decided": lambda n: {
        "policy_id": "p",
        "verdict": "deny" if n == 1 else "allow",
        "tool_call_id": CALLS[n % 3],
    },
    "context.compacted": lambda n: {"summary": "short", "tokens_before": 100 * n},
    "feedback.given": lambda n: {"score": float(n), "comment": "well"},
    "reward.assigned": lambda n: {"score": n / 4, "annotator_kind": "code"},
    "run.ended": lambda n: {"end_state": ("completed", "failed", "truncated")[n % 3], "terminated": n % 2 == 0},
    "other.thing": lambda n: {"n": n},
}
_TYPES = {
    "calling": "model.responded", "streamed": "model.responded", "copied": "model.responded",
    "telling": "model.responded",
    "failing": "model.responded", "orphan": "tool.returned",
}  # fmt: skip
KINDS = tuple(_DATA)
NEXT, AHEAD, AGAIN, CONFLICT, SKIPPED, UNSEQUENCED, LATER = range(7)
ORDERS = (*[NEXT] * 12, AHEAD, AGAIN, CONFLICT, SKIPPED, UNSEQUENCED, LATER)
# What opens, changes and closes a run again and again is drawn more often than the rest.
WEIGHTED = (*KINDS, *["calling", "model.responded", "streamed", "tool.returned", "run.ended"] * 3)
OTHERS = ("tick", *["tick all"] * 4, "tick held", "forget", "junk", "hole", "bad event", "tenant event")
_JUNK = (b"", b"{", b"[1]", b"\xff", b'{"a":1,"a":2}', b"null", b'{"password":"hunter2"')

_events = st.tuples(
    st.just("event"), st.sampled_from((0, 0, 0, 1, 1, 2, 3)), st.sampled_from(WEIGHTED), st.sampled_from(ORDERS),
    st.integers(0, 5),
)  # fmt: skip
_others = st.tuples(st.just("other"), st.just(0), st.sampled_from(OTHERS), st.just(NEXT), st.integers(0, 6))
acts = st.one_of(_events, _events, _events, _events, _others)


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Records of one partition: a few, or enough for runs to live more than once."""
    log = Log()
    runs = [log.run(name, parentrunid="r2" if "/" in name else None) for name in RUNS]
    for act, who, what, order, n in draw(st.lists(acts, max_size=8) | st.lists(acts, min_size=25, max_size=70)):
        if act == "event":
            _event(runs[who], what, order, n)
        else:
            _other(log, runs[n % len(runs)], what, n)
    return log.records


def _event(run: Run, kind: str, order: int, n: int) -> None:
    envelope: dict[str, Any] = {}
    if order == AHEAD:
        envelope["sequence"] = run.sequence + 2 + n % 2
    elif order in (AGAIN, CONFLICT) and run.sequence:
        envelope["sequence"] = 1 + n % run.sequence
        if order == CONFLICT:
            envelope["id"] = f"another {n}"
    elif order == SKIPPED:
        run.sequence += 1
    elif order == LATER:
        # The number that an earlier act left out.
        envelope["sequence"] = max(1, run.sequence - 1)
    elif order == UNSEQUENCED and kind in ("policy.decided", "feedback.given", "reward.assigned", "other.thing"):
        envelope.update(sequence=None, id=f"{kind} {n}")
    if n == 3:
        envelope["time"] = "2026-01-01T00:00:03"
    data = {name: value for name, value in _DATA[kind](n).items() if value is not None}
    if n == 2:
        data["password"] = "hunter2"
    name = _TYPES.get(kind, kind)
    envelope.setdefault("id", f"{run.run_id}:{envelope.get('sequence', run.sequence + 1)}")
    run.act(name, data, pretty=n == 4, **envelope)


def _other(log: Log, run: Run, what: str, n: int) -> None:
    if what.startswith("tick"):
        log.tick(idle_s=0 if what == "tick all" else 4, held_s=0 if what == "tick held" else 3, forget_s=30)
    elif what == "forget":
        log.tick(forget_s=0)
    elif what == "junk":
        log.append(_JUNK[n], b"acme/r1")
    elif what == "hole":
        log.hole(1 + n % 3)
    elif what == "bad event":
        run.act("model.responded", {"message": "x", "latency_ms": "soon"}, sequence=run.sequence + 1 + n % 2)
    else:
        log.append_event(
            {
                "specversion": "1.0", "id": f"lever {n}", "source": "s", "type": "agent.lever.applied",
                "tenantid": "acme", "data": {"lever": "prompt"},
            },
            b"acme/",
        )  # fmt: skip


_SMALL = Redactor([rule for rule in DEFAULT_RULES if rule.id in ("email", "phone", "github-token")])

rules = st.builds(
    LandRules,
    redactor=st.sampled_from((None, _SMALL)),
    closed_runs_kept=st.sampled_from((0, 1, 2, 1000)),
    state_max_bytes=st.sampled_from((2_500, 4_000, 6_000, 9_000, 20_000, 1 << 30, 1 << 30)),
)
