"""`trajlake roll --rebuild` on a real Kafka: the state comes from the tables, and the command says how far it is."""

from __future__ import annotations

import re
import sys
import uuid
from pathlib import Path

import pytest

from tests.docs.lake import make_lake
from tests.landkit.terminal import Terminal, seen_at_last
from trajlake.reading.tables import open_lake

pytestmark = pytest.mark.integration


def test_a_rebuild_counts_every_run_of_the_lake_and_shows_how_far_it_is(broker: str, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    make_lake(root)
    name = uuid.uuid4().hex[:10]
    topics = ("outcomes_topic", "stats_topic", "decisions_topic", "roll_id")
    settings = {f"TRAJLAKE_{setting.upper()}": f"{setting.replace('_', '-')}-{name}" for setting in topics}
    words = ["roll", "--rebuild", "--root", str(root), "--bootstrap-servers", broker]
    at_once = "from trajlake.cli import main, progress; progress.PATIENCE_S = 0.0; main()"
    with Terminal([sys.executable, "-P", "-c", at_once, *words], 100, environment=settings) as terminal:
        assert terminal.finish(120) == 0, terminal.written
    assert re.search(
        r"(counting the runs of the lake|making the changelog anew|writing the changelog) ", terminal.written
    )
    runs = open_lake(str(root), storage_options={}).current_runs().collect()
    skills = runs.select("tenant_id", "skill_name").n_unique()
    told = seen_at_last(terminal.written)
    assert re.search(rf"^{skills} skills, {len(runs):,} runs$", told, re.MULTILINE), told
