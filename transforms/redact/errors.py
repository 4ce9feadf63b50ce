"""What can stop a redaction. Every one means: quarantine the record, nothing of it may be shown.

    RedactionError
    ├── RedactionLimit          a bound was met before the payload was proved clean
    │   ├── DepthLimit          nesting of JSON, of JSON in strings, or of encodings
    │   ├── SizeLimit           characters of one value
    │   └── WorkLimit           characters searched for each character of the value
    ├── MissingKey              a pseudonym was asked for and no key is known for the tenant
    ├── InvalidRules            a rule or policy does not hold together; raised when the redactor is made
    └── RedactionFailed         anything unforeseen inside the detector

Messages name the bound, the tenant or the rule, and never hold a part of the payload. `from None` is used wherever one
is raised for another exception, because that one may quote the payload.
"""

from __future__ import annotations


class RedactionError(Exception):
    """A payload could not be redacted; it must not be stored, logged or passed on."""


class RedactionLimit(RedactionError):
    """A bound was met. `limit` is the bound's name in `Limits`, `allowed` its value."""

    def __init__(self, limit: str, allowed: float) -> None:
        super().__init__(
            f"redaction stopped at its limit {limit}={allowed:g}: quarantine the record, or raise the limit"
        )
        self.limit = limit
        self.allowed = allowed


class DepthLimit(RedactionLimit):
    """JSON nesting, JSON in strings, or encodings inside encodings go deeper than allowed."""


class SizeLimit(RedactionLimit):
    """The value holds more characters than allowed."""


class WorkLimit(RedactionLimit):
    """The value takes too long: too many layers, rounds or repetitions for its size."""


class MissingKey(RedactionError):
    """A pseudonym needs the tenant's key and there is none. Keys are never made up."""

    def __init__(self, tenant: str | None) -> None:
        who = "an event without a tenant" if not tenant else f"tenant {tenant!r}"
        super().__init__(f"no pseudonym key for {who}: configure one, or let the rules make markers")
        self.tenant = tenant


class InvalidRules(RedactionError):
    """The rule table or the actions asked for are not consistent; the message names the rule."""


class RedactionFailed(RedactionError):
    """The detector met something unforeseen. `kind` is the type of the hidden exception, never its text."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"redaction failed inside the detector ({kind}): quarantine the record and report the kind")
        self.kind = kind
