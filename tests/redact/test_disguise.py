"""Secrets that are not written plainly: encoded, escaped, with characters that are not seen or look alike."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.redact.planted import clean, drawn, landed, redactor, rrn, tokens, written

TOKEN = tokens(21)[0].text
SENTENCE = f"use {TOKEN} to push, then log out again"


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def entities(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def b64_url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def wrapped(text: str) -> str:
    plain = b64(text)
    return "\n".join(plain[start : start + 40] for start in range(0, len(plain), 40))


ENCODINGS: list[Callable[[str], str]] = [
    b64,
    b64_url,
    wrapped,
    lambda text: text.encode().hex(),
    lambda text: text.encode().hex().upper(),
    lambda text: text.encode().hex(" "),
    percent,
    quote,
    escaped,
    lambda text: "".join(f"\\x{ord(char):02x}" for char in text),
    entities,
]
NAMES = "base64 base64url wrapped hex HEX spaced-hex percent quoted unicode-escape hex-escape entities".split()


@pytest.mark.parametrize("encode", ENCODINGS, ids=NAMES)
@pytest.mark.parametrize("planted", tokens(23), ids=lambda planted: planted.text[:4])
def test_G4_an_encoded_token_is_removed_and_the_text_around_it_stays(
    encode: Callable[[str], str], planted: Any
) -> None:
    out = clean(f"before: {encode(planted.text)} :after")
    assert planted.text not in out
    assert encode(planted.text) not in out
    assert out.startswith("before: ")
    assert out.endswith(" :after")
    assert "[redacted:" in out


@pytest.mark.parametrize("outer", ENCODINGS, ids=NAMES)
@pytest.mark.parametrize("inner", [ENCODINGS[0], ENCODINGS[3], ENCODINGS[6]], ids=["base64", "hex", "percent"])
def test_G4_a_doubly_encoded_token_is_removed(inner: Callable[[str], str], outer: Callable[[str], str]) -> None:
    text = outer(inner(SENTENCE))
    out = clean({"blob": text})["blob"]
    assert text not in out
    assert "[redacted:" in out


def test_G4_every_alignment_of_base64_is_seen() -> None:
    for lead in range(6):
        text = b64("x" * lead + " " + SENTENCE)
        assert text not in clean(f"data {text}"), lead


@pytest.mark.parametrize(
    "text",
    [
        b64("the quick brown fox jumps over the lazy dog and then some more"),
        base64.b64encode(bytes(range(256))).decode(),
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
        b"nothing to see in this text at all".hex(),
        quote("a b&c=d/é"),
        "d41d8cd98f00b204e9800998ecf8427e",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_G4_benign_encoded_text_is_kept(text: str) -> None:
    value = {"blob": text, "note": f"see {text} there"}
    assert clean(value) == value


def test_G4_json_inside_base64_is_opened() -> None:
    text = b64(json.dumps({"user": {"password": "hunter" + "22x!"}}))
    assert text not in clean(f"payload={text}")


INVISIBLE = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u180e", "\ufe0f", "\x1b[31m", "\x7f"]


@pytest.mark.parametrize("invisible", INVISIBLE, ids=[repr(char) for char in INVISIBLE])
@pytest.mark.parametrize("planted", tokens(25), ids=lambda planted: planted.text[:4])
def test_G5_the_whole_span_goes_with_the_invisible_characters_in_it(invisible: str, planted: Any) -> None:
    middle = len(planted.text) // 2
    text = planted.text[:middle] + invisible + planted.text[middle:]
    before, after = f"Zeile\u200bvorher {invisible}ok: ", f" \uff21 danach{invisible}"
    assert clean(before + text + after).startswith(before + "[redacted:")
    assert clean(before + text + after).endswith("]" + after)


def wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def other_digits(text: str, zero: str) -> str:
    return "".join(chr(ord(zero) + int(char)) if char.isdigit() else char for char in text)


@pytest.mark.parametrize(
    "disguise",
    [
        wide,
        lambda text: other_digits(text, "\uff10"),
        lambda text: other_digits(text, "\u0660"),
        lambda text: other_digits(text, "\u0966"),
        lambda text: text.replace("-", "\u2013"),
        lambda text: text.replace("-", "\u2212"),
        lambda text: text.replace("-", "\u200b-\u200b"),
        "\u200b".join,
    ],
    ids=[
        "full-width",
        "full-width digits",
        "Arabic digits",
        "Devanagari",
        "en dash",
        "minus",
        "zero-width",
        "all over",
    ],
)
def test_G5_a_number_in_other_digits_or_dashes_is_removed_whole(disguise: Callable[[str], str]) -> None:
    number = disguise(rrn(4))
    out = clean(f"주민번호 {number}, 이름 \uff28ong")
    assert out == "주민번호 [redacted:kr-rrn], 이름 \uff28ong"


def test_G5_a_token_in_full_width_letters_is_removed_whole() -> None:
    assert clean(f"key {wide(TOKEN)}!") == "key [redacted:github-token]!"


def test_G5_text_with_such_characters_and_nothing_to_find_is_the_same_object() -> None:
    text = "\ufeff\uff28\uff45\uff4c\uff4c\uff4f\u200b \u4e16\u754c \u2013 caf\u00e9 \U0001f468\u200d\U0001f469"
    assert clean(text) is text


def test_G5_an_address_with_a_hidden_character_is_removed_whole() -> None:
    assert clean("email: alice@\u200bexample.com.") == "email: [redacted:email]."


@pytest.mark.parametrize("ascii_only", [True, False])
def test_events_are_seen_through_the_escapes_of_json(ascii_only: bool) -> None:
    value = {"data": {"content": f"주민번호 {wide(rrn(6))} / {escaped(TOKEN)}", "n": 1}}
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert redactor().scan([raw]) == [0]
    out, found = redactor().redact_json(raw)
    assert {entry.rule for entry in found} == {"kr-rrn", "github-token"}
    assert json.loads(out)["data"]["n"] == 1
    assert TOKEN not in written(json.loads(out))


def test_a_secret_that_is_cut_by_an_escape_of_json_is_found() -> None:
    raw = ('{"data":{"content":"is ' + TOKEN[:8] + f"\\u{ord(TOKEN[8]):04x}" + TOKEN[9:] + ' x"}}').encode()
    assert redactor().scan([raw]) == [0]
    assert json.loads(redactor().redact_json(raw)[0]) == {"data": {"content": "is [redacted:github-token] x"}}


def test_a_random_blob_that_holds_no_text_stays() -> None:
    blob = drawn(1, 400) + "=="
    assert clean({"image": blob}) == {"image": blob}


@pytest.mark.parametrize("hidden", ["\u061c", "\u115f", "\u1160", "\u17b4", "\uffa0", "\u3164", "\ufff9", "\u180e"])
def test_G5_what_shows_nothing_hides_nothing_on_the_land_path(hidden: str) -> None:
    text = f"use {TOKEN[:20]}{hidden}{TOKEN[20:]} now"
    for ascii_only in (False, True):
        assert landed(text, ascii_only=ascii_only) == "use [redacted:github-token] now"


def test_G5_circled_letters_hide_nothing_on_the_land_path() -> None:
    text = TOKEN.replace(TOKEN[8], chr(0x24D0 + ord("a") - 97)) if TOKEN[8] == "a" else f"ⓖ{TOKEN[1:]}"
    for ascii_only in (False, True):
        assert TOKEN[12:] not in landed(f"use {text} now", ascii_only=ascii_only)
