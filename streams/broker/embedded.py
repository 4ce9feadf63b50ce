"""The embedded broker: a real Apache Kafka in a process of its own, on loopback, with its data in one folder.

For the demo, tests and benchmarks, and for a first look without containers. One node is broker and controller (KRaft);
transactions, consumer groups and compaction work as on a cluster. Nothing expires unless a property says so.

    with EmbeddedBroker() as broker:
        produce(broker.bootstrap_servers)

The folder holds `server.properties`, `broker.log`, `broker.json` (pid and ports) and `data/`.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from trajlake.streams.broker.errors import BrokerError
from trajlake.streams.broker.ports import HOST, free_port, is_free
from trajlake.streams.broker.properties import server_properties
from trajlake.streams.broker.record import Record, new_cluster_id, read_record, write_record
from trajlake.streams.broker.runtime import Runtime, fetch_runtime

DEFAULT_HEAP_MB = 512
LOG_TAIL_LINES = 15
LAUNCHES = 3
POLL_S = 0.05

_QUIET = logging.Logger("trajlake.streams.broker.probe", level=logging.CRITICAL + 1)


@dataclass(frozen=True)
class BrokerStatus:
    """What is known of a broker's folder: whether its process lives, and where it answers."""

    running: bool
    pid: int | None
    bootstrap_servers: str | None
    folder: str
    log: str


