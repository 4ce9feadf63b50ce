"""What a service last said, how a system is drawn, and what a health endpoint's answer comes to."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trajlake.machine.process import last_words
from trajlake.machine.supervisor import State
from trajlake.machine.view import draw, spoken
from trajlake.streams.broker import free_port
from trajlake.streams.probing import ask_ready


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("first\nlast\n\n", "last"),
        ('{"event": "stopped", "landed": 3}\n', "stopped"),
        ('{"event": "tables wait", "reason": "disk full"}\n', "tables wait disk full"),
        ("[1, 2]\n", "[1, 2]"),
        ("", ""),
    ],
)
def test_the_last_line_that_says_something_is_found(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log") == words
    assert last_words(tmp_path / "absent") == ""


@pytest.fixture
def endpoint() -> Iterator[tuple[str, dict[str, Any]]]:
    answer: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer["code"])
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/ready", answer
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("code", "body", "found"),
    [
        (200, json.dumps({"ready": True, "problems": [], "lag_records": 1200}), (True, "1,200 records behind")),
        (503, json.dumps({"ready": False, "problems": ["worker 0: disk full"]}), (False, "worker 0: disk full")),
        (200, json.dumps({"ready": True, "problems": [], "skills": 7}), (True, "7 skills")),
        (200, "ready\n", (True, "ready")),
        (500, "", (False, "HTTP 500")),
        (200, "[]", (True, "")),
        (503, "null", (False, "HTTP 503")),
    ],
)
def test_an_answer_of_a_health_endpoint_becomes_a_state(
    endpoint: tuple[str, dict[str, Any]], code: int, body: str, found: tuple[bool, str]
) -> None:
    url, answer = endpoint
    answer.update(code=code, body=body.encode())
    assert ask_ready(url, 5) == (found[0], True, found[1])


def test_an_endpoint_that_is_not_there_is_not_ready() -> None:
    answer = ask_ready(f"http://127.0.0.1:{free_port()}/ready", 5)
    assert (answer.ready, answer.answered) == (False, False)
    assert answer.says.startswith("does not answer")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_picture_fits_the_terminal(width: int) -> None:
    states = [
        State("kafka", "ready", 0.0, 123456, 0, "127.0.0.1:9092"),
        State("land", "ended", 90.0, None, 3, "exit code 1; " + "very long words " * 30),
    ]
    screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    screen.print(draw(states, ["Ctrl-C stops everything."], 100.0, width))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width
    assert "kafka" in shown
    assert "ended" in shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")]
)
def test_a_length_of_time_in_two_units(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


@pytest.mark.parametrize("said", [b"SSH-2.0-other\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"])
def test_another_service_or_a_broken_answer_is_not_ready(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            there, _ = server.accept()
            with there:
                there.recv(4096)
                there.sendall(said)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert not ask_ready(f"http://127.0.0.1:{server.getsockname()[1]}/ready", 5).ready
        thread.join(10)
