"""Where a tenant's stored content lies: never outside the zone, never in another tenant's folder."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from trajlake.sinks.lake import Lake
from trajlake.sinks.payloads import read_payload, write_payloads
from trajlake.transforms.records import Payload

SHA = "a" * 64
TENANTS = st.text(min_size=0, max_size=1024) | st.sampled_from(
    ["..", ".", "~", "_none", "a/b", "ACME", "acme", "한" * 128]
)


@given(TENANTS)
def test_every_tenant_has_a_folder_of_its_own_that_any_store_can_name(tenant: str) -> None:
    parts = PurePosixPath(Lake.payload_path(tenant, SHA)).parts
    assert parts[:2] == ("restricted", "_payloads")
    assert parts[3:] == ("aa", SHA)
    assert len(parts[2].encode()) <= 64
    assert parts[2] not in {".", ".."}


@given(TENANTS, TENANTS)
def test_two_tenants_never_share_a_folder(one: str, other: str) -> None:
    same = Lake.payload_path(one, SHA).lower() == Lake.payload_path(other, SHA).lower()
    assert same == (one == other)


def test_content_of_a_tenant_with_a_hostile_name_is_stored_and_read_back(tmp_path: str) -> None:
    import hashlib

    lake = Lake(str(tmp_path))
    content = b"large"
    digest = hashlib.sha256(content).hexdigest()
    assert write_payloads(lake, [Payload("..", digest, content)]) == 1
    assert read_payload(lake, "..", digest) == content
