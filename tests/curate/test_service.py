"""Curation as a service: what closes is published by itself, and a broken policy file stops nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.conftest import Eventually
from tests.curate.lab import OPEN, Lab, story
from trajlake.streams.curate.curator import Done
from trajlake.streams.curate.service import keep_curating
from trajlake.streams.settings import load_settings


def test_passes_follow_each_other_and_policies_are_read_anew(lab: Lab, tmp_path: Path, eventually: Eventually) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(OPEN.replace("allow: true", "allow: false"))
    settings = load_settings(root=lab.lake.uri, policies=str(policy))
    stop = threading.Event()
    done: list[Done] = []
    service = threading.Thread(target=keep_curating, args=(settings, 0.05, stop, done.append))
    lab.land(story("run-a"))
    service.start()
    try:
        eventually(lambda: len(done) == 1, 120, "the first verdict")
        assert (done[0].refused, done[0].reasons) == (1, {"purpose_not_allowed": 1})
        policy.write_text("version: 1\npolicies: [")
        lab.land(story("run-b"))
        policy.write_text(OPEN)
        eventually(lambda: set(lab.current()) == {"run-a", "run-b"}, 120, "both runs published")
    finally:
        stop.set()
        service.join(60)
    assert not service.is_alive()
