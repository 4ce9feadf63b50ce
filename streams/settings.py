"""Every setting of trajlake, declared once: name, default, unit, and what it trades.

A setting comes from the command line, else from the environment (`TRAJLAKE_` and the name in capitals), else from its
default. All are checked together at start; a wrong one stops the program with its name in one line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from trajlake.expectations.deep_scan import BY_NAME, NAMED
from trajlake.streams.clientoptions import read_client_options
from trajlake.streams.disclosure import disclose
from trajlake.transforms.redact.fieldnames import keys_of
from trajlake.transforms.redact.model import Action

if TYPE_CHECKING:
    from trajlake.sinks.lake import Lake

PREFIX = "TRAJLAKE_"
KIB, MIB = 2**10, 2**20

NOT_SETTINGS = frozenset({"TRAJLAKE_UNSEAL_KEY_FILE", "TRAJLAKE_CASES", "TRAJLAKE_DEBUG"})
"""Variables with our prefix that are switches of the tests and of the command line, not settings."""

OWNED_KAFKA_OPTIONS = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset"}
)
"""Client properties that exactly-once landing depends on: `kafka_options` may not change them."""

_LOCAL_SCHEMES = ("file://",)
_REMOTE_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")


class SettingError(ValueError):
    """A setting has a value that cannot be used, or a variable looks like a setting that does not exist.

    `name` is the setting's name; the message never holds the value of a setting that may carry a secret.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"setting {name} ({PREFIX}{name.upper()}): {problem}")
        self.name = name
        self.problem = problem


class SettingDoc(NamedTuple):
    """One setting as the docs show it."""

    name: str
    env: str
    default: str
    unit: str
    doc: str


def _setting(default: Any, unit: str, doc: str, *, secret: bool = False, **limits: Any) -> Any:
    extra: dict[str, Any] = {"unit": unit, "secret": secret}
    if callable(default):
        return Field(default_factory=default, description=doc, json_schema_extra=extra, **limits)
    return Field(default=default, description=doc, json_schema_extra=extra, **limits)


