"""`trajlake dashboard`: the pages that show which skill needs attention, and why."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated

import typer

from trajlake.cli.options import RootOption
from trajlake.cli.output import USAGE, fail, note

TOKEN_VARIABLE = "TRAJLAKE_DASHBOARD_TOKEN"
SHUTDOWN_S = 1


def register(app: typer.Typer) -> None:
    """Add `dashboard`."""
    app.command("dashboard")(dashboard)


def dashboard(
    root: RootOption = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Show this tenant and no other.")] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="HOST", help="Host name that readers use; may be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help=f"Token of readers [else ${TOKEN_VARIABLE}].")
    ] = None,
    environment: Annotated[str, typer.Option("--environment", help="Word in the header of each page.")] = "local",
) -> None:
    """Serve the dashboard over the lake, read-only. On loopback it is open; elsewhere readers need a token.

    Example: trajlake dashboard --root ./lake --port 8765
    """
    try:
        import uvicorn

        from trajlake.dashboard.app import LOOPBACK, Access, make_app
    except ModuleNotFoundError as error:
        fail(f"the dashboard needs the package {error.name}: pip install 'trajlake[dashboard]'", USAGE)
    from trajlake.reading.tables import open_lake
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    configure_logs(settings)
    token = _token(token_file)
    if not _is_loopback(host) and token is None:
        fail(f"{host} can be reached from elsewhere: give a token by --token-file or {TOKEN_VARIABLE}", USAGE)
    access = Access(token, tenant, [*LOOPBACK, host, *(name or ())])
    lake = open_lake(settings.root, storage_options=settings.storage_options)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(lake, access=access, environment=environment, settings=settings), host=host, port=port,
            log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=SHUTDOWN_S,
        )
    )  # fmt: skip
    _serve(server, host)


def _serve(server: object, host: str) -> None:
    """Listen, say where, and serve until a signal comes."""
    import asyncio
    import socket

    import uvicorn

    assert isinstance(server, uvicorn.Server)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, server.config.port))
    except OSError as error:
        fail(f"cannot listen on {host}:{server.config.port}: {error.strerror}; --port 0 takes a free one")
    port = listener.getsockname()[1]
    note(f"dashboard: http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C stops it)")
    asyncio.run(server.serve(sockets=[listener]))


def _token(path: Path | None) -> str | None:
    text = os.environ.get(TOKEN_VARIABLE)
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            fail(f"--token-file {path}: {error.strerror}", USAGE)
    text = text.strip() if text else None
    if text is not None and len(text) < 16:
        fail("the token is too short: 16 characters at least", USAGE)
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
