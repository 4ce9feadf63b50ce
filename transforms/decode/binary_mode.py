"""CloudEvents binary mode on Kafka: attributes in `ce_` headers, data in the value, turned into structured mode.

Rules: CloudEvents Kafka Protocol Binding 1.0.2 (section 3.2) and JSON Event Format 1.0.2 (section 3.1). The rest of the
flow then knows one form of event only, and the ledger keeps one.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import msgspec

from trajlake.expectations.errors import BinaryModeError
from trajlake.expectations.reasons import Reason

PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
STRUCTURED: Final = "application/cloudevents"
MAX_SHOWN: Final = 64
"""Characters of a header's name that an error shows: names come from outside too."""

_ATTRIBUTE = re.compile(r"[a-z0-9]{1,64}")
_SEQUENCE = re.compile(r"[0-9]{1,18}")
_JSON_TYPE = re.compile(r"(?:application|text)/(?:[a-z0-9.!#$&^_-]+\+)?json|[a-z0-9-]+/[a-z0-9.!#$&^_-]+\+json")
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii"})


def is_binary_mode(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Whether a record's headers hold a CloudEvent in binary mode (a content type of CloudEvents says structured)."""
    if not headers:
        return False
    prefixed = False
    for name, value in headers:
        key = name.lower()
        if key == CONTENT_TYPE and value is not None and value[:32].lower().startswith(STRUCTURED.encode()):
            return False
        prefixed |= key.startswith(PREFIX)
    return prefixed


def structured_from_binary(headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> bytes:
    """The same event in structured mode: one compact JSON object, UTF-8.

    `headers` as the Kafka client gives them; those without `ce_`, other than the content type, are transport and left
    out. `sequence` becomes an integer; all other attributes stay strings. Data of a JSON content type (or of none) is
    kept as it is, white space aside; other data becomes `data_base64`. Whether attributes are missing or out of
    range is for the event decoder to say.

    Raises `BinaryModeError` with the header's name and a quarantine reason, never with a value.
    """
    attributes: dict[str, str | int] = {}
    for name, raw in headers:
        key = name.lower()
        if key == CONTENT_TYPE:
            attribute = "datacontenttype"
        elif key.startswith(PREFIX):
            attribute = key[len(PREFIX) :]
        else:
            continue
        shown = name[:MAX_SHOWN]
        if not _ATTRIBUTE.fullmatch(attribute) or attribute == "data":
            raise BinaryModeError(shown, "not the name of a CloudEvents attribute ([a-z0-9])", Reason.NOT_AN_EVENT)
        if attribute in attributes:
            raise BinaryModeError(shown, "given twice", Reason.DUPLICATE_KEY)
        attributes[attribute] = _attribute(attribute, shown, raw)
    if not attributes.keys() - {"datacontenttype"}:
        raise BinaryModeError(
            PREFIX + "*", "no CloudEvents header; send ce_id, ce_source, ce_type", Reason.NOT_AN_EVENT
        )
    return _join(attributes, value)


def _attribute(attribute: str, shown: str, raw: bytes | None) -> str | int:
    if raw is None:
        raise BinaryModeError(shown, "has no value", Reason.WRONG_TYPE)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BinaryModeError(shown, "is not UTF-8", Reason.NOT_UTF8) from None
    if attribute != "sequence":
        return text
    if not _SEQUENCE.fullmatch(text):
        raise BinaryModeError(shown, "is not a whole number of at most 18 digits", Reason.WRONG_TYPE)
    return int(text)


def _join(attributes: dict[str, str | int], value: bytes | None) -> bytes:
    envelope = msgspec.json.encode(attributes)
    if not value:
        return envelope
    if _is_json(str(attributes.get("datacontenttype", ""))):
        return envelope[:-1] + b',"data":' + _compact(value) + b"}"
    return envelope[:-1] + b',"data_base64":"' + b64encode(value) + b'"}'


def _is_json(content_type: str) -> bool:
    """Whether data is JSON by its media type; no content type means JSON (JSON Event Format, section 3.1)."""
    media, *parameters = content_type.lower().split(";")
    if not media.strip():
        return True
    if not _JSON_TYPE.fullmatch(media.strip()):
        return False
    for parameter in parameters:
        name, _, charset = parameter.strip().partition("=")
        if name == "charset" and charset.strip('"') not in _UTF8:
            raise BinaryModeError(CONTENT_TYPE, "JSON has to be UTF-8 (RFC 8259)", Reason.NOT_UTF8)
    return True


def _compact(value: bytes) -> bytes:
    """One JSON value without white space between its parts. It must be whole: it is about to stand inside another."""
    try:
        value.decode("utf-8")
        return msgspec.json.format(value, indent=-1)
    except UnicodeDecodeError:
        raise BinaryModeError("data", "is not UTF-8", Reason.NOT_UTF8) from None
    except RecursionError:
        raise BinaryModeError("data", "is nested too deep", Reason.TOO_DEEP) from None
    except msgspec.DecodeError as error:
        place = re.search(r"byte \d+", str(error))
        detail = f"is not JSON ({place[0]})" if place else "is not JSON"
        raise BinaryModeError("data", detail, Reason.MALFORMED_JSON) from None
