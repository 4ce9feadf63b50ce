"""Settings are checked at start, and a wrong one is named without showing what may be secret."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trajlake.streams.settings import PREFIX, SettingError, Settings, describe, load_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_max_rows", "0"),
        ("batch_max_rows", "many"),
        ("health_port", "70000"),
        ("offset_reset_policy", "latest"),
        ("bootstrap_servers", "localhost"),
        ("bootstrap_servers", "a:1,b:x"),
        ("events_topic", "no spaces"),
        ("root", ""),
        ("root", "ftp://x"),
        ("deny_fields", "[1"),
        ("deny_fields", "data..email"),
        ("deny_fields", ".email"),
        ("deny_fields", "data.email."),
        ("deny_fields", "data . email"),
        ("deny_fields", '[""]'),
        ("deny_fields", '["a,b"]'),
        ("deny_fields", "$.data.email"),
        ("deny_fields", "tool_calls[].arguments"),
        ("deny_fields", "data.*"),
        ("deny_fields", "'email'"),
        ("deny_fields", "data.a_b_c_d_e_f_g_h_i"),
        ("group_id", " "),
        ("kafka_options", "no-equals-sign"),
        ("kafka_options", "group.id=mine"),
    ],
)
def test_a_wrong_value_stops_with_the_settings_name_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(PREFIX + name.upper(), value)
    with pytest.raises(SettingError) as caught:
        load_settings()
    assert caught.value.name == name
    assert str(caught.value).startswith(f"setting {name} ({PREFIX}{name.upper()}): ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", ['{{"sasl.password": {0}}}', '{{"a": {{"b": "{0}"}}}}', "{0}", '["{0}"]'])
@pytest.mark.parametrize("name", ["kafka_options", "storage_options"])
def test_a_wrong_value_that_may_be_secret_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: str
) -> None:
    secret = "hush" * 3
    monkeypatch.setenv(PREFIX + name.upper(), shape.format(secret))
    with pytest.raises(SettingError) as caught:
        load_settings()
    assert secret not in str(caught.value)
    assert caught.value.__cause__ is None


def test_shown_settings_hide_secrets_and_keep_what_is_known_to_be_harmless() -> None:
    secret = "hush" * 3
    settings = load_settings(
        kafka_options=f"sasl.mechanism=PLAIN,client.id=me,sasl.username={secret},sasl.password={secret}",
        storage_options={"AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "local", "endpoint": "http://127.0.0.1:9000"},
    )
    shown = settings.shown()
    assert secret not in str(shown)
    assert shown["kafka_options"] == {
        "sasl.mechanism": "PLAIN", "client.id": "me", "sasl.username": "***", "sasl.password": "***",
    }  # fmt: skip
    assert shown["storage_options"] == {
        "AWS_SECRET_ACCESS_KEY": "***", "AWS_REGION": "local", "endpoint": "http://127.0.0.1:9000",
    }  # fmt: skip
    assert shown["events_topic"] == settings.events_topic
    assert settings.kafka()["sasl.password"] == secret


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("proxy_url", "http://user:{0}@proxy:3128"),
        ("azure_storage_connection_string", "AccountName=a;Account" + "Key={0};EndpointSuffix=core.windows.net"),
        ("connection_string", "Endpoint=sb://a/;SharedAccess" + "Signature={0}"),
        ("endpoint", "http://user:{0}@store:9000"),
        ("AWS_ENDPOINT_URL", "http://user:{0}"),
        ("azure_endpoint", "https://a.blob.core.windows.net/c?sig={0}"),
        ("endpoint", "https://store/{0}"),
        ("headers", "X-Auth: {0}"),
        ("an.option.of.tomorrow", "{0}"),
    ],
)
def test_an_option_that_holds_a_secret_under_an_innocent_name_is_not_shown(name: str, shape: str) -> None:
    secret = "hush" * 3
    options = {name: shape.format(secret)}
    shown = load_settings(storage_options=options, kafka_options=options).shown()
    assert shown["storage_options"] == shown["kafka_options"] == {name: "***"}


def test_an_override_wins_over_the_environment_and_none_is_no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLAKE_BATCH_MAX_ROWS", "7")
    assert load_settings(batch_max_rows=8).batch_max_rows == 8
    assert load_settings(batch_max_rows=None).batch_max_rows == 7


def test_a_variable_one_slip_away_from_a_setting_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLAKE_DENY_FIELD", "$.data.secret")
    with pytest.raises(SettingError, match="did you mean TRAJLAKE_DENY_FIELDS"):
        load_settings()


def test_an_unrelated_variable_with_the_prefix_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLAKE_SOMETHING_OF_MINE", "x")
    load_settings()


def test_an_unknown_override_is_named() -> None:
    with pytest.raises(SettingError, match=r"no_such.*no such setting"):
        load_settings(no_such=1)


@pytest.mark.parametrize(
    ("text", "fields"),
    [("", []), ("a.b", ["a.b"]), (" a.b , c ", ["a.b", "c"]), ('["a.b", "c"]', ["a.b", "c"])],
)
def test_lists_are_read_with_commas_or_as_json(monkeypatch: pytest.MonkeyPatch, text: str, fields: list[str]) -> None:
    monkeypatch.setenv("TRAJLAKE_DENY_FIELDS", text)
    assert load_settings().deny_fields == fields


@pytest.mark.parametrize("text", ["a=1,b=x=y", '{"a": 1, "b": "x=y"}'])
def test_client_properties_are_read_with_equals_signs_or_as_json(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TRAJLAKE_KAFKA_OPTIONS", text)
    assert load_settings().kafka_options == {"a": "1", "b": "x=y"}


def test_a_local_root_means_the_same_place_in_every_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings().root == str(tmp_path / "lake")
    assert load_settings(root=f"file://{tmp_path}/x").root == f"{tmp_path}/x"
    assert load_settings(root="s3://bucket/lake/").root == "s3://bucket/lake"


def test_every_setting_is_declared_with_a_unit_and_what_it_trades() -> None:
    docs = describe()
    assert [doc.name for doc in docs] == list(Settings.model_fields)
    for doc in docs:
        assert doc.unit, doc.name
        assert len(doc.doc) > 20, doc.name
        assert doc.doc.endswith("."), doc.name
        assert re.fullmatch(r"TRAJLAKE_[A-Z0-9_]+", doc.env)


def test_defaults_hold_together_without_any_environment() -> None:
    settings = load_settings()
    assert settings.payload_inline_max_bytes < settings.event_max_bytes
    assert settings.kafka(**{"client.id": "x"}) == {"bootstrap.servers": "127.0.0.1:9092", "client.id": "x"}
