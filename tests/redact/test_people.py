"""People: Korean numbers first, numbers of other countries, mail, telephones, cards, names in Git, home folders."""

from __future__ import annotations

import json
import random
import re

import pytest

from tests.redact.planted import card, clean, drawn, landed, redactor, rrn, rules_of
from trajlake.transforms.redact.errors import MissingKey
from trajlake.transforms.redact.model import Action
from trajlake.transforms.redact.redactor import Redactor


@pytest.mark.parametrize("first", list("12345678"))
@pytest.mark.parametrize("form", ["{}", "{} 홍길동", "주민등록번호: {}", '{{"rrn": "{}"}}', "외국인등록번호 {}입니다"])
def test_G6_resident_and_foreigner_numbers_are_removed_whatever_stands_around_them(first: str, form: str) -> None:
    number = rrn(int(first), first)
    out = clean(form.format(number))
    assert out == form.format("[redacted:kr-frn]" if first in "5678" else "[redacted:kr-rrn]")


SEPARATORS = [
    "-",
    " ",
    " - ",
    ".",
    "~",
    "_",
    "--",
    "  ",
    "/",
    ":",
    ": ",
    "|",
    "·",
    "、",
    "ㅡ",
    "–",
    "－",
    "\t",
    "\n",
    "\\-",
]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("first", ["1", "6"])
def test_G6_a_resident_number_is_removed_with_any_separator(separator: str, first: str) -> None:
    number = rrn(12, first).replace("-", separator)
    text = f"{'외국인' if first == '6' else '주민'}등록번호 {number}"
    for out in (clean(text), landed(text), landed(text, ascii_only=True)):
        assert number[-7:] not in out


@pytest.mark.parametrize("separator", ["/", ":", "|", "·", "--", "\t"])
def test_G6_a_resident_number_whose_check_digit_holds_needs_no_word(separator: str) -> None:
    number = "9001011234568"
    text = f"kim {number[:6]}{separator}{number[6:]}"
    for out in (clean(text), landed(text), landed(text, ascii_only=True)):
        assert out == "kim [redacted:kr-rrn]"


@pytest.mark.parametrize("separator", ["/", ":", "|", "·"])
def test_G6_two_numbers_that_look_like_one_stay_where_no_word_says_what_they_are(separator: str) -> None:
    text = f"part 900101{separator}1234565"
    assert landed(text) == clean(text) == text


def test_G6_a_resident_number_with_spaced_or_dotted_digits_is_removed_beside_its_word() -> None:
    number = rrn(14).replace("-", "")
    for written in (f"{' '.join(number[:6])} - {' '.join(number[6:])}", f"{number[:6]} - {' '.join(number[6:])}",
                    f"{number[:2]}.{number[2:4]}.{number[4:6]}-{number[6:]}"):  # fmt: skip
        for out in (clean(f"주민번호: {written}"), landed(f"주민번호: {written}", ascii_only=True)):
            assert out == "주민번호: [redacted:kr-rrn]"


def test_G6_a_resident_number_without_separator_is_removed_where_words_say_what_it_is() -> None:
    number = rrn(13).replace("-", "")
    assert number not in clean(f"주민등록번호 {number}")
    assert clean(f"order no {number}") == f"order no {number}"


