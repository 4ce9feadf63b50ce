"""Every run that is imported begins with its start, also where its file has lost its head: curation refuses others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.conftest import ImportContents


@pytest.mark.parametrize("folder", ["claude_code", "atif"])
def test_every_run_of_a_file_begins_with_its_start(
    import_contents: ImportContents, runs_folder: Path, folder: str
) -> None:
    files = {path.name: path.read_bytes() for path in sorted((runs_folder / folder).iterdir())}
    done = import_contents(files)
    assert done.runs
    for run in done.runs:
        first = done.run(run)[0]
        assert (first["type"], first["sequence"]) == ("agent.run.started", 1), run


@pytest.mark.parametrize("lost", [1, 2, 3, 5])
def test_a_session_that_lost_its_first_records_has_a_start_all_the_same(
    import_contents: ImportContents, runs_folder: Path, lost: int
) -> None:
    text = (runs_folder / "claude_code" / "tool_call_conversation.jsonl").read_bytes()
    done = import_contents({"rest.jsonl": b"".join(text.splitlines(keepends=True)[lost:])}, format="claude-code")
    assert [done.run(run)[0]["type"] for run in done.runs] == ["agent.run.started"] * len(done.runs)
