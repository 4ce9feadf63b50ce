"""Records of a Claude Code file, and the responses that are gathered from several of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from trajlake.expectations.events import Message, Model, ModelResponded, Usage
from trajlake.expectations.reasons import Gap
from trajlake.transforms.importers import claude_blocks as blocks
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.origin import digest


class Entry(NamedTuple):
    """A record with what the reader found out about it. `uid` names it: its uuid, else a digest of its content."""

    record: dict[str, Any]
    place: str
    uid: str
    forked_from: str | None = None
    """Session whose history the record repeats; for a first record, the one that it hangs on."""
    orphan_of: str | None = None
    """Parent that no file given holds."""
    repeated: bool = False
    """A record of this uuid came before in the file."""

    @property
    def time(self) -> datetime | None:
        return fields.moment(self.record.get("timestamp"))

    @property
    def message(self) -> dict[str, Any]:
        return fields.mapping(self.record.get("message"))


@dataclass
class Response:
    """A response that is being gathered from its records."""

    key: str
    place: str
    time: datetime | None
    input_messages: list[Message]
    blocks: list[Any] = field(default_factory=list)
    usage: Usage | None = None
    model: str | None = None
    finish_reason: str | None = None
    copied: bool = False
    orphan_of: str | None = None
    request_id: str | None = None
    retry_count: int | None = None
    failure: dict[str, Any] = field(default_factory=dict)
    written_as: str | None = None
    """Revision in which it has been written; None while it has not been."""

    @property
    def revision(self) -> str:
        """Digest of what has been gathered. A response that got more blocks is published again, as another event."""
        usage = msgspec.to_builtins(self.usage)
        return digest([self.blocks, usage, self.finish_reason, self.model, self.failure])

    def gather(self, entry: Entry, is_error: bool) -> None:
        """Take in one more record of the response."""
        message = entry.message
        self.blocks = blocks.unite(self.blocks, blocks.blocks_of(message.get("content")))
        self.usage = blocks.fuller_usage(self.usage, blocks.usage_of(message.get("usage")))
        model = fields.text(message.get("model"))
        self.model = model if model != blocks.SYNTHETIC else None
        self.finish_reason = fields.text(message.get("stop_reason")) or self.finish_reason
        self.request_id = fields.text(entry.record.get("requestId")) or self.request_id
        self.copied |= entry.forked_from is not None
        self.orphan_of = self.orphan_of or entry.orphan_of
        if is_error:
            text, _, _ = blocks.split(self.blocks)
            self.failure = blocks.api_error(entry.record, text if isinstance(text, str) else "")


def opened(entry: Entry) -> dict[str, str | None]:
    """Tool calls in a record: id -> name."""
    found = (fields.mapping(block) for block in blocks.blocks_of(entry.message.get("content")))
    return {
        block["id"]: fields.text(block.get("name"))
        for block in found
        if block.get("type") == "tool_use" and isinstance(block.get("id"), str)
    }


def responded(response: Response) -> ModelResponded:
    """The event of a gathered response."""
    message, reasoning, calls = blocks.split(response.blocks)
    return ModelResponded(
        message_id=response.key,
        message=message,
        reasoning_content=reasoning,
        tool_calls=calls or None,
        input_messages=response.input_messages or None,
        model=Model(response.model) if response.model else None,
        finish_reason=response.finish_reason,
        usage=response.usage,
        is_copied_context=response.copied,
        **{"retry_count": response.retry_count, **response.failure},
    )


def additions_of(request_id: str | None, orphan_of: str | None) -> dict[str, Any] | None:
    """Fields of `data` that the contract does not know: the request's id, and the parent that no file holds."""
    additions: dict[str, Any] = {}
    if request_id is not None:
        additions["extra"] = {"request_id": request_id}
    if orphan_of is not None:
        additions["gaps"] = [{"code": Gap.ORPHAN_PARENT.value, "detail": orphan_of}]
    return additions or None
