"""What `land` finds out before it starts workers: a root that can never work is said at once, with exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trajlake.sinks.deltalog import LONGEST_WAIT_S, wait_after
from trajlake.streams.land.preflight import check_root
from trajlake.streams.settings import SettingError, load_settings


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    check_root(load_settings(root=str(tmp_path / "new" / "lake")))
    assert (tmp_path / "new" / "lake").is_dir()
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]


@pytest.mark.parametrize("blocked", ["lake", "lake/restricted", "lake/quarantine", "lake/_state"])
def test_a_file_in_the_way_is_named(tmp_path: Path, blocked: str) -> None:
    path = tmp_path / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    with pytest.raises(SettingError, match=rf"setting root .*{blocked}.* no folder that can be written"):
        check_root(load_settings(root=str(tmp_path / "lake")))


def test_a_place_that_takes_no_folders_is_named() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("no such place here")
    with pytest.raises(SettingError, match="setting root"):
        check_root(load_settings(root="/proc/lake"))


def test_a_store_that_is_only_away_passes() -> None:
    options = {"aws_endpoint": "http://127.0.0.1:9", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    for connection in ("aws_allow_http", "AWS_ALLOW_HTTP", "allow_http"):
        told = {**options, "AWS_REGION": "us-east-1", "conditional_put": "etag", connection: "true", "timeout": "30s"}
        check_root(load_settings(root="s3://bucket/lake", storage_options=told))


def test_options_that_no_store_knows_are_named_as_a_setting() -> None:
    with pytest.raises(SettingError, match="setting storage_options"):
        check_root(load_settings(root="s3://bucket/lake", storage_options={"aws_no_such_option": "secret"}))


@pytest.mark.parametrize("root", ["ftp://host/lake", "FILE"])
def test_land_ends_with_one_line_and_exit_code_2(tmp_path: Path, root: str) -> None:
    if root == "FILE":
        (tmp_path / "lake").write_text("in the way")
        root = str(tmp_path / "lake")
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", "land", "--root", root, "--bootstrap-servers", "127.0.0.1:1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "setting root" in done.stderr


def test_waits_after_lost_races_grow_to_a_limit_and_leave_nothing_to_chance() -> None:
    waits = [wait_after(lost) for lost in range(1, 40)]
    assert waits[:3] == [0.0, 0.0, 0.0]
    assert waits == sorted(waits) == [wait_after(lost) for lost in range(1, 40)]
    assert max(waits) == LONGEST_WAIT_S
