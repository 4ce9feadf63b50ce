"""Pictures and archives inside events: kept as they are, and no hiding place for what stands beside them."""

from __future__ import annotations

import base64
import json
import random

import pytest

from trajlake.transforms.redact.media import LEAST_CHARS, blank_media, blank_media_bytes
from trajlake.transforms.redact.redactor import Redactor

PICTURE = b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(60_000)
ADDRESS = "jane" + "@" + "example.org"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def event(**data: str) -> bytes:
    return json.dumps({"type": "agent.tool.returned", "data": data}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "body",
    [base64.b64encode(PICTURE), base64.urlsafe_b64encode(PICTURE), b"A" * 5_000_000],
    ids=["standard", "url-safe", "zeros"],
)
def test_a_picture_calls_nothing_and_stays_as_it_is(redactor: Redactor, body: bytes) -> None:
    raw = event(content=f"data:image/png;base64,{body.decode()}")
    assert redactor.scan([raw]) == []
    assert redactor.redact_json(raw) == (raw, [])


def test_what_stands_beside_a_picture_is_found_in_its_place(redactor: Redactor) -> None:
    picture = base64.b64encode(PICTURE).decode()
    raw = event(before=f"mail {ADDRESS}", picture=picture, after=f"or {ADDRESS} again")
    assert redactor.scan([raw]) == [0]
    text, cuts = redactor.redact_json(raw)
    assert json.loads(text)["data"] == {
        "before": "mail [redacted:email]",
        "picture": picture,
        "after": "or [redacted:email] again",
    }
    assert sorted((cut.path, cut.count) for cut in cuts) == [("data.after", 1), ("data.before", 1)]


def test_what_stands_in_one_string_with_a_picture_is_found(redactor: Redactor) -> None:
    picture = base64.b64encode(PICTURE).decode()
    assert redactor.redact_text(f"{picture} {ADDRESS}") == f"{picture} [redacted:email]"


def test_text_behind_base64_is_still_searched_however_long(redactor: Redactor) -> None:
    letter = "Nothing to see here. " * 1500 + f"Write to {ADDRESS}. " + "Kind regards. " * 200
    encoded = base64.b64encode(letter.encode()).decode()
    assert len(encoded) > LEAST_CHARS
    redacted = redactor.redact_text(f"see {encoded} end")
    assert encoded not in redacted
    assert redacted.startswith("see ")
    assert redacted.endswith(" end")


def test_blanks_are_as_long_as_what_they_stand_for() -> None:
    text = f"é {base64.b64encode(PICTURE).decode()} x"
    assert len(blank_media(text)) == len(text)
    assert len(blank_media_bytes(text.encode())) == len(text.encode())
    assert blank_media(text).split() == ["é", "x"]