@pytest.mark.parametrize(
    "number",
    ["010-1234-5678", "01012345678", "010 1234 5678", "010.1234.5678", "+82 10-1234-5678", "+821012345678",
     "82-10-1234-5678", "+82 (0)10-1234-5678", "02-312-3456", "031-123-4567", "070-1234-5678", "0505-123-4567",
     "010 - 1234 - 5678", "010/1234/5678", "010·1234·5678", "010~1234~5678", "010)1234-5678",
     "0082-10-1234-5678", "02)312-3456"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["연락처 {}", "전화: {} (집)", '{{"phone": "{}"}}', "내 번호는 {}이야"])
def test_G6_korean_telephone_numbers_are_removed(number: str, form: str) -> None:
    text = form.format(number)
    for out in (clean(text), landed(text), landed(text, ascii_only=True)):
        assert re.sub(r"\D", "", number)[-7:] not in re.sub(r"\D", "", out)


def test_G6_a_telephone_number_with_underscores_is_removed_beside_its_word_alone() -> None:
    assert landed("연락처 010_1234_5678") == "연락처 [redacted:kr-phone]"
    assert landed("IMG 010_1234_5678.png") == "IMG 010_1234_5678.png"


@pytest.mark.parametrize("key", ["businessNumber", "business_no", "사업자등록번호"])
def test_G6_business_numbers_are_removed(key: str) -> None:
    assert clean({key: "123-45-67891"}) == {key: "[redacted:kr-brn]"}


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1700000000, millis 1700000000123, micros 1700000000123456",
        "order 2025550123 shipped",
        "order number 20240115-0012345",
        "build 20240115.3, release 2024.01.15-1234567",
        "commit 9012011234567890",
        "주문번호 900101-9234567",
        "제품 번호 123456-0123456",
        "run 260101 1234 steps",
        "192x168, v1.2.3.4, 10.15.7",
        "size=8801012345678 bytes",
        "2024-01-15T10:11:12.123456+09:00",
        "240115/1234567, 240115:1234567 and 240115|2345678",
        "files 010_1234_5678.png and 2024/1234/5678",
        "0 1 2 3 4 5 - 1 2 3 4 5 6 7",
    ],
)
def test_G6_clocks_orders_builds_and_versions_are_kept(text: str) -> None:
    assert clean(text) == text
    assert clean({"note": text, "n": 1700000000123}) == {"note": text, "n": 1700000000123}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", ["{}", "card {} exp 12/27", "카드 {}"])
def test_card_numbers_are_removed_with_and_without_groups(seed: int, form: str) -> None:
    plain = card(seed)
    grouped = " ".join(plain[start : start + 4] for start in range(0, 16, 4))
    for number in (plain, grouped, grouped.replace(" ", "-")):
        assert clean(form.format(number)) == form.format("[redacted:card]")


def test_a_number_that_fails_luhn_is_no_card() -> None:
    wrong = card(1)[:-1] + str((int(card(1)[-1]) + 1) % 10)
    assert rules_of(f"reference {wrong} noted") == set()


@pytest.mark.parametrize(
    "text",
    ["jane.roe@example.org", "bob@corp.internal", "svc@build.local", "o'neil+tag@mail.example.co.kr", "김@예시.한국"],
)
def test_addresses_are_removed(text: str) -> None:
    assert clean(f"write to {text}, please") == "write to [redacted:email], please"


@pytest.mark.parametrize(
    "text",
    ["git@github.com:org/repo.git", "noreply@example.org", "@types/node@18.0.1", "icon@2x.png", "user@host", "a @ b.c"],
)
def test_remotes_packages_and_files_are_no_addresses(text: str) -> None:
    assert clean(text) == text


# -- Git, stack traces ------------------------------------------------------------------------------------------------

COMMIT = drawn(3, 40, "0123456789abcdef")
LOG = f"""commit {COMMIT}
Author: Jane Roe <jane.roe@example.org>
Date:   Mon Jan 15 10:11:12 2024 +0900

    fix: off-by-one in page 12 (#345)

    Co-authored-by: 홍길동 <gildong@example.kr>
    Signed-off-by: Jane Roe <jane.roe@example.org>
"""
BLAME = f"{COMMIT[:8]} (Jane Roe 2024-01-15 10:11:12 +0900 142) return total / count"
TRACE = 'Traceback:\n  File "/Users/jane.roe/src/app/main.py", line 142, in <module>\nValueError: bad id 1607635102'


def pseudonymous() -> Redactor:
    return Redactor(key=b"k" * 32)


def test_G8_people_in_a_git_log_become_pseudonyms_and_the_rest_is_kept() -> None:
    out = pseudonymous().redact(LOG, "acme").value
    assert all(name not in out for name in ("Jane", "Roe", "jane.roe", "홍길동", "gildong", "example.org"))
    for kept in (COMMIT, "Date:   Mon Jan 15 10:11:12 2024 +0900", "off-by-one in page 12 (#345)", "Signed-off-by: ["):
        assert kept in out
    authors = re.findall(r"(?:Author|Signed-off-by): (\[person:[a-p]{16}\]) <(\[email:[a-p]{16}\])>", out)
    assert len(authors) == 2
    assert authors[0] == authors[1]


