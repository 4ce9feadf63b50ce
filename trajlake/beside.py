"""Where what belongs to a lake, and must not lie in it, is kept on this machine."""

from __future__ import annotations

import re
from pathlib import Path


def beside(root: str, what: str) -> Path:
    """Folder `.trajlake/<what>/<name of the lake>`: beside a local lake, or below the current folder when the lake is
    in an object store."""
    if "://" in root:
        return Path(".trajlake").absolute() / what / re.sub(r"[^A-Za-z0-9.]+", "-", root)
    return Path(root).parent / ".trajlake" / what / (Path(root).name or "root")
