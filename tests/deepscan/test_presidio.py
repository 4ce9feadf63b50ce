"""Presidio as the detector: what it finds and leaves, and what it is not let do."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("presidio_analyzer")

from trajlake.expectations.deep_scan import ENTITIES
from trajlake.streams.deepscan import presidio
from trajlake.streams.deepscan.presidio import Detector, Unsure, make_detector
from trajlake.streams.deepscan.scanner import Scanner
from trajlake.streams.settings import SettingError
from trajlake.transforms.curate.evidence import Text

THRESHOLD = 0.7
# Put together here, so that no file of the project holds a number that looks like somebody's.
SSN = "-".join(["456", "78", "9012"])
RRN = "-".join(["900101", "1234568"])
CARD = " ".join(["4111", "1111", "1111", "1111"])
IBAN = " ".join(["DE89", "3704", "0044", "0532", "0130", "00"])
NHS = " ".join(["943", "476", "5919"])
PHONE = "-".join(["212", "555", "0187"])
MOBILE = "-".join(["010", "2345", "6789"])


@pytest.fixture(scope="module")
def detector() -> Detector:
    return make_detector(THRESHOLD)


def kinds(detector: Detector, text: str) -> set[str]:
    return {found.entity_type for found in detector.find(text)}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("EMAIL_ADDRESS", "ask jane.roe@example.org about it"),
        ("EMAIL_ADDRESS", "메일은 jane.roe@example.co.kr 입니다"),
        ("IBAN_CODE", f"transfer to {IBAN} today"),
        ("CREDIT_CARD", f"my credit card is {CARD}"),
        ("CREDIT_CARD", f"카드번호는 {CARD} 예요"),
        ("PHONE_NUMBER", f"her phone: {PHONE}"),
        ("PHONE_NUMBER", f"휴대폰 {MOBILE} 으로 연락"),
        ("PHONE_NUMBER", f'"customer_phone":"{PHONE}"'),
        ("US_SSN", f"SSN {SSN}"),
        ("UK_NHS", f"NHS number {NHS}"),
        ("KR_RRN", f"{RRN}"),
        ("IP_ADDRESS", "the ip 203.0.113.7 logged in"),
    ],
)
def test_finds_what_is_somebodys(detector: Detector, kind: str, text: str) -> None:
    assert kind in kinds(detector, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"tool_call_id":"call_1","created_at":1749650492}',
        "number of calls: 1749650492, success",
        "01a23059-8961-7304-a01d-4ef726df08e3",
        "sha256:9b2cf535f27731c974343645a3985328c0d2a3b3f0b1a5d4e6c7f8091a2b3c4d",
        "version 1.2.3.4 of 2026-10-09 23:59:01",
        "phone_id 2023-10-09 23:59:00",
        "order 4111-2222-3333-4445 success",
        "the patient answered in 9434765919 ns",
        "[redacted:email] and [redacted:phone] wrote",
        "",
    ],
)
def test_leaves_what_has_no_more_than_a_check_digit(detector: Detector, text: str) -> None:
    assert kinds(detector, text) == set()


def test_every_entity_type_of_the_table_has_its_recognizer() -> None:
    every = make_detector(THRESHOLD, [entity.name for entity in ENTITIES])
    assert "DATE_TIME" in kinds(every, "2026-10-09T23:59:01Z")


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert kinds(make_detector(0.61), "jane.roe@example.co.uk") == {"EMAIL_ADDRESS"}


def test_a_pattern_that_runs_out_of_time_ends_the_scan(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    from presidio_analyzer import pattern_recognizer

    monkeypatch.setattr(pattern_recognizer, "REGEX_TIMEOUT_SECONDS", 1e-9)
    text = "x1234 " * 600
    with pytest.raises(Unsure):
        detector.find(text)
    assert Scanner(detector, 10**6, 60).scan([Text("input", text)]).failure == "error: Unsure"


def test_patterns_have_a_bound_that_is_seconds(detector: Detector) -> None:
    from presidio_analyzer import pattern_recognizer
    from presidio_analyzer.predefined_recognizers.generic import iban_recognizer

    assert pattern_recognizer.REGEX_TIMEOUT_SECONDS == presidio.PATTERN_S
    assert iban_recognizer.REGEX_TIMEOUT_SECONDS == presidio.PATTERN_S


def test_nothing_that_presidio_would_tell_reaches_a_log(
    detector: Detector, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        detector.find(f"ask jane.roe@example.org, phone {PHONE}, SSN {SSN}, {IBAN}")
        with pytest.raises(Unsure):
            logging.getLogger("presidio-analyzer").error("Failed to validate text %s", SSN)
    told = caplog.text + "".join(capfd.readouterr())
    assert SSN not in told
    assert "jane.roe" not in told


def test_the_revision_is_that_of_what_decides(detector: Detector) -> None:
    assert make_detector(THRESHOLD).revision == detector.revision
    others = {make_detector(0.5).revision, make_detector(THRESHOLD, ["EMAIL_ADDRESS"]).revision, detector.revision}
    assert len(others) == 3


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of spaCy made here: it knows one name."""
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Jane Roe"}])
    nlp.to_disk(tmp_path / "names")
    return tmp_path / "names"


def test_a_model_that_is_installed_finds_names(model: Path, detector: Detector) -> None:
    named = make_detector(THRESHOLD, model=str(model))
    assert kinds(named, "Then Jane Roe said so.") == {"PERSON"}
    assert kinds(named, f"SSN {SSN}") == {"US_SSN"}
    assert named.revision != detector.revision


def test_a_model_that_is_not_installed_is_an_error_and_is_not_fetched() -> None:
    with pytest.raises(SettingError, match=r"deep_scan_model.*no spaCy model 'xx_none' is installed"):
        make_detector(THRESHOLD, model="xx_none")


def test_presidio_is_imported_only_where_a_policy_asks(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\npolicies: [{id: a, purposes: {train: {allow: true, deep_scan: skip}}}]\n")
    code = (
        "import sys\n"
        "from trajlake.streams.curate.service import curator_of\n"
        "from trajlake.streams.settings import load_settings\n"
        f"curator = curator_of(load_settings(root={str(tmp_path / 'lake')!r}, policies={str(policy)!r}))\n"
        "assert curator.rules.scanner is None\n"
        "print([name for name in ('presidio_analyzer', 'spacy', 'tldextract') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
