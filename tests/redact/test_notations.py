"""Secrets in notations, languages and nestings of all kinds: rules are for kinds, not for rows."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.redact.planted import clean, drawn, landed

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


BESIDE = [
    "비밀번호({d})", "비밀번호 ( {d} ) 입니다", "password (default: {d})", "the password of the admin account is {d}",
    "password for root: {d}", "secret in staging = {d}", "ID/PW : master / {d}", "id/pw: master/{d}",
    "(ID/PW:master/{d})",
    "계정/비번: master/{d}", "user/password - master, {d}", "# client password\n{d}{d}\n", "API secret:\n  {d}{d}",
    'Content-Disposition: form-data; name="password"\r\n\r\n{d}\r\n--x',
    'variable "db_password" {\n  default = "{d}"\n}',
    "$p = ConvertTo-SecureString -String '{d}' -AsPlainText", "db.example.org:5432:app:bob:{d}", 'password = """{d}"""',
    "Secret key {d}{d}", "--access-key {d}{d}", "-Dsonar.login={h}",
]  # fmt: skip


@pytest.mark.parametrize("notation", BESIDE)
def test_a_drawn_value_is_found_in_notations_that_prose_has_too(notation: str) -> None:
    value, hexed = drawn(81, 12), drawn(82, 40, "0123456789abcdef")
    text = notation.replace("{d}", value).replace("{h}", hexed)
    for out in (clean(text), landed(text), landed(text, ascii_only=True)):
        assert value not in out
        assert hexed not in out


@pytest.mark.parametrize(
    "text",
    [
        "비밀번호(필수), 비밀번호(8자 이상)", "password(optional) and token(s) and access token (JWT)",
        "password for root: see wiki", "the password of the user is wrong", "pwd of master is stored encrypted",
        "ID/PW 를 입력하세요", "id/pw: required / optional", "login/password: see vault", "user/password",
        "계정/비번 문의",
        "# client password\nreturn None", "# api key\nprocess.env.KEY", 'variable "db_password" { type = string }',
        'variable "region" { default = "eu-central-1" }', "ConvertTo-SecureString $plain -AsPlainText",
        "localhost:5432:app:bob:*", "host:8080:app:web:v1.2.3", "sonar.login=admin", "secret key rotation is on",
        "Secret key management service", "key(user1)", "password(hash2)",
    ],
)  # fmt: skip
def test_such_notations_without_a_drawn_value_stay(text: str) -> None:
    assert clean(text) == text
    assert landed(text) == text


_KEYS = [ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1()),
         ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 1024),
         rsa.generate_private_key(65537, 2048)]  # fmt: skip


@pytest.mark.parametrize("key", _KEYS, ids=["p-256", "p-384", "ed25519", "rsa-1024", "rsa-2048"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "own"])
def test_a_private_key_without_armour_is_found_and_the_public_one_stays(key: Any, form: PrivateFormat) -> None:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        form = PrivateFormat.PKCS8
    body = base64.b64encode(key.private_bytes(Encoding.DER, form, NoEncryption())).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    for text in (f"blob {body} end", f"blob\n{lines}\nand more"):
        for out in (clean({"blob": text})["blob"], landed(text), landed(text, ascii_only=True)):
            assert body[-24:-4] not in out.replace("\n", "")
            assert out.startswith("blob")
            assert out.endswith(("end", "and more"))
    public = base64.b64encode(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
    assert clean(f"public {public}") == f"public {public}"
