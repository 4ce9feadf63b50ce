"""Secrets in notations, languages and nestings of all kinds: rules are for kinds, not for rows."""

from __future__ import annotations

import base64
import json

import pytest

from tests.redact.planted import clean, drawn

CHOSEN = "Tr0ub4" + "dor&3x"
DRAWN = drawn(71, 40)
HEXED = drawn(72, 64, "0123456789abcdef")

NAMED = [
    "mot de passe : {p}", "Passwort: {p}", "contraseña = {p}", "パスワード：{p}", "密码：{p}", "비밀번호는 {p} 입니다",
    "пароль: {p}", "la password è {p}", "senha: {p}", "[db]\nuser=app\npassword={p}\n", 'db_password = "{p}"',
    "<password>{p}</password>", "spring.datasource.password={p}", "ENV DB_PASSWORD {p}", "  - POSTGRES_PASSWORD={p}",
    "machine x.example login bob password {p}", "sshpass -p '{p}' ssh root@h",
]  # fmt: skip
TOKENS = [
    '$env:API_KEY = "{d}"', "export SECRET_KEY='{d}'", "https://api.example.com/v1?api_key={d}&x=1",
    "X-Auth-Token: {d}", 'apiKey := "{d}"', 'private static final String API_SECRET = "{d}";',
    "config.secret_key_base = '{d}'", "redis://:{d}@cache:6379/0", "VERCEL_TOKEN={d}", "using token={d} for x",
    "Config(api_key='{d}', n=1)", "aws_session_token = {d}", "X-NCP-APIGW-API-KEY: {d}",
]  # fmt: skip


@pytest.mark.parametrize("notation", NAMED)
def test_a_chosen_password_is_found_by_its_name_in_any_language_and_notation(notation: str) -> None:
    out = clean(notation.replace("{p}", CHOSEN))
    assert CHOSEN not in out
    assert "[redacted:" in out


@pytest.mark.parametrize("notation", TOKENS)
@pytest.mark.parametrize("value", [DRAWN, HEXED], ids=["mixed", "hex"])
def test_a_drawn_token_is_found_by_its_name_in_any_notation(notation: str, value: str) -> None:
    assert value not in clean(notation.replace("{d}", value))


@pytest.mark.parametrize(
    "head", ["sbp" + "_", "r8" + "_", "gsk" + "_", "pplx" + "-", "xai" + "-", "lin_api" + "_", "acmecorp_sk_live" + "_"]
)
def test_a_token_says_by_itself_that_it_is_one(head: str) -> None:
    token = head + drawn(73, 40, "0123456789abcdef" if head.startswith("sbp") else DRAWN)
    token = token if head != "xai" + "-" else head + drawn(74, 80)
    assert token[-24:] not in clean(f"it said {token} and went on")


def test_nesting_and_encoding_do_not_hide_a_name() -> None:
    inner = json.dumps({"password": CHOSEN, "kept": "x"})
    for text in (json.dumps(inner), base64.b64encode(inner.encode()).decode(), ("password=" + CHOSEN).encode().hex()):
        out = clean({"note": text})["note"]
        assert CHOSEN not in out
        assert text != out


@pytest.mark.parametrize(
    "text",
    [
        "jane.roe [at] example-mail [dot] org",
        "jane.roe(at)example-mail.org",
        "write to jane.roe {at} mail {dot} example {dot} org today",
        "jane.roe[@]example-mail[.]org",
    ],
)
def test_an_address_that_is_spelt_out_is_found(text: str) -> None:
    out = clean({"note": text})["note"]
    assert "jane" not in out
    assert "[redacted:email]" in out


def test_a_telegram_token_is_found_in_the_address_of_its_api() -> None:
    token = "508627689:AA" + drawn(8, 33)
    assert token[12:] not in clean(f"https://api.telegram.org/bot{token}/getMe")
