"""Where a secret stands in a value: strings, keys, JSON in strings, lists of pieces, keys over several fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.redact.planted import card, clean, drawn, landed, pem, pem_body, redactor, rrn, tokens, written
from trajlake.transforms.redact.errors import WorkLimit
from trajlake.transforms.redact.model import Limits
from trajlake.transforms.redact.redactor import Redactor

TOKEN = tokens(7)[0].text


def nested(value: Any, levels: int) -> str:
    """JSON in a string in JSON in a string …"""
    text = json.dumps(value, ensure_ascii=False)
    for level in range(levels - 1):
        text = json.dumps({"q": "x", f"level{level}": text}, ensure_ascii=False)
    return text


def every_level(text: str) -> list[Any]:
    """The values of all levels, which must all parse."""
    value = json.loads(text)
    inner = [part for key, part in value.items() if key.startswith("level")]
    return [value, *(every_level(inner[0]) if inner else [])]


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
@pytest.mark.parametrize("planted", tokens(3), ids=lambda planted: planted.text[:4])
def test_G1_a_secret_in_json_in_a_string_is_removed_and_every_level_still_parses(levels: int, planted: Any) -> None:
    text = nested({"note": f"use {planted.text} now", "kept": [1, 2.50, None, True, "ü"]}, levels)
    out = clean({"arguments": text})["arguments"]
    assert planted.text not in out
    innermost = every_level(out)[-1]
    assert innermost["kept"] == [1, 2.5, None, True, "ü"]
    assert innermost["note"].startswith("use [redacted:")
    assert innermost["note"].endswith("] now")


def test_G1_the_text_around_a_finding_in_nested_json_stays_byte_for_byte() -> None:
    text = '{ "a" : [1.50, 1e3],\n  "t":"' + TOKEN + '" , "u":"\\u00e9\\/" }'
    assert clean(text) == text.replace(TOKEN, "[redacted:github-token]")


def test_G1_telling_names_count_at_every_level() -> None:
    value = {"body": nested({"client_secret": drawn(1, 10), "q": "x"}, 3)}
    assert drawn(1, 10) not in written(clean(value))


@pytest.mark.parametrize("levels", range(8))
def test_G1_a_chosen_password_is_found_by_its_name_at_every_level_that_is_opened(levels: int) -> None:
    text: Any = json.dumps({"password": "hunter2" + "hunter", "n": 1})
    for _ in range(levels):
        text = json.dumps({"a": text})
    for out in (clean(text), landed(text)):
        assert "hunter2" not in out


def test_G1_json_that_names_a_key_twice_is_searched_in_both_places() -> None:
    text = '{"a": "' + TOKEN + '", "a": "' + tokens(8)[0].text + '"}'
    assert "ghp_" not in clean(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":["%s"],"a":1}', '{"a":"%s","a":1}', '{"%s":1,"%s":2}', '{"a":{"b":["%s",1]},"a":{"b":2}}',
        '[{"a":"x\\n%s","a":"x"},"z"]', '{"rrn":9001011234568,"rrn":1,"t":"%s"}',
        '{"password":"hunter2hunter","password":1}',
    ],
)  # fmt: skip
def test_a_json_text_that_names_a_key_twice_is_redacted_as_it_stands(text: str) -> None:
    raw = text.replace("%s", TOKEN).encode()
    out, found = redactor().redact_json(raw)
    for planted in (TOKEN, "hunter2", "9001011234568"):
        assert planted not in out.decode()
    pairs = json.loads(out, object_pairs_hook=list)
    assert len(str(pairs)) > 0
    assert found
    assert redactor().redact_json(out) == (out, [])


def test_a_secret_as_a_key_is_removed_and_its_value_kept() -> None:
    out = clean({"cache": {TOKEN: {"hits": 3}}})
    assert out == {"cache": {"[redacted:github-token]": {"hits": 3}}}


def test_two_secrets_as_keys_do_not_become_one() -> None:
    value = {tokens(seed)[0].text: seed for seed in range(3)}
    out = clean({"by_token": value, "tail": 1})
    assert sorted(out["by_token"].values()) == [0, 1, 2]
    assert "ghp_" not in written(out)
    assert clean(out) == out


@pytest.mark.parametrize(
    "value",
    [
        {"password": "x7"},
        {"db": {"password": "correct horse"}},
        {"DB_PASSWORD": "hunter" + "22"},
        {"비밀번호": "hunter" + "22"},
        {"headers": {"Authorization": "Bearer " + drawn(2, 32)}},
        {"headers": {"Authorization": ["Bearer " + drawn(2, 32), "Bearer " + drawn(3, 32)]}},
        {"headers": [["X-Api-Key", drawn(4, 24)]]},
        {"env": [{"name": "GH_TOKEN", "value": drawn(5, 40)}]},
        {"key": "DB_PASSWORD", "value": "hunter" + "22"},
    ],
)
def test_what_stands_under_a_telling_name_is_removed(value: Any) -> None:
    found = redactor().redact(value)
    assert found.redactions
    assert all(secret not in written(found.value) for secret in ("hunter", drawn(2, 32), drawn(4, 24), drawn(5, 40)))


@pytest.mark.parametrize(
    "value",
    [
        {"password": ""},
        {"password": None},
        {"password": True},
        {"password": "********"},
        {"password_policy": "at least 12 characters"},
        {"token_count": 128, "max_tokens": 4096, "prompt_tokens": 77},
        {"secret": "${VAULT_SECRET}"},
        {"api_key": "<your-api-key>"},
        {"tokens": ["the", "cat"]},
        {"primary_key": "user_id", "sort_key": "created_at"},
    ],
)
def test_names_that_only_sound_telling_are_left_alone(value: Any) -> None:
    assert clean(value) == value


# -- pieces of one text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", tokens(11), ids=lambda planted: planted.text[:4])
@pytest.mark.parametrize("size", [3, 7, 13])
def test_G2_a_secret_split_over_deltas_is_removed_from_the_join_and_from_every_delta(planted: Any, size: int) -> None:
    text = f"Here is the key: {planted.text} done"
    deltas = [text[start : start + size] for start in range(0, len(text), size)]
    out = redactor().redact_deltas(deltas).value
    assert len(out) == len(deltas)
    joined = "".join(out)
    assert joined.startswith("Here is the key: [redacted:")
    assert joined.endswith("] done")
    core = planted.text[-12:]
    assert all(core[start : start + 4] not in joined for start in range(0, 8, 4))


def test_G2_pieces_in_a_list_of_strings_are_joined_inside_one_event() -> None:
    out = clean({"deltas": ["Here is the key: " + TOKEN[:9], TOKEN[9:] + " done"]})
    assert out["deltas"][0].startswith("Here is the key: ")
    assert out["deltas"][1].endswith(" done")
    assert TOKEN[9:] not in written(out)


def test_G2_pieces_in_a_list_of_objects_are_joined_inside_one_event() -> None:
    pieces = [{"delta": {"content": TOKEN[:9]}}, {"delta": {"content": TOKEN[9:]}}]
    out = clean({"events": pieces})
    assert TOKEN[9:] not in written(out)
    assert len(out["events"]) == 2


def test_lists_of_plain_words_and_rows_stay() -> None:
    value = {"names": ["user", "name", "pass", "word"], "rows": [["a", 1], ["b", 2]], "ids": ["B1001", "B1002"]}
    assert clean(value) == value


# -- private keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n", "", " "])
@pytest.mark.parametrize("kind", ["RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_G3_the_body_of_a_private_key_is_gone_and_the_text_around_it_stays(newline: str, kind: str) -> None:
    text = f"before {pem(5, newline, kind)} after"
    out = clean(text)
    assert all(line not in out for line in pem_body(5))
    assert out.startswith("before ")
    assert out.endswith(" after")


def test_G3_an_unterminated_key_ends_where_its_material_ends() -> None:
    text = pem(6).split("-----END")[0] + "...truncated by the tool\nexit code 1"
    out = clean(text)
    assert all(line not in out for line in pem_body(6))
    assert "truncated by the tool\nexit code 1" in out


def test_G3_a_key_over_two_fields_is_gone_from_both_and_what_stands_between_is_kept() -> None:
    head, body, tail = pem(9).split("\n", 1)[0], pem_body(9), pem(9).rsplit("\n", 1)[1]
    value = {"a": "\n".join([head, *body[:2]]), "mid": "keep-me", "b": "\n".join([*body[2:], tail])}
    out = clean(value)
    assert out["mid"] == "keep-me"
    assert all(line not in written(out) for line in body)


def test_G3_public_keys_and_certificates_are_no_secrets() -> None:
    text = "-----BEGIN PUBLIC KEY-----\n" + "\n".join(pem_body(10)) + "\n-----END PUBLIC KEY-----"
    assert clean(text) == text


def test_many_openings_of_keys_without_an_end_are_read_once() -> None:
    opening = pem(12).split("\n", 1)[0]
    text = "\n".join([opening] * 500)
    assert clean(text) == text
    assert all(line not in clean(text + "\n" + "\n".join(pem_body(12))) for line in pem_body(12))


# -- tables of numbers ------------------------------------------------------------------------------------------------


def test_a_table_of_numbers_beyond_the_bound_is_not_let_through() -> None:
    rows = "\n".join(str(10**12 + 7919 * number) for number in range(500))
    few = Redactor(limits=Limits(max_numbers=400))
    with pytest.raises(WorkLimit, match="max_numbers"):
        few.redact_text(rows)
    assert few.redact_text(rows[:14]) is not None
    # The bound counts what is looked at, not the time it takes: the same value meets it again.
    with pytest.raises(WorkLimit):
        few.redact_json(json.dumps({"data": {"content": rows}}).encode())


def test_a_row_of_digits_and_rows_of_measurements_cost_next_to_nothing() -> None:
    """They call no rule for numbers, so none is asked however long they are."""
    few = Redactor(limits=Limits(max_numbers=1))
    for text in ("31415926" * 50_000, ", ".join(f"0.{number:06d}" for number in range(20_000))):
        assert few.redact_text(text) == text


def test_bare_numbers_in_a_table_are_judged_as_each_by_itself() -> None:
    """Words far from a number neither name it nor make its rule ask."""
    table = "order 1234567890123 9012345678901\n" * 3
    told = f"{table}\ncall 010-" + "2345-6789"
    assert clean(table) == table
    assert clean(told).startswith(table)
    assert clean(told).endswith("call [redacted:kr-phone]")


NUMBERS: dict[str, int] = {
    "rrn": int(rrn(3).replace("-", "")), "card_number": int(card(4)), "pin": 4711, "password": 20481024,
}  # fmt: skip
"""Fields whose number is somebody's."""