class Settings(BaseSettings):
    """The settings of one process, validated. Make it with `load_settings`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, validate_default=True)

    # Places
    root: str = _setting(
        "./lake", "folder or URI", "Holds all zones of the lake. Local folder, or s3://, gs://, az://, abfss://."
    )
    integrity_heads: str = _setting(
        "",
        "folder or URI",
        "Where workers also keep the newest hash of each partition's ledger: a place that those who can write the lake "
        "cannot write. Empty: in the lake alone.",
    )
    storage_options: Annotated[dict[str, str], NoDecode] = _setting(
        dict,
        "JSON object, or key=value,…",
        "Passed to the object store as it is: endpoint, region, credentials. Values are never logged.",
        secret=True,
    )
    training_root: str = _setting(
        "",
        "folder or URI",
        "The training zone: what trainers may read, and nothing else. Empty: the folder `training` below the root.",
    )
    training_storage_options: Annotated[dict[str, str], NoDecode] = _setting(
        dict,
        "JSON object, or key=value,…",
        "Passed to the training zone's object store. Empty: the root's, where the zone lies below it.",
        secret=True,
    )

    # Kafka
    bootstrap_servers: str = _setting("127.0.0.1:9092", "host:port,…", "Kafka brokers to ask for all others.")
    kafka_options_file: str = _setting(
        "",
        "file",
        "Client properties of Kafka, one key=value a line or a JSON object: for secrets, which need not stand in the "
        "environment then. What `kafka_options` says too wins.",
    )
    kafka_options: Annotated[dict[str, str], NoDecode] = _setting(
        dict,
        "JSON object, or key=value,…",
        "Passed to every Kafka client as it is: TLS, SASL, OAuth, buffer sizes. Values are never logged.",
        secret=True,
    )
    events_topic: str = _setting("agent.audit.v1", "topic", "Where agents publish events, keyed by tenant and run.")
    outcomes_topic: str = _setting("trajlake.outcomes.v1", "topic", "Where closed runs are announced, keyed by skill.")
    stats_topic: str = _setting("trajlake.skill-stats.v1", "topic", "Where statistics of skills go, keyed by tenant.")
    decisions_topic: str = _setting("trajlake.decisions.v1", "topic", "Where decisions go, keyed by tenant.")
    roll_id: str = _setting(
        "trajlake-roll",
        "Faust application id",
        "Consumer group and prefix of the changelogs of `trajlake roll`. Changing it begins anew.",
    )
    roll_host: str = _setting(
        "127.0.0.1",
        "address",
        "Where the views and metrics of rolling workers answer. They ask for no token: elsewhere only behind a network "
        "that lets in who may look.",
    )
    roll_port: int = _setting(
        8790,
        "port",
        "Views and metrics of the first rolling worker; the next take the next.",
        ge=1,
        le=65000,
    )
    stats_interval_ms: int = _setting(
        500, "ms", "A skill's statistics are told at most so often. Smaller: fresher, more messages and rows.", ge=50
    )
    stats_rows_interval_ms: int = _setting(
        10_000,
        "ms",
        "The table gets a row of a skill's statistics at most so often, the topic each. Smaller: fresher, more rows.",
        ge=50,
    )
    outcomes_partitions: int = _setting(
        4,
        "partitions",
        "Most rolling workers that can share the skills; outcomes, statistics and decisions have the same number.",
        ge=1,
        le=10_000,
    )
    events_partitions: int = _setting(
        4,
        "partitions",
        "Most land workers that can share the topic; made so when the topic is created.",
        ge=1,
        le=10_000,
    )
    group_id: str = _setting(
        "trajlake-land", "consumer group", "Workers of one group share partitions. Its offsets only serve lag tools."
    )
    app_id: str = _setting(
        "trajlake-land",
        "Delta application id",
        "Names this flow in the tables' transactions. Changing it lands everything again.",
    )
    offset_reset_policy: Literal["stop", "declare"] = _setting(
        "stop",
        "stop or declare",
        "When Kafka no longer holds the next offset: stop and say so, or declare the gap in the tables and go on.",
    )

    # Publishing, by the Recorder
    tenant: str = _setting("", "tenant id", "Tenant of a Recorder that names none.")
    source: str = _setting("", "URI", "CloudEvents source of a Recorder that names none.")
    spool: str = _setting("", "folder", "Where a Recorder keeps events until Kafka has them; empty: one of the user's.")

    # Advice
    levers_file: str = _setting(
        "", "file", "Lever table of your own; empty: the shipped one. `trajlake levers show` shows and checks it."
    )

    # Batches
    batch_max_rows: int = _setting(
        50_000, "events", "Commit when a batch has so many. Larger: fewer table versions, later rows.", ge=1
    )
    batch_max_bytes: int = _setting(
        64 * MIB, "bytes", "Commit when a batch holds so much. Larger: bigger files, more memory.", ge=64 * KIB
    )
    batch_max_age_ms: int = _setting(
        500, "ms", "Commit when the oldest event has waited so long. Smaller: fresher rows, more table versions.", ge=10
    )

    # Payloads
    payload_inline_max_bytes: int = _setting(
        256 * KIB, "bytes", "A larger payload is stored beside the tables and the row refers to it by sha256.", ge=KIB
    )
    event_max_bytes: int = _setting(
        64 * MIB, "bytes", "The topic's largest message: larger events are refused by the broker.", ge=64 * KIB
    )
    event_inline_max_bytes: int = _setting(
        MIB,
        "bytes",
        "What may be left of an event once its large strings are stored by reference; above it, quarantine.",
        ge=64 * KIB,
    )
    deny_fields: Annotated[list[str], NoDecode] = _setting(
        list,
        "key or outer.key, comma between",
        "Fields removed from every event before anything is stored, wherever such a key, or path of keys, stands.",
    )
    suites: str = _setting(
        "",
        "folder",
        "Quality rules: suites of Great Expectations that stand in the place of the shipped ones; empty: the shipped.",
    )

    # Redaction
    redaction: Literal["on", "off"] = _setting(
        "on",
        "on or off",
        "Removes secrets and people from every event before anything is stored. off: only denied fields are removed.",
    )
    redaction_actions: Annotated[dict[str, Action], NoDecode] = _setting(
        dict,
        "rule or kind=marker, pseudonym or keep",
        "What happens to findings, instead of what the table says; `trajlake redact --rules` lists rules and kinds.",
    )
    redaction_key_file: str = _setting(
        "", "file", "Holds the key of pseudonyms, 16 bytes or more. With no key, people become markers."
    )
    redaction_key_env: str = _setting(
        "", "name of a variable", "Environment variable that holds the key of pseudonyms, where no file does."
    )

    # Governance
    policies: str = _setting(
        "",
        "file or folder",
        "Policies: one YAML file, or all of a folder. Empty: the defaults, which deny training.",
    )
    zone: str = _setting(
        "",
        "zone",
        "Zone that this process writes in; what has to stay in another is refused. Empty: bound to none, and refused "
        "is what a policy gives a zone.",
    )
    dedicated_to: str = _setting(
        "",
        "tenant id",
        "The only tenant whose data this process may land: topic and root are its own. Empty: a shared root, where "
        "tenants with isolation: dedicated are refused.",
    )

    # Runs
    run_timeout_s: int = _setting(
        3600,
        "s of log time",
        "A run without an event for so long ends as abandoned. Smaller: wrong ends for slow runs.",
        ge=1,
    )
    reorder_timeout_s: int = _setting(
        60,
        "s of log time",
        "How long a run waits for an event that is missing in its sequence before a gap is recorded.",
        ge=0,
    )
    tick_interval_s: int = _setting(
        10,
        "s",
        "A partition in which a timeout is due gets a tick so often. Smaller: timeouts seen sooner, more records.",
        ge=1,
    )
    closed_runs_kept: int = _setting(
        20_000,
        "runs per partition",
        "Closed runs remembered, to recognise late and repeated events. More: more memory.",
        ge=0,
    )
    state_max_bytes: int = _setting(
        512 * MIB,
        "bytes per partition",
        "State of runs held per partition, about 1 KB a run and its open steps; above it the oldest end as abandoned.",
        ge=16 * MIB,
    )
    snapshot_interval_s: int = _setting(
        60, "s", "How often open runs are saved. Smaller: faster restart, more writing.", ge=1
    )

    # Keeping
    seal_public_key: str = _setting(
        "",
        "file or PEM text",
        "Operators' public key (X25519): originals of quarantined records are kept sealed to it, unless the tenant's "
        "policy says seal_refused: false. Empty: not kept.",
    )
    compact_target_bytes: int = _setting(
        128 * MIB, "bytes", "Size that small files are joined to. Larger: fewer files, more memory.", ge=MIB
    )
    compact_least_files: int = _setting(
        8, "files", "Neighbouring small files that are worth a rewrite. Smaller: rows are written more often.", ge=2
    )
    vacuum_retention_h: int = _setting(
        168,
        "hours",
        "How long old versions can be opened, and files of a writer that paused before its commit are kept.",
        ge=1,
    )
    retention_days: Annotated[dict[str, float], NoDecode] = _setting(
        dict,
        "JSON object, or key=days,…",
        "How long closed runs (runs) and content of refused records (quarantine) are kept; what is not named is kept.",
    )
    log_retention_h: int = _setting(168, "hours", "How long commits stay in the tables' logs.", ge=1)

    # Curation
    training_zone: str = _setting("", "zone", "Zone of a training root that is named. Empty: as `zone`.")
    training_tenant: str = _setting(
        "", "tenant id", "Tenant whose own a named training root is. Empty: as `dedicated_to`."
    )
    curate_every_s: int = _setting(
        30, "s", "How often new runs are judged. Smaller: published sooner, more and smaller publications.", ge=1
    )
    curate_batch_steps: int = _setting(
        100_000, "steps", "Steps that are judged and published together. Larger: fewer versions, more memory.", ge=1
    )
    curate_batch_max_bytes: int = _setting(
        256 * MIB, "bytes", "A batch whose rows are larger in memory is judged in parts.", ge=MIB
    )
    curate_run_max_bytes: int = _setting(
        512 * MIB, "bytes", "A single run whose rows are larger in memory is refused.", ge=MIB, le=1024 * MIB
    )
    curate_held_then: Literal["wait", "release", "reject"] = _setting(
        "wait", "wait, release or reject", "What becomes of runs that nobody released within `curate_held_after_s`."
    )
    curate_held_after_s: int = _setting(86_400, "s", "How long held runs wait where a rule follows.", ge=1)
    deep_scan_threshold: float = _setting(
        0.7,
        "score, 0 to 1",
        "What the deep scan finds counts from this score of Presidio's on. Smaller: more is held for nothing.",
        ge=0.05,
        le=1,
    )
    deep_scan_entities: Annotated[list[str], NoDecode] = _setting(
        list,
        "entity type,…",
        "What the deep scan looks for, by Presidio's names. Empty: those of its table that are looked for by default.",
    )
    deep_scan_model: str = _setting(
        "",
        "package or folder",
        "Installed spaCy model that finds names and places for the deep scan. Empty: patterns and checksums only.",
    )
    deep_scan_max_chars: int = _setting(
        8_000_000, "characters", "A run with more text is not scanned, and not published.", ge=1000
    )
    deep_scan_max_s: float = _setting(
        60, "s", "A run whose scan takes longer is not published. Larger: a slow run holds up a pass.", gt=0
    )

    # Watching
    health_host: str = _setting("127.0.0.1", "address", "Where health, readiness and metrics answer.")
    health_port: int = _setting(8780, "port", "Port of `land`; 0 takes a free one, shown in the log.", ge=0, le=65535)
    curate_port: int = _setting(
        8781, "port", "Port of `curate`, likewise; taken by others, it goes on without.", ge=0, le=65535
    )
    maintain_port: int = _setting(8782, "port", "Port of `maintain --every`, likewise.", ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "level", "Least level that is logged.")
    log_format: Literal["auto", "json", "console"] = _setting(
        "auto", "auto, json or console", "auto: console in a terminal, JSON lines elsewhere."
    )

    tracing_endpoint: str = _setting(
        "",
        "URL",
        "Where spans of the workers go, by OTLP over HTTP (http://collector:4318/v1/traces). Empty: tracing is off.",
    )

    # Embedded broker
    broker_dir: str = _setting("./.trajlake/broker", "folder", "Data, log and pid file of the embedded broker.")
    broker_heap_mb: int = _setting(512, "MiB", "Heap of the embedded broker.", ge=128)

    @field_validator(
        "retention_days",
        "storage_options",
        "training_storage_options",
        "kafka_options",
        "redaction_actions",
        mode="before",
    )
    @classmethod
    def _read_mapping(cls, value: Any) -> Any:
        return _mapping(value) if isinstance(value, str) else value

    @field_validator("deny_fields", "deep_scan_entities", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text.startswith("["):
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError(f"is not a JSON list: {error}") from None
        return [part.strip() for part in text.split(",") if part.strip()]

    @field_validator("deny_fields")
    @classmethod
    def _check_fields(cls, value: list[str]) -> list[str]:
        for name in value:
            keys_of(name)
        return value

    @field_validator("deep_scan_entities")
    @classmethod
    def _check_entities(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in BY_NAME:
                near = get_close_matches(name.upper(), BY_NAME, n=1, cutoff=0.6)
                raise ValueError(f"{name!r} is no entity type{f'; did you mean {near[0]}?' if near else ''}")
        return value

    @field_validator("deep_scan_model")
    @classmethod
    def _check_model(cls, value: str, info: ValidationInfo) -> str:
        named = [name for name in info.data.get("deep_scan_entities", ()) if BY_NAME[name] in NAMED]
        if named and not value.strip():
            raise ValueError(f"is empty; {named[0]} of deep_scan_entities needs a model")
        return value.strip()

    @field_validator("kafka_options_file")
    @classmethod
    def _check_options_file(cls, value: str) -> str:
        if not value.strip():
            return ""
        read_client_options(Path(_absolute(value)))
        return _absolute(value)

    @field_validator("kafka_options")
    @classmethod
    def _check_owned(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if file := info.data.get("kafka_options_file"):
            value = {**read_client_options(Path(file)), **value}
        owned = sorted(OWNED_KAFKA_OPTIONS & value.keys())
        if owned:
            raise ValueError(f"{owned[0]} is set by trajlake itself; take it out")
        return value

    @field_validator("root")
    @classmethod
    def _check_root(cls, value: str) -> str:
        text = value.strip()
        if not text:
            raise ValueError("is empty; give a folder or a URI")
        if text.startswith(_REMOTE_SCHEMES):
            return text.rstrip("/")
        for scheme in _LOCAL_SCHEMES:
            text = text.removeprefix(scheme)
        if "://" in text:
            raise ValueError(
                f"no object store has the scheme {text.split('://')[0]!r}; known: {', '.join(_REMOTE_SCHEMES)}"
            )
        strange = sorted(set("#?%*") & set(_absolute(text)))
        if strange:
            raise ValueError(f"the folder's path holds {strange[0]!r}, which Delta readers take for a part of a URI")
        return _absolute(text)

    @field_validator("training_root")
    @classmethod
    def _check_training_root(cls, value: str) -> str:
        return cls._check_root(value) if value.strip() else ""

    @field_validator("broker_dir")
    @classmethod
    def _check_folder(cls, value: str) -> str:
        return _absolute(value)

    @field_validator("suites")
    @classmethod
    def _check_suites(cls, value: str) -> str:
        return _absolute(value) if value.strip() else ""

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, value: str) -> str:
        for server in value.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError(f"{server.strip()!r} is not host:port")
        return value

    @field_validator("events_topic", "outcomes_topic", "stats_topic", "decisions_topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        # Kafka's own rule (org.apache.kafka.common.internals.Topic).
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in {".", ".."}:
            raise ValueError(f"{value!r} is not a topic name: letters, digits, '.', '_' and '-', at most 249")
        return value

    @field_validator("tracing_endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("is no URL that begins with http:// or https://")
        return value

    @field_validator("policies")
    @classmethod
    def _check_policies(cls, value: str) -> str:
        return _absolute(value) if value else value

    @field_validator("zone")
    @classmethod
    def _check_zone(cls, value: str) -> str:
        if value and (value == "any" or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", value)):
            raise ValueError(f"{value!r} is no zone: small letters, digits and '-', at most 63, and not `any`")
        return value

    @field_validator("group_id", "app_id", "roll_id", "health_host", "roll_host")
    @classmethod
    def _check_text(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return value

    def lake(self) -> Lake:
        """The lake that `root` and `training_root` name."""
        # Here, because an agent that only publishes reads settings too and has no use for Arrow.
        from trajlake.sinks.lake import Lake

        return Lake(self.root, self.storage_options, self.training_root, self.training_storage_options)

    def kafka(self, **properties: Any) -> dict[str, Any]:
        """Client properties for confluent-kafka: servers, then `kafka_options`, then `properties`; the last wins."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.kafka_options, **properties}

    def shown(self) -> dict[str, Any]:
        """Every setting with its value, fit to be shown: what may be a secret is replaced by `***`."""
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            values[name] = disclose(value) if _extra(name).get("secret") else value
        return values


