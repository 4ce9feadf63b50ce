"""The web application: routes, headers, and who may look.

Read-only: every route answers GET and HEAD. Nothing is loaded from elsewhere: the policy of content names this origin
alone, and pages work without scripts.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajlake.dashboard.board import REFRESH_S, BoardKeeper
from trajlake.dashboard.flowwatch import FlowWatch
from trajlake.dashboard.lakewatch import LakeWatch
from trajlake.dashboard.pages import PAGES, failed, lag_words, not_found
from trajlake.streams.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import Settings

HERE: Final = Path(__file__).parent
COOKIE: Final = "trajlake_token"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OPEN_PATHS: Final = ("/live", "/ready")


@dataclass(frozen=True)
class Access:
    """Who may look. `token`: what a reader has to show, None on loopback. `tenant`: the only tenant that is shown.
    `hosts`: names under which the server answers (others are refused, so that no page elsewhere can reach it)."""

    token: str | None = None
    tenant: str | None = None
    hosts: Sequence[str] = field(default_factory=lambda: list(LOOPBACK))


def make_app(
    lake: LakeTables,
    *,
    access: Access | None = None,
    environment: str = "local",
    refresh_s: float = REFRESH_S,
    settings: Settings | None = None,
) -> Starlette:
    """The application over one lake. It reads the tables once before it answers.

    settings: where Kafka and the workers are asked how far behind and how well they are; nobody is asked when None.
    """
    access = access or Access()
    keeper = BoardKeeper(lake, refresh_s)
    watch = LakeWatch(lake.lake, keeper)
    flow = None if settings is None else FlowWatch(lake.lake, settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        keeper.start()
        watch.start()
        if flow is not None:
            flow.start()
        try:
            yield
        finally:
            if flow is not None:
                flow.stop()
            watch.stop()
            keeper.stop()

    app = Starlette(
        routes=[
            *(Route(path, page, methods=["GET"], name=page.__name__) for path, page in PAGES),
            Route("/changes", changes, methods=["GET"]),
            Route("/live", live, methods=["GET"]),
            Route("/ready", ready, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Mount("/static", StaticFiles(directory=HERE / "static"), name="static"),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(access.hosts)),
            Middleware(Guard, access=access),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5),
        ],
        exception_handlers={404: not_found},
        lifespan=lifespan,
    )
    app.state.keeper = keeper
    app.state.watch = watch
    app.state.flow = flow
    app.state.lake = lake
    app.state.access = access
    app.state.environment = environment
    return app


async def changes(request: Request) -> JSONResponse:
    """Whether a page made from the board `since` (`<boot>:<number>`) is still the newest.

    A cursor of another boot is always old: numbers of two processes cannot be compared.
    """
    board = request.app.state.keeper.board.of_tenant(request.app.state.access.tenant)
    return JSONResponse(
        {
            "cursor": board.cursor,
            "changed": request.query_params.get("since") != board.cursor,
            "lag": lag_words(request),
            "failure": board.failure,
        }
    )


async def live(request: Request) -> PlainTextResponse:
    return PlainTextResponse("live\n")


async def ready(request: Request) -> PlainTextResponse:
    """Ready while the tables can be read."""
    failure = request.app.state.keeper.board.failure
    return PlainTextResponse("the tables cannot be read\n" if failure else "ready\n", 503 if failure else 200)


async def metrics(request: Request) -> Response:
    """Figures of the whole lake, for Prometheus. A dashboard of one tenant has none to show."""
    if request.app.state.access.tenant is not None:
        return PlainTextResponse("a dashboard of one tenant shows no figures of the whole lake\n", 404)
    return Response(request.app.state.watch.metrics(), media_type=CONTENT_TYPE)


class Guard:
    """Shows nothing to readers without the token, and puts the security headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        try:
            await (refusal or self._app)(scope, receive, send_guarded)
        except Exception as error:
            answer = await run_in_threadpool(failed, request, error)
            if not begun:
                await answer(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        token = self._access.token
        # Not `request.url`, which is made of what the reader says that this host is called.
        path: str = request.scope["path"]
        if token is None or path in OPEN_PATHS or path.startswith("/static/"):
            return None
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), token.encode()):
            # The token leaves the address at once: addresses are shared, and kept in histories.
            left = request.url.remove_query_params("token")
            response = RedirectResponse(f"{left.path or '/'}{'?' * bool(left.query)}{left.query}", 303)
            secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
            return response
        shown = request.cookies.get(COOKIE) or request.headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(shown.encode(), token.encode()):
            return None
        return PlainTextResponse("a token is needed: open /?token=..., or send Authorization: Bearer ...\n", 401)
