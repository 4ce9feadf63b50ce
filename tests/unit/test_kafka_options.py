"""Client properties come from a file too, and mean the same to every client."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

from trajlake.streams.roll.security import OidcToken, broker_credentials
from trajlake.streams.roll.supervisor import RollSupervisor
from trajlake.streams.settings import SettingError, load_settings

SECRET = "hush" * 3


def test_a_file_of_properties_or_json_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    lines, as_json = tmp_path / "client.properties", tmp_path / "client.json"
    lines.write_text(f"# account\nsecurity.protocol = SASL_SSL\n\nsasl.password={SECRET}==\nlinger.ms=5\n")
    as_json.write_text('{"linger.ms": 5, "enable.ssl.certificate.verification": true}')
    settings = load_settings(kafka_options_file=str(lines), kafka_options="linger.ms=9")
    assert settings.kafka_options == {
        "security.protocol": "SASL_SSL", "sasl.password": f"{SECRET}==", "linger.ms": "9",
    }  # fmt: skip
    assert settings.kafka()["sasl.password"] == f"{SECRET}=="
    assert SECRET not in str(settings.shown())
    read = load_settings(kafka_options_file=str(as_json)).kafka_options
    assert read == {"linger.ms": "5", "enable.ssl.certificate.verification": "true"}


@pytest.mark.parametrize(
    "text",
    [f"sasl.password {SECRET}", f'{{"sasl.password": "{SECRET}"', f'{{"sasl.password": ["{SECRET}"]}}', f"={SECRET}"],
)
def test_a_file_that_cannot_be_used_is_named_and_never_quoted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(SettingError) as caught:
        load_settings(kafka_options_file=str(file))
    assert caught.value.name == "kafka_options_file"
    assert str(file) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_and_one_that_sets_what_is_ours_stop_the_program(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        load_settings(kafka_options_file=str(tmp_path / "none"))
    file = tmp_path / "client.properties"
    file.write_text("group.id=mine")
    with pytest.raises(SettingError, match=r"group\.id is set by trajlake itself"):
        load_settings(kafka_options_file=str(file))


def test_rolling_workers_take_the_same_properties() -> None:
    assert broker_credentials({"linger.ms": "5"}) is None
    tls = broker_credentials({"security.protocol": "ssl"})
    assert isinstance(tls, SSLCredentials)
    assert tls.context.verify_mode is ssl.CERT_REQUIRED
    assert tls.context.check_hostname
    scram = broker_credentials(
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u",
         "sasl.password": SECRET, "ssl.endpoint.identification.algorithm": "none"}
    )  # fmt: skip
    assert isinstance(scram, SASLCredentials)
    assert (scram.mechanism.value, scram.username, scram.protocol.value) == ("SCRAM-SHA-512", "u", "SASL_SSL")
    assert scram.ssl_context is not None
    assert not scram.ssl_context.check_hostname
    assert SECRET not in repr(scram)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/x.p12"}, "ssl.keystore.location"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/none.pem"}, "ssl.ca.location"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url"),
    ],
)
def test_what_the_client_of_roll_cannot_do_stops_it_before_it_starts(options: dict[str, str], name: str) -> None:
    with pytest.raises(SettingError, match=name):
        RollSupervisor(load_settings(kafka_options=options))


def test_a_token_is_fetched_by_client_credentials_and_kept() -> None:
    asked: list[tuple[str | None, str]] = []

    async def token(request: web.Request) -> web.Response:
        asked.append((request.headers.get("Authorization"), await request.text()))
        return web.json_response({"access_token": f"t{len(asked)}", "expires_in": 300})

    async def ask() -> tuple[str, str]:
        app = web.Application()
        app.router.add_post("/token", token)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        credentials = broker_credentials(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
             "sasl.oauthbearer.client.id": "lake", "sasl.oauthbearer.client.secret": SECRET,
             "sasl.oauthbearer.scope": "kafka",
             "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token"}
        )  # fmt: skip
        assert isinstance(credentials, OAuthCredentials)
        provider = credentials.oauth_cb
        assert isinstance(provider, OidcToken)
        try:
            return await provider.token(), await provider.token()
        finally:
            await runner.cleanup()

    assert asyncio.run(ask()) == ("t1", "t1")
    assert len(asked) == 1
    assert asked[0][0] is not None
    assert asked[0][0].startswith("Basic ")
    assert asked[0][1] == "grant_type=client_credentials&scope=kafka"
