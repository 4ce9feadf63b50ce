"""What tests share: one real broker a session, topics of their own, waiting by deadline, and the cases' folder."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import hypothesis
import pytest
import structlog

# How long an example takes says how busy the machine is, and nothing of the program.
hypothesis.settings.register_profile("trajlake", deadline=None)
hypothesis.settings.load_profile("trajlake")

REPO = Path(__file__).resolve().parent.parent
T = TypeVar("T")


class Eventually(Protocol):
    """`eventually(fn, timeout, what)`: the first true result of `fn`, asked again until `timeout` seconds are over."""

    def __call__(self, fn: Callable[[], T], timeout: float = 10.0, what: str = "") -> T: ...


class MakeTopic(Protocol):
    """`make_topic(partitions, config)`: the name of a new topic that no other test uses."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str: ...


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    """A developer's own settings must not change what the tests see."""
    kept = ("TRAJLAKE_CASES", "TRAJLAKE_TEST_BROKER")
    for name in [name for name in os.environ if name.startswith("TRAJLAKE_") and name not in kept]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """A command that runs within a test sets up logs on that test's stderr, which is closed behind it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def repo() -> Path:
    """The repository's root."""
    return REPO


@pytest.fixture(scope="session")
def cases() -> Path:
    """Folder of real runs and fault cases; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("TRAJLAKE_CASES") or REPO.parent / "shared" / "cases")
    if not folder.is_dir():
        pytest.skip("no folder of cases here; TRAJLAKE_CASES names one")
    return folder


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Bootstrap servers of a real Kafka that lives as long as the test session. Take a topic from `make_topic`.

    `TRAJLAKE_TEST_BROKER` names one that runs already (`trajlake broker start`), which saves its start each time.
    """
    from trajlake.streams.broker import EmbeddedBroker

    if running := os.environ.get("TRAJLAKE_TEST_BROKER"):
        yield running
        return
    with EmbeddedBroker() as embedded:
        yield embedded.bootstrap_servers


@pytest.fixture(scope="session")
def make_topic(broker: str) -> MakeTopic:
    from trajlake.streams.topics import ensure_topics

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"test-{uuid.uuid4().hex[:12]}"
        ensure_topics(broker, {name: partitions}, config=config)
        return name

    return make


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    def wait(fn: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
        deadline = time.monotonic() + timeout
        pause = 0.005
        while not (result := fn()):
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout:g} s: {what or fn}; last seen: {result!r}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)
        return result

    return wait
