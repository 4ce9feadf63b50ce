"""Policies of a process: the files that its settings name, and where it may write.

A file, or every `*.yaml` and `*.yml` of a folder. They are read once, when the process starts.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from trajlake.expectations.policies import (
    PolicyError,
    PolicySet,
    PolicyText,
    Problem,
    default_policies,
    policy_set,
    read_policies,
)
from trajlake.streams.settings import SettingError, Settings
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.policy.place import WritePlace

_SUFFIXES: Final = (".yaml", ".yml")
_MAX_BYTES: Final = 4 << 20


def governance(settings: Settings) -> Governance:
    """Policies and place of a process by its settings. Raises `SettingError` with file, line and field."""
    try:
        policies = load_policies(settings.policies)
    except PolicyError as error:
        raise SettingError("policies", str(error)) from None
    place = WritePlace(zone=settings.zone or None, tenant_id=settings.dedicated_to or None)
    return Governance(policies, place, code_version())


def training_place(settings: Settings) -> WritePlace:
    """Where the training zone lies, as policies see it."""
    zone = settings.training_zone or settings.zone
    return WritePlace(zone=zone or None, tenant_id=settings.training_tenant or settings.dedicated_to or None)


def code_version() -> str:
    """Version of trajlake that decides."""
    try:
        return version("trajlake")
    except PackageNotFoundError:
        return "unknown"


def load_policies(place: str) -> PolicySet:
    """The policies of a file or folder, on top of the defaults; an empty `place` means the defaults alone.

    Raises `PolicyError` with file, line and field of everything that is wrong.
    """
    if not place:
        return default_policies()
    return policy_set(read_policy_files(Path(place)))


def read_policy_files(place: Path) -> list[PolicyText]:
    """Read and check each file by itself. Raises `PolicyError`."""
    texts: list[PolicyText] = []
    problems: list[Problem] = []
    for path in policy_files(place):
        try:
            texts.append(read_policies(str(path), _text(path)))
        except PolicyError as error:
            problems += error.problems
    if problems:
        raise PolicyError(problems)
    return texts


def policy_files(place: Path) -> list[Path]:
    """The files that a place stands for, in the order of their names. Raises `PolicyError` where there is none."""
    if not place.is_dir():
        return [place]
    shown = [path for path in place.iterdir() if not path.name.startswith(".")]
    for below in sorted(path for path in shown if path.is_dir()):
        if any(path.suffix.lower() in _SUFFIXES for path in below.rglob("*")):
            # Not read, and a policy that nobody reads must not look as if it held.
            raise PolicyError([Problem(str(below), 1, "file", "folders in a folder of policies are not read")])
    found = sorted(path for path in shown if path.suffix.lower() in _SUFFIXES and not path.is_dir())
    if not found:
        # A folder that was mistaken for another must not mean "no policies".
        raise PolicyError([Problem(str(place), 1, "file", "the folder holds no *.yaml file")])
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PolicyError([Problem(str(path), 1, "file", f"is larger than {_MAX_BYTES:,} bytes")])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError([Problem(str(path), 1, "file", error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise PolicyError([Problem(str(path), line, "file", "is not UTF-8")]) from None
