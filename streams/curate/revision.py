"""The revision of the code that judges, builds and exports: a hash of its source."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_PARTS: Final = ("transforms/curate", "transforms/policy", "transforms/gate", "transforms/exporters")
_HOME: Final = Path(__file__).resolve().parents[2]


@cache
def code_revision() -> str:
    """First 12 hex digits of the SHA-256 over the modules whose change may change a verdict, a row or an export."""
    digest = hashlib.sha256()
    for part in _PARTS:
        for path in sorted((_HOME / part).glob("*.py")):
            digest.update(f"{part}/{path.name}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