class EmbeddedBroker:
    """One broker and its folder. A second object on the same folder sees, and can stop, the same broker.

    folder: where everything lies; None makes a temporary one, removed by `stop`.
    port: 0 takes the port of the folder's last start, or a free one.
    properties: Kafka broker properties that replace the defaults of `properties.py`.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        port: int = 0,
        heap_mb: int = DEFAULT_HEAP_MB,
        properties: Mapping[str, str] | None = None,
        jvm_options: tuple[str, ...] = (),
    ) -> None:
        self._temporary = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="trajlake-broker-")).absolute()
        self._port = port
        self._heap_mb = heap_mb
        self._properties = dict(properties or {})
        self._jvm_options = jvm_options
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"

    @property
    def _config_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def pid(self) -> int | None:
        """Process id while the broker's process lives, else None."""
        process = self._process()
        return process.pid if process else None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients. Raises BrokerError before the first start."""
        port = self._read().port
        if not port:
            raise BrokerError(f"the broker in {self.folder} has never been started")
        return f"{HOST}:{port}"

    def status(self) -> BrokerStatus:
        record, pid = self._read(), self.pid
        servers = f"{HOST}:{record.port}" if record.port and pid else None
        return BrokerStatus(pid is not None, pid, servers, str(self.folder), str(self.log_path))

    def start(self, timeout_s: float = 120.0) -> str:
        """Start the broker, or find it running, and return its bootstrap servers once it answers for metadata.

        Raises BrokerError with the tail of its log when it ends, or does not answer within `timeout_s`;
        JarsError when Java or Kafka's jars are not to be had.
        """
        self._make_folder()
        with self._locked():
            record = self._read()
            if self._process() is not None:
                self._await_answer(record, timeout_s)
                return f"{HOST}:{record.port}"
            runtime = fetch_runtime()
            for launches_left in reversed(range(LAUNCHES)):
                record = self._launch(runtime, self._read())
                try:
                    self._await_answer(record, timeout_s)
                    break
                except BrokerError as error:
                    # Somebody took the port between our look and the broker's bind: look again.
                    if not launches_left or not any("Address already in use" in line for line in error.log_tail):
                        raise
        return f"{HOST}:{record.port}"

    def stop(self, timeout_s: float = 20.0) -> bool:
        """Stop the broker cleanly (SIGTERM), by force after `timeout_s`. Returns whether one was running."""
        ran = self._end(signal.SIGTERM, timeout_s)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
        return ran

    def kill(self) -> bool:
        """End the broker at once (SIGKILL), as a crash would. Its data stays, `start` recovers it."""
        return self._end(signal.SIGKILL, 10.0)

    # -- starting ------------------------------------------------------------------------------------------------

    def _launch(self, runtime: Runtime, record: Record) -> Record:
        port = self._port or record.port
        if not port or (not self._port and not is_free(port)):
            port = free_port()
        record = Record(
            port=port,
            controller_port=free_port(),
            cluster_id=record.cluster_id or new_cluster_id(),
        )
        if not is_free(record.port):
            raise BrokerError(f"port {record.port} is taken by another process; give another one, or 0 for a free one")
        config = server_properties(self.folder / "data", record.port, record.controller_port, self._properties)
        self._config_path.write_text(config, encoding="utf-8")
        # Kafka's rule: a data folder is formatted once; formatting again would need an empty one.
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(runtime, record)
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [*self._java(runtime), "kafka.Kafka", str(self._config_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                # Its own session: Ctrl-C in a terminal reaches us, and we stop it after its clients.
                start_new_session=True,
            )
        record.pid = self._child.pid
        write_record(self.folder, record)
        return record

    def _java(self, runtime: Runtime) -> list[str]:
        return runtime.command(self._heap_mb, self.folder / "tmp", self._jvm_options)

    def _format(self, runtime: Runtime, record: Record) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", record.cluster_id, "-c", str(self._config_path)]
        command = [part for part in self._java(runtime) if not part.startswith("-XX:AOTCacheOutput")]
        done = subprocess.run(
            [*command, *tool], stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder, check=False
        )
        if done.returncode:
            tail = _last_lines((done.stdout + done.stderr).decode(errors="replace"))
            raise BrokerError(
                f"cannot format {self.folder / 'data'} for Kafka; empty that folder or give another", tail
            )

    def _await_answer(self, record: Record, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while (answer := _cluster_id(f"{HOST}:{record.port}")) != record.cluster_id:
            if answer is not None:
                raise BrokerError(
                    f"another Kafka answers on port {record.port}; give another port, or 0 for a free one"
                )
            if self._process() is None:
                self._forget()
                raise BrokerError(f"the broker ended while it started; its log is {self.log_path}", self.log_tail())
            if time.monotonic() > deadline:
                self._end(signal.SIGKILL, 10.0)
                raise BrokerError(
                    f"the broker did not answer within {timeout_s:g} s; its log is {self.log_path}", self.log_tail()
                )
            time.sleep(POLL_S)

    # -- ending --------------------------------------------------------------------------------------------------

    def _end(self, sign: signal.Signals, timeout_s: float) -> bool:
        process = self._process()
        if process is None:
            self._forget()
            return False
        with suppress(psutil.NoSuchProcess):
            process.send_signal(sign)
            if not self._is_gone(process, timeout_s):
                process.kill()
                if not self._is_gone(process, 10.0):
                    raise BrokerError(f"process {process.pid} of the broker does not end; its log is {self.log_path}")
        self._forget()
        return True

    def _is_gone(self, process: psutil.Process, timeout_s: float) -> bool:
        try:
            if self._child is not None and self._child.pid == process.pid:
                self._child.wait(timeout_s)
            else:
                process.wait(timeout_s)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            return False
        return True

    # -- the folder ----------------------------------------------------------------------------------------------

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> tuple[str, ...]:
        """The last lines of the broker's log, stack frames left out, oldest first."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - 64 * 1024))
                return _last_lines(log.read().decode(errors="replace"), lines)
        except OSError:
            return ()

    def _process(self) -> psutil.Process | None:
        """The broker's process if it lives. A pid that another program got since is not taken for it."""
        pid = self._read().pid
        if pid is None:
            return None
        if self._child is not None and self._child.pid == pid and self._child.poll() is not None:
            return None
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return process if str(self._config_path) in process.cmdline() else None
        except psutil.Error:
            return None

    def _make_folder(self) -> None:
        try:
            for part in ("data", "tmp"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerError(
                f"cannot make the broker's folder {self.folder}: {error.strerror}; give another"
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # Two starts at once on one folder: the second waits and then finds the broker running.
        with (self.folder / "start.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _read(self) -> Record:
        return read_record(self.folder)

    def _forget(self) -> None:
        record = self._read()
        if record.pid is not None:
            record.pid = None
            write_record(self.folder, record)
        self._child = None


def _cluster_id(servers: str) -> str | None:
    """The id of the cluster that answers there and has a broker ready, else None."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 50,
        # A refused connection is the expected answer while the broker starts, not news.
        "log_level": 0,
        "logger": _QUIET,
    }
    try:
        metadata = AdminClient(options).list_topics(timeout=1.0)
    except KafkaException:
        return None
    return metadata.cluster_id if metadata.brokers else None


def _last_lines(text: str, count: int = LOG_TAIL_LINES) -> tuple[str, ...]:
    said = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return tuple(said[-count:])