def opened(text: Any) -> Any:
    """A value with all JSON in strings read, which must parse wherever it was JSON before."""
    while isinstance(text, str):
        text = json.loads(text)
    if isinstance(text, dict):
        return {key: opened(part) if key == "inner" else part for key, part in text.items()}
    return text


@pytest.mark.parametrize("ascii_only", [False, True], ids=["plain", "escaped"])
@pytest.mark.parametrize("levels", [0, 1, 2, 3])
@pytest.mark.parametrize("field", NUMBERS)
def test_G1_a_number_in_json_in_a_string_becomes_a_string_and_every_level_still_parses(
    field: str, levels: int, ascii_only: bool
) -> None:
    text: Any = json.dumps({"이름": "x", field: NUMBERS[field], "n": [1, 2.5, None]}, ensure_ascii=ascii_only)
    for _ in range(levels):
        text = json.dumps({"a": "b", "inner": text}, ensure_ascii=ascii_only)
    for out in (clean(text), landed(text), landed(text, ascii_only=True), landed([text, text])[0]):
        assert str(NUMBERS[field]) not in written(out)
        found = opened(out)
        for _ in range(levels):
            assert found["a"] == "b"
            found = found["inner"]
        assert (found["이름"], found["n"]) == ("x", [1, 2.5, None])
        assert found[field].startswith("[redacted:")
        assert clean(out) == out


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([*NUMBERS.values(), TOKEN, 'say "hi" \\ now', "ü\n"])
)


@given(
    st.recursive(
        _LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from([*NUMBERS, "note", "inner"]), inner, max_size=4),
            inner.map(json.dumps),
        ),
        max_leaves=12,
    )
)
def test_G1_whatever_was_json_in_a_string_is_json_afterwards(value: Any) -> None:
    def same_shape(before: Any, after: Any) -> None:
        if isinstance(before, str) and isinstance(after, str):
            try:
                inside = json.loads(before)
            except ValueError:
                return
            if isinstance(inside, (dict, list)):
                same_shape(inside, json.loads(after))
        elif isinstance(before, dict):
            assert isinstance(after, dict)
            for name, part in before.items():
                if name in after:
                    same_shape(part, after[name])
        elif isinstance(before, list) and isinstance(after, list):
            for one, other in zip(before, after, strict=True):
                same_shape(one, other)

    text = json.dumps({"data": value})
    for out in (clean(text), landed(text), landed(text, ascii_only=True)):
        same_shape({"data": value}, json.loads(out))
        assert TOKEN not in written(out)
