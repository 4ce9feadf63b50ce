"""HTTP views of a rolling worker, on the web server of Faust, on loopback by default: skills, health, metrics.

/skills                     skills of all workers; `?own=1` those of this worker alone
/skills/{tenant}/{skill}    one skill, answered by the worker that holds it
/live /ready                for probes: 503 where the loop is stuck or the state not recovered
/metrics                    Prometheus text
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
import structlog
from faust.exceptions import SameNode

from trajlake.streams.roll.metrics import exposition

if TYPE_CHECKING:
    from trajlake.streams.roll.app import RollApp

log = structlog.get_logger("trajlake.roll")

ANSWER_S: Final = 3.0
_JSON: Final = "application/json"
_SUMMARY: Final = ("runs", "counts", "scorable", "successes", "rate", "interval")


def serve_views(roll: RollApp) -> None:
    """Add all views to a worker's application."""
    app = roll.faust

    @app.page("/skills")  # type: ignore[untyped-decorator,unused-ignore]
    async def skills(web: Any, request: Any) -> Any:
        window = request.query.get("window", "24h")
        rows = await own_skills(roll, window)
        missing: list[str] = []
        if request.query.get("own") != "1":
            for url in _others(roll):
                try:
                    answer = app.http_client.get(f"{url}/skills?own=1&window={window}")
                    async with await asyncio.wait_for(answer, ANSWER_S) as response:
                        rows += (await response.json())["skills"]
                except Exception as error:
                    log.warning("worker does not answer", url=url, reason=type(error).__name__)
                    missing.append(url)
        rows.sort(key=lambda row: (row["tenant"], row["skill"]))
        return _answer(web, {"window": window, "skills": rows, "not_answering": missing})

    @app.page("/skills/{tenant}/{skill}")  # type: ignore[untyped-decorator,unused-ignore]
    async def skill(web: Any, request: Any, tenant: str, skill: str) -> Any:
        place = (unquote(tenant), unquote(skill))
        if place not in roll.book.skills:
            try:
                key = f"{place[0]}/{place[1]}".encode()
                return await app.router.route_topic_req(roll.outcomes, key, web, request)
            except SameNode:
                return _answer(web, {"error": f"no skill {place[1]!r} of tenant {place[0]!r}"}, status=404)
        stats = roll.book.statistics(place)
        body = msgspec.to_builtins(stats)
        standing = roll.advisor.standings.get(place)
        body["standing"] = None if standing is None else msgspec.to_builtins(standing)
        return _answer(web, body)

    @app.page("/live")  # type: ignore[untyped-decorator,unused-ignore]
    async def live(web: Any, request: Any) -> Any:
        return _answer(web, {"live": True, "time": time.time()})

    @app.page("/ready")  # type: ignore[untyped-decorator,unused-ignore]
    async def ready(web: Any, request: Any) -> Any:
        problems = roll.problems()
        body = {"ready": not problems, "problems": problems, "skills": len(roll.book.skills)}
        return _answer(web, body, status=503 if problems else 200)

    @app.page("/metrics")  # type: ignore[untyped-decorator,unused-ignore]
    async def metrics(web: Any, request: Any) -> Any:
        return web.bytes(exposition(roll), content_type="text/plain", headers={"Cache-Control": "no-store"})


async def own_skills(roll: RollApp, window: str) -> list[dict[str, Any]]:
    """One short object for each skill that this worker holds. Counting goes on between two: a skill that was not asked
    for lately takes tens of milliseconds."""
    rows = []
    for tenant_id, skill_name in list(roll.book.skills):
        await asyncio.sleep(0)
        state = roll.book.skills.get((tenant_id, skill_name))
        if state is None or not state.head.runs:
            continue
        stats = roll.book.statistics((tenant_id, skill_name))
        found = next((each for each in stats.windows if each.window == window), None)
        standing = roll.advisor.standings.get((tenant_id, skill_name))
        row: dict[str, Any] = {"tenant": tenant_id, "skill": skill_name, "window": window, "as_of_us": stats.as_of_us}
        row.update({name: None if found is None else msgspec.to_builtins(getattr(found, name)) for name in _SUMMARY})
        row.update(streak=stats.streak, state=None if standing is None else str(standing.state))
        rows.append(row)
    return rows


def _others(roll: RollApp) -> list[str]:
    """Addresses of the other workers that own partitions of the outcomes topic."""
    me = str(roll.faust.conf.canonical_url).rstrip("/")
    known = roll.faust.router.external_topics_metadata()
    found = {str(url).rstrip("/") for url, topics in known.items() if topics.get(roll.settings.outcomes_topic)}
    return sorted(url if "://" in url else f"http://{url}" for url in found - {me})


def _answer(web: Any, body: Any, status: int = 200) -> Any:
    content = msgspec.json.encode(body)
    return web.bytes(content, content_type=_JSON, status=status, headers={"Cache-Control": "no-store"})
