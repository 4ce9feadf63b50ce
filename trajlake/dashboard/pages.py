"""The pages: each reads its part of the board or the lake, and hands plain values to its template.

All state is in the address: a page opened from a copied link shows the same view.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import polars as pl
import structlog
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from trajlake.dashboard import display
from trajlake.dashboard.attention import (
    advice_words,
    attention,
    by_lower_bound,
    common_causes,
    mostly,
    standing_advice,
    urgency,
)
from trajlake.dashboard.board import STATES, Board, SkillRow
from trajlake.dashboard.charts import skill_chart
from trajlake.dashboard.governance import read_governance
from trajlake.dashboard.history import read_history
from trajlake.dashboard.pipeline import read_pipeline
from trajlake.dashboard.pulled import what_came
from trajlake.dashboard.rundata import list_runs, step_lines
from trajlake.expectations.outcomes import WINDOWS
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.reading.onerun import RunNotFound, RunView, read_run, read_step, steps_of, verdicts_on
from trajlake.reading.tables import LakeTables
from trajlake.transforms.rolling.readings import STANDING_WINDOW

log = structlog.get_logger("trajlake.dashboard")

PAGE_ROWS: Final = 100
DEFAULT_WINDOW: Final = "24h"
_SENT_CHARS: Final = 8_192
"""Pieces of a template are sent together up to this size: what is made first is seen first."""

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(display.FILTERS)
_templates.globals.update(
    interval=display.interval,
    rate_bar=display.rate_bar,
    trend_line=display.trend_line,
    mostly=mostly,
    advice_words=advice_words,
    STANDING_WINDOW=STANDING_WINDOW,
    age=display.age,
    STATE_WORDS=display.STATE_WORDS,
    STATE_MARKS=display.STATE_MARKS,
    WINDOWS=list(WINDOWS),
    CLASS_ORDER=[member.value for member in display.CLASS_ORDER],
)


class View:
    """What every page needs: the board that the reader may see, the window, and links that keep the rest of the
    address."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.query = dict(request.query_params)
        self.path = quote(request.scope["path"])
        self.now = datetime.now(UTC)
        own = request.app.state.access.tenant
        self.tenant = own or self.query.get("tenant") or None
        whole: Board = request.app.state.keeper.board
        self.board = whole.of_tenant(self.tenant)
        window = self.query.get("window", DEFAULT_WINDOW)
        self.window = window if window in WINDOWS else DEFAULT_WINDOW
        # Tables of its own: those that the board's thread reads by are let go of at any time.
        self.lake = LakeTables(request.app.state.lake.lake)
        self.tenants = [own] if own else whole.tenants()
        self.scoped = own is not None

    def link(self, path: str | None = None, **changes: Any) -> str:
        """An address with parts of the query changed; None takes a part away."""
        kept = {"tenant", "window"} if path is not None else set(self.query)
        query = {name: value for name, value in self.query.items() if name in kept}
        query.update({name: str(value) for name, value in changes.items() if value is not None})
        for name, value in changes.items():
            if value is None:
                query.pop(name, None)
        if self.scoped:
            query.pop("tenant", None)
        address = self.path if path is None else path
        return f"{address}?{urlencode(query)}" if query else address

    def show(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        state = self.request.app.state
        text = _templates.get_template(template).render(
            view=self, board=self.board, now=self.now, environment=state.environment, page=template, **values
        )
        return HTMLResponse(text, status)

    @property
    def lag(self) -> str:
        """How far the tables are behind Kafka, in words."""
        return lag_words(self.request)

    def stream(self, template: str, **values: Any) -> StreamingResponse:
        """A long page, sent piece by piece: what stands first is seen first."""
        state = self.request.app.state
        pieces = _templates.get_template(template).stream(
            view=self, board=self.board, now=self.now, environment=state.environment, page=template, **values
        )
        return StreamingResponse(self._to_its_end(pieces), media_type="text/html")

    def _to_its_end(self, pieces: Iterator[str]) -> Iterator[str]:
        """Pieces of a page, some together. Where one cannot be made, the page ends with a word on that: it has been
        begun."""
        held: list[str] = []
        size = 0
        try:
            for piece in pieces:
                held.append(piece)
                size += len(piece)
                if size >= _SENT_CHARS:
                    yield "".join(held)
                    held.clear()
                    size = 0
            yield "".join(held)
        except Exception as error:
            _log_failure(self.request, error)
            command = escape(f"trajlake verify --root {self.board.root}")
            yield "".join(held)
            yield (
                f'<p class="banner bad" role=alert>The rest of this page failed: {type(error).__name__}. '
                f"Next: <code>{command}</code></p></main></body></html>"
            )

    def run(self, tenant: str, run_id: str) -> RunView | None:
        """A run; None where there is none, or where the reader may not see it."""
        try:
            return read_run(self.lake, run_id, tenant) if self.may_see(tenant) else None
        except RunNotFound:
            return None

    def may_see(self, tenant: str) -> bool:
        own = self.request.app.state.access.tenant
        return own is None or own == tenant


def lag_words(request: Request) -> str:
    """Lag of the partition that is furthest behind; a dash until Kafka was asked."""
    flow = request.app.state.flow
    return "—" if flow is None or flow.state is None else flow.state.words


def home(request: Request) -> Response:
    """Attention: at most 20 skills, the most urgent first."""
    view = View(request)
    rows = view.board.skills(view.window)
    return view.show(
        "attention.html",
        rows=attention(view.board, view.window),
        total=len(rows),
        needing=sum(row.state in ("degraded", "watch") for row in rows),
        causes=common_causes(rows, view.window),
        advice=lambda row: standing_advice(view.board, row.tenant, row.skill, view.now),
    )


SORTS: Final[Mapping[str, Callable[[SkillRow], Any]]] = {
    "quality": by_lower_bound,
    "attention": urgency,
    "skill": lambda row: (row.skill, row.tenant),
    "runs": lambda row: (-row.runs, row.tenant, row.skill),
    "excluded": lambda row: (-row.excluded, row.tenant, row.skill),
    "newest": lambda row: (-row.as_of.timestamp(), row.tenant, row.skill),
}


def skills(request: Request) -> Response:
    """All skills, 100 a page."""
    view = View(request)
    wanted = view.query.get("q", "").strip().lower()
    state = view.query.get("state")
    rows = [
        row
        for row in view.board.skills(view.window)
        if (not wanted or wanted in row.skill.lower() or wanted in row.tenant.lower())
        and (state not in STATES or row.state == state)
    ]
    sort = view.query.get("sort", "quality")
    rows.sort(key=SORTS.get(sort, by_lower_bound))
    if view.query.get("dir") == "desc":
        rows.reverse()
    at = _whole(view.query.get("page"), 1)
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    at = min(at, pages)
    shown = rows[(at - 1) * PAGE_ROWS : at * PAGE_ROWS]
    return view.show(
        "skills.html", rows=shown, total=len(rows), at=at, pages=pages, sort=sort, states=STATES, wanted=wanted
    )


def skill(request: Request) -> Response:
    """One skill: every window, its history, its causes, its advice, its newest failed runs."""
    view = View(request)
    tenant, name = request.path_params["tenant"], request.path_params["skill"]
    windows = [
        (window, row)
        for window in WINDOWS
        for row in view.board.skills(window)
        if row.tenant == tenant and row.skill == name
    ]
    if not windows or not view.may_see(tenant):
        return view.show(
            "missing.html", 404, what=f"no statistics of skill {name} of {tenant}", command="trajlake skills"
        )
    chosen = next((row for window, row in windows if window == view.window), windows[0][1])
    failed = list_runs(
        view.lake, tenant=tenant, skill=name, classes=[c for c in OutcomeClass if c is not OutcomeClass.SUCCESS]
    )
    decisions = [
        row
        for row in view.board.decisions
        if row["tenant_id"] == tenant and (row["skill_name"] == name or name in (row["skills"] or ()))
    ]
    return view.show(
        "skill.html", row=chosen, windows=windows, failed=failed[:20], decisions=decisions[:20],
        errors=_signatures(chosen), versions=_versions(read_history(view.lake, tenant, name)),
        pulled=what_came(view.lake, view.board, request.app.state.watch.pulled.newest(tenant, name)[:20]),
    )  # fmt: skip


def chart(request: Request) -> Response:
    """A skill's history as SVG: its rate with band, or what its failures were of."""
    view = View(request)
    tenant, name = request.path_params["tenant"], request.path_params["skill"]
    if not view.may_see(tenant):
        return PlainTextResponse("no such skill\n", 404)
    history = read_history(view.lake, tenant, name)
    kind = view.query.get("kind", "rate")
    row = view.board.of_skill(tenant, name)
    svg = skill_chart(
        history,
        "causes" if kind == "causes" else "rate",
        changed_at=None if row is None or row.state == "ok" else row.changed_at,
        dark=view.query.get("theme") == "dark",
    )
    return Response(svg, media_type="image/svg+xml")


def runs(request: Request) -> Response:
    """The newest runs that fit the filters."""
    view = View(request)
    chosen = view.query.get("class")
    found = list_runs(
        view.lake,
        tenant=view.tenant,
        skill=view.query.get("skill") or None,
        classes=[chosen] if chosen else None,
        run_prefix=view.query.get("run") or None,
    )
    return view.show("runs.html", runs=found[:PAGE_ROWS], more=len(found) > PAGE_ROWS, chosen=chosen)


def run(request: Request) -> Response:
    """One run: its verdict, its steps collapsed, its rewards, and what is known to be missing."""
    view = View(request)
    tenant, run_id = request.path_params["tenant"], request.path_params["run_id"]
    found = view.run(tenant, run_id)
    if found is None:
        return view.show("missing.html", 404, what=f"no run {run_id}", command="trajlake runs")
    base = f"/runs/{quote(tenant)}/{quote(run_id)}"
    steps = step_lines(found.steps, str(escape(base)))
    judged = verdicts_on(view.lake, found.run).tail(1).to_dicts()
    return view.stream(
        "run.html", found=found, run=found.run, steps=steps, failing=found.first_failing_step,
        judged=judged[0] if judged else None,
    )  # fmt: skip


def step(request: Request) -> Response:
    """All that is kept of one step."""
    view = View(request)
    tenant, run_id, index = (request.path_params[name] for name in ("tenant", "run_id", "index"))
    found = view.run(tenant, run_id)
    content = None if found is None else read_step(view.lake, found.run, index)
    if found is None or content is None:
        return view.show("missing.html", 404, what=f"no step {index} in run {run_id}", command="trajlake runs")
    last = int(found.steps["step_index"].max() or 0)  # type: ignore[arg-type]
    return view.show("step.html", run=found.run, step=content, last=last)


def raw(request: Request) -> Response:
    """A run with its steps and rewards as JSON lines, as the tables hold them."""
    import orjson

    view = View(request)
    tenant, run_id = request.path_params["tenant"], request.path_params["run_id"]
    found = view.run(tenant, run_id)
    if found is None:
        return PlainTextResponse("no such run\n", 404)
    steps = steps_of(view.lake, found.run).sort("step_index").collect()
    lines = [{"table": "runs", **found.run}, *({"table": "steps", **row} for row in steps.iter_rows(named=True))]
    lines += [{"table": "rewards", **reward} for reward in found.rewards]
    text = b"\n".join(orjson.dumps(line, default=str) for line in lines) + b"\n"
    headers = {"Content-Disposition": 'attachment; filename="run.jsonl"'}
    return Response(text, media_type="application/x-ndjson", headers=headers)


def levers(request: Request) -> Response:
    """Advice, the newest first."""
    view = View(request)
    wanted = view.query.get("skill")
    rows = [
        row
        for row in view.board.decisions
        if not wanted or row["skill_name"] == wanted or wanted in (row["skills"] or ())
    ]
    pulled = request.app.state.watch.pulled.newest(view.tenant, wanted or None)[:PAGE_ROWS]
    return view.show(
        "levers.html",
        rows=rows[:PAGE_ROWS],
        total=len(rows),
        wanted=wanted,
        pulled=what_came(view.lake, view.board, pulled),
        now_of=view.board.of_skill,
        superseded=view.board.superseded,
    )


def causes(request: Request) -> Response:
    """What failures come from, by provider, tool and error type, over all skills."""
    view = View(request)
    counted: Counter[tuple[str, str, str, str, str]] = Counter()
    skills_of: Counter[tuple[str, str, str, str, str]] = Counter()
    for row in view.board.skills(view.window):
        for cause in row.causes:
            names = ("outcome_class", "failure_kind", "model_provider", "failing_tool", "error_type")
            key: Any = tuple(cause[part] or "" for part in names)
            counted[key] += cause["count"]
            skills_of[key] += 1
    rows = [(*key, count, skills_of[key]) for key, count in counted.most_common(PAGE_ROWS)]
    return view.show("causes.html", rows=rows, causes=common_causes(view.board.skills(view.window), view.window))


def pipeline(request: Request) -> Response:
    """Tables, partitions, quarantine and gaps."""
    view = View(request)
    state = request.app.state
    flow = None if view.tenant is not None or state.flow is None else state.flow.state
    return view.show(
        "pipeline.html",
        found=read_pipeline(view.lake, view.tenant, {} if flow is None else flow.lags or {}),
        flow=flow,
        figures=None if view.tenant is not None else state.watch.figures,
    )


def governance(request: Request) -> Response:
    """What was refused or left out, and under which policies."""
    view = View(request)
    return view.show("governance.html", found=read_governance(view.lake, view.tenant))


PAGES: Final = (
    ("/", home),
    ("/skills", skills),
    ("/skills/{tenant}/{skill:path}/chart.svg", chart),
    ("/skills/{tenant}/{skill:path}", skill),
    ("/runs", runs),
    ("/runs/{tenant}/{run_id:path}/raw", raw),
    ("/runs/{tenant}/{run_id:path}/steps/{index:int}", step),
    ("/runs/{tenant}/{run_id:path}", run),
    ("/levers", levers),
    ("/causes", causes),
    ("/pipeline", pipeline),
    ("/governance", governance),
)


def not_found(request: Request, error: Exception) -> Response:
    """The page of addresses that do not exist."""
    if request.scope["path"].startswith("/static/"):
        # Open to all, so with nothing of the lake.
        return PlainTextResponse("not found\n", 404)
    return View(request).show("missing.html", 404, what="there is no such page", command="trajlake dashboard")


def failed(request: Request, error: Exception) -> Response:
    """The page of an error of ours: its kind, never its text, which may hold what the tables hold."""
    _log_failure(request, error)
    return View(request).show(
        "missing.html", 500, what=f"this page failed: {type(error).__name__}", command="trajlake verify"
    )


def _log_failure(request: Request, error: Exception) -> None:
    debug = bool(os.environ.get("TRAJLAKE_DEBUG"))
    log.error("page failed", path=request.url.path, error=type(error).__name__, exc_info=debug)


def _whole(text: str | None, default: int) -> int:
    return (
        int(text)
        if text is not None and text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text)
        else default
    )


def _signatures(row: SkillRow) -> list[Mapping[str, Any]]:
    return sorted(row.causes, key=lambda cause: -cause["count"])[:10]


def _versions(history: pl.DataFrame) -> list[tuple[datetime, str]]:
    """When the skill's version changed, the newest first."""
    if not history.height:
        return []
    marks = history.filter(pl.col("skill_version").ne_missing(pl.col("skill_version").shift()))
    return [(at, version) for at, version in marks.select("as_of", "skill_version").rows() if version][::-1][:10]
