"""What tables are declared with: types, columns, and the groups of columns that several tables share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
STR: Final = pa.string()
I64: Final = pa.int64()
I32: Final = pa.int32()
F64: Final = pa.float64()
BOOL: Final = pa.bool_()


def list_of_structs(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.field("element", pa.struct([pa.field(n, t) for n, t in fields])))


def list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item))


MESSAGES: Final = list_of_structs(("role", STR), ("content", STR), ("name", STR))
TOOL_CALLS: Final = list_of_structs(("tool_call_id", STR), ("function_name", STR), ("arguments", STR))
OBSERVATIONS: Final = list_of_structs(
    ("source_call_id", STR),
    ("content", STR),
    ("payload_ref", STR),
    ("is_error", BOOL),
    ("error_type", STR),
    ("error_message", STR),
    ("http_status", I32),
    ("exit_code", I32),
    ("exit_signal", STR),
    ("retry_count", I32),
    ("latency_ms", F64),
    ("offset", I64),
)
GAPS: Final = list_of_structs(("code", STR), ("detail", STR))
REDACTIONS: Final = list_of_structs(("path", STR), ("rule", STR), ("count", I32))
VERDICTS: Final = list_of_structs(
    ("policy_id", STR), ("rule_id", STR), ("verdict", STR), ("action", STR), ("tool_call_id", STR)
)
REASONS: Final = list_of_structs(("code", STR), ("rule_id", STR), ("detail", STR))
COMPACTIONS: Final = list_of_structs(
    ("sequence", I64), ("trigger", STR), ("summary", STR), ("tokens_before", I64), ("tokens_after", I64)
)
VERSIONS: Final = list_of_structs(("name", STR), ("version", STR))
QUALITY: Final = list_of_structs(("rule_id", STR), ("severity", STR))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, Arrow type, whether it may be null, what it means. `key` columns get file statistics."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = True
    unit: str | None = None
    key: bool = False


@dataclass(frozen=True)
class Table:
    """A Delta table of the lake: its name, what one row is, its columns in order."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    dictionary: tuple[str, ...] = field(default=())
    """Columns with few distinct values, dictionary-encoded in Parquet."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema in declared order."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns whose minimum and maximum are kept per file, so that readers skip files."""
        return tuple(c.name for c in self.columns if c.key)


def position(what: str) -> tuple[Column, ...]:
    return (
        Column("topic", STR, "Kafka topic", nullable=False),
        Column("partition", I32, "Kafka partition", nullable=False, key=True),
        Column("offset", I64, what, nullable=False, key=True),
    )


POLICY_REVISION = Column("policy_revision", STR, "content hash of the policies under which it landed")
RUN_IDENTITY = (
    Column("tenant_id", STR, "tenant that owns the run", nullable=False, key=True),
    Column("run_id", STR, "run, unique within the tenant", nullable=False, key=True),
)
VERSION_COLUMNS = (
    Column("agent_name", STR, "agent"),
    Column("agent_version", STR, "version of the agent"),
    Column("skill_name", STR, "skill that ran"),
    Column("skill_version", STR, "version of the skill"),
    Column("prompt_name", STR, "prompt"),
    Column("prompt_version", STR, "version of the prompt"),
    Column("memory_version", STR, "version of the memory"),
    Column("model_name", STR, "model that decided"),
    Column("model_tier", STR, "price class of the model, the operator's own name"),
    Column("model_provider", STR, "who served the model"),
)
USAGE = (
    Column("input_tokens", I64, "tokens read, as billed", unit="tokens"),
    Column("output_tokens", I64, "tokens written, as billed", unit="tokens"),
    Column("cache_read_input_tokens", I64, "input tokens served from a cache", unit="tokens"),
    Column("cache_creation_input_tokens", I64, "input tokens written to a cache", unit="tokens"),
    Column("reasoning_tokens", I64, "output tokens spent on reasoning", unit="tokens"),
    Column("cost_usd", F64, "price as reported", unit="USD"),
)
FAILURE = (
    Column("outcome_class", STR, "closed set, see the failure taxonomy", nullable=False),
    Column("failure_kind", STR, "finer kind within the class; null on success"),
    Column("failure_basis", STR, "id of the rule that classified", nullable=False),
    Column("error_type", STR, "error.type of the deciding evidence"),
    Column("http_status", I32, "HTTP status of the deciding evidence"),
    Column("provider_code", STR, "provider's own error code of the deciding evidence"),
    Column("retry_count", I32, "failed attempts before the kept one, summed"),
    Column("retryable", BOOL, "whether the source said that a retry may help"),
    Column("classifier_revision", STR, "content hash of the rule table", nullable=False),
)
EVIDENCE = (
    Column("redactions", REDACTIONS, "what was removed: path, rule, count; never the value"),
    Column("gaps", GAPS, "what is known to be missing or odd: code and detail"),
    Column("late", BOOL, "part of it came after the run was closed, or after its turn was given up", nullable=False),
)

QUALITY_COLUMN = Column("quality", QUALITY, "quality rules that the row failed, and how grave each is; null where none")
JUDGED = (
    QUALITY_COLUMN,
    Column("suite_revision", STR, "content hash of the suite that judged the row; null where none did"),
)