def load_settings(**overrides: Any) -> Settings:
    """Read and check all settings. An override that is None counts as not given.

    Raises SettingError naming the first wrong setting, or a variable that is one typing slip away from a setting.
    """
    _check_names(os.environ)
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise _setting_error(error) from None


def describe() -> list[SettingDoc]:
    """All settings in the order in which they are declared."""
    return [
        SettingDoc(
            name=name,
            env=f"{PREFIX}{name.upper()}",
            default=_default_text(field.get_default(call_default_factory=True)),  # type: ignore[call-arg,unused-ignore]
            unit=str(_extra(name)["unit"]),
            doc=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _default_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _extra(name: str) -> dict[str, Any]:
    extra = Settings.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _check_names(environ: Mapping[str, str]) -> None:
    """Stop at a variable that is nearly a setting: a slip in `deny_fields` must not let the fields through."""
    known = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    for variable in environ:
        if not variable.startswith(PREFIX) or variable in known or variable in NOT_SETTINGS:
            continue
        near = get_close_matches(variable, known, n=1, cutoff=0.88)
        if near:
            raise SettingError(known[near[0]], f"{variable} is set, which is no setting; did you mean {near[0]}?")


def _setting_error(error: ValidationError) -> SettingError:
    first = error.errors(include_url=False, include_input=True)[0]
    cause = first.get("ctx", {}).get("error")
    name = str(first["loc"][0]) if first["loc"] else "?"
    if first["type"] == "extra_forbidden":
        return SettingError(name, "there is no such setting; `trajlake config` lists them")
    problem = str(cause) if cause is not None else first["msg"].removeprefix("Input ")
    if cause is None and not _extra(name).get("secret"):
        problem = f"{problem}, not {first['input']!r}"
    return SettingError(name, problem)


def _mapping(text: str) -> Any:
    text = text.strip()
    if text.startswith("{"):
        try:
            parsed: dict[str, Any] = json.loads(text)
        except ValueError:
            # The parser's own message quotes the text, which may hold a secret.
            raise ValueError("is not a JSON object") from None
        # Clients take text: true and 5 are welcome in JSON, nested values are not and fail the check of types.
        return {
            key: json.dumps(value) if isinstance(value, (bool, int, float)) else value for key, value in parsed.items()
        }
    pairs: dict[str, str] = {}
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), start=1):
        key, equals, value = part.partition("=")
        if not (key.strip() and equals):
            raise ValueError(f"part {number} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def _absolute(text: str) -> str:
    # At once, so that a worker started in another folder means the same place.
    return str(Path(text).expanduser().absolute())
