"""Erasure by the id that people know, where redaction has put a pseudonym in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.keeping.conftest import Landed, RunCommand
from tests.keeping.people import run_of
from tests.landkit.checker import read
from trajlake.streams.keeping.forget import forget, request
from trajlake.streams.keeping.proof import prove_absence
from trajlake.streams.keeping.subjects import forms_of
from trajlake.streams.redaction import redactor_for
from trajlake.streams.settings import Settings, load_settings
from trajlake.transforms.landing.rules import LandRules

ADDRESS = "jane.roe" + "@" + "example-mail.org"


def keyed(folder: Path) -> Settings:
    """Settings with a key of pseudonyms."""
    (folder / "key").write_text("k" * 40)
    return load_settings(root=str(folder / "lake"), redaction_key_file=str(folder / "key"))


def test_a_subject_known_by_a_mail_address_is_found_by_its_pseudonym(
    tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = keyed(tmp_path)
    landed = Landed(tmp_path / "lake", rules=LandRules(redactor=redactor_for(settings)))
    landed.land([*run_of(ADDRESS, "p-1"), *run_of("jane.doe" + "@" + "example-mail.org", "q-1")])
    (stored,) = {row["subject_id"] for row in read(landed.root, "runs") if row["run_id"] == "p-1"}
    assert stored.startswith("[email:")
    monkeypatch.setenv("TRAJLAKE_REDACTION_KEY_FILE", str(tmp_path / "key"))
    done = run_command("forget", "--tenant", "acme", "--subject", ADDRESS, "--root", landed.root)
    assert done.exit_code == 0, done.output
    assert prove_absence(landed.lake, ["p-1", stored, ADDRESS]).absent
    assert {row["run_id"] for row in read(landed.root, "runs")} == {"q-1"}
    assert stored not in done.output
    landed.ledger.close()


def test_forms_are_those_under_which_the_subject_may_stand(tmp_path: Path) -> None:
    settings = keyed(tmp_path)
    plain = forms_of(settings, "acme", "u-381")
    assert plain.names == ("u-381",)
    assert not plain.is_marked
    named = forms_of(settings, "acme", ADDRESS)
    assert named.names[0] == ADDRESS
    assert len(named.names) == 2
    assert forms_of(settings, "other", ADDRESS).names[1] != named.names[1]
    # The pseudonym itself is a name too.
    assert forms_of(settings, "acme", named.names[1]).names == (named.names[1],)


def test_a_marker_that_everybody_shares_is_no_form(tmp_path: Path) -> None:
    marked = forms_of(load_settings(root=str(tmp_path)), "acme", ADDRESS)
    assert marked.names == (ADDRESS,)
    assert marked.is_marked


def test_whoever_shares_a_marker_with_the_erased_stays(tmp_path: Path) -> None:
    settings = load_settings(root=str(tmp_path / "lake"))
    landed = Landed(tmp_path / "lake", rules=LandRules(redactor=redactor_for(settings)))
    landed.land([*run_of(ADDRESS, "p-1"), *run_of("jane.doe" + "@" + "example-mail.org", "q-1")])
    form = forms_of(settings, "acme", ADDRESS)
    forget(landed.lake, request(landed.lake, "acme", subject_id=ADDRESS, forms=form.names))
    assert {row["run_id"] for row in read(landed.root, "runs")} == {"p-1", "q-1"}
    landed.ledger.close()