def test_G8_names_in_blame_go_and_hash_date_and_line_stay() -> None:
    assert clean(BLAME) == BLAME.replace("Jane Roe", "[redacted:person]")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TRACE, "jane.roe"),
        ("C:\\Users\\JaneRoe\\AppData\\Local\\Temp\\x.log:88: error", "JaneRoe"),
        ("at run (/home/janeroe/app/index.js:10:5)", "janeroe"),
        ("file:///home/janeroe/a.txt#L3", "janeroe"),
        (json.dumps({"cwd": "C:\\Users\\JaneRoe\\x"}), "JaneRoe"),
        ("/mnt/c/Users/janeroe/x.py:3", "janeroe"),
    ],
)
def test_G8_accounts_in_paths_go_and_the_structure_of_the_path_stays(text: str, name: str) -> None:
    assert clean(text) == text.replace(name, "[redacted:home]")


@pytest.mark.parametrize("path", ["/home/runner/work/a.py", "/Users/Shared/x", "/home/ubuntu/x", "/home/user/src/id"])
def test_G8_accounts_of_machines_are_no_people(path: str) -> None:
    assert clean(path) == path


# -- pseudonyms -------------------------------------------------------------------------------------------------------


def test_the_same_value_of_the_same_tenant_gets_the_same_pseudonym() -> None:
    ours = pseudonymous()
    first = ours.redact({"a": "mail jane@example.org"}, "acme").value["a"]
    again = ours.redact({"b": ["from JANE@EXAMPLE.ORG"]}, "acme").value["b"][0]
    assert re.fullmatch(r"mail \[email:[a-p]{16}\]", first)
    assert again.removeprefix("from ") == first.removeprefix("mail ")
    assert Redactor(key=b"k" * 32).redact("jane@example.org", "acme").value == first.removeprefix("mail ")


def test_one_number_written_in_two_ways_gets_one_pseudonym() -> None:
    ours = pseudonymous()
    first = ours.redact("연락처 010-1234-5678", "acme").value
    assert ours.redact("연락처 +82 10-1234-5678", "acme").value == first


def test_tenants_and_keys_cannot_be_joined() -> None:
    value = "jane@example.org"
    seen = {
        pseudonymous().redact(value, "acme").value,
        pseudonymous().redact(value, "umbrella").value,
        Redactor(key=b"j" * 32).redact(value, "acme").value,
    }
    assert len(seen) == 3


def test_keys_can_be_given_by_tenant() -> None:
    ours = Redactor(key={"acme": b"a" * 32})
    assert "jane" not in ours.redact("jane@example.org", "acme").value
    with pytest.raises(MissingKey, match="umbrella"):
        ours.redact("jane@example.org", "umbrella")


def test_who_is_asked_for_no_tenant_has_no_key() -> None:
    with pytest.raises(MissingKey):
        pseudonymous().redact("jane@example.org", None)
    assert pseudonymous().redact("nobody here", None).value == "nobody here"


def test_what_belongs_to_nobody_gets_markers() -> None:
    assert pseudonymous().redact("jane@example.org", "").value == "[redacted:email]"


def test_a_missing_key_stops_at_once_and_is_never_made_up() -> None:
    with pytest.raises(MissingKey):
        Redactor(key=b"short")
    with pytest.raises(MissingKey):
        Redactor(actions={"people": Action.PSEUDONYM})
    with pytest.raises(MissingKey):
        Redactor(actions={"github-token": Action.PSEUDONYM, "people": Action.MARKER})


def test_without_a_key_people_become_markers() -> None:
    assert redactor().redact("mail jane@example.org", "acme").value == "mail [redacted:email]"


def test_a_key_shows_in_no_text_of_the_redactor() -> None:
    key = random.Random(1).randbytes(32)
    ours = Redactor(key=key)
    shown = repr(vars(ours)) + repr(ours) + ours.redact("jane@example.org", "acme").value
    assert repr(key)[2:-1] not in shown
    assert key.hex() not in shown


def test_pseudonyms_are_left_alone_when_they_come_by_again() -> None:
    ours = pseudonymous()
    once = ours.redact(LOG, "acme").value
    assert ours.redact(once, "acme").value == once
    assert redactor().redact(once).value == once


def test_a_long_table_of_numbers_still_shows_its_telephones_and_cards() -> None:
    rows = [f"{seed},{seed * 7919},{seed * 104729 % 999983}" for seed in range(3000)]
    rows[1500] = f"1500,phone 010-1234-5678,{card(1)}"
    out = clean("\n".join(rows))
    assert "010-1234-5678" not in out
    assert card(1) not in out
    assert out.count("\n") == len(rows) - 1
