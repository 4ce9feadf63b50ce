"""A tenant's own tier file, kept as it came: one object a tenant below the lake's root. The newest import counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trajlake.sinks.lake import Lake


def save_tier_file(lake: Lake, tenant_id: str, text: bytes) -> None:
    """Keep a tenant's tier file; a former one is replaced."""
    lake.store.put(lake.tier_file_path(tenant_id), text)


def load_tier_file(lake: Lake, tenant_id: str) -> bytes | None:
    """A tenant's tier file as it was imported; None where none was."""
    from obstore.exceptions import NotFoundError

    try:
        return bytes(lake.store.get(lake.tier_file_path(tenant_id)).bytes())
    except (FileNotFoundError, NotFoundError):
        return None
