"""Pseudonyms: the same value of the same tenant gets the same stand-in, and nobody without the key can tell which
value.

HMAC-SHA256 (RFC 2104, FIPS 180-4) over the rule and the normalised value, under a key of the tenant. From one master
key the tenants' keys are derived with HMAC as well, so that equal values of two tenants cannot be joined.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from trajlake.transforms.redact.errors import MissingKey
from trajlake.transforms.redact.views import fold

_ALPHABET: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
LEAST_KEY_BYTES: Final = 16
LENGTH: Final = 16
"""Letters of a pseudonym: 64 bits, written in a to p, so that no digits can look like a number of somebody."""


class Pseudonyms:
    """Makes pseudonyms. `key` is a master key, or a mapping from tenant to that tenant's key."""

    def __init__(self, key: bytes | Mapping[str, bytes]) -> None:
        if isinstance(key, bytes) and len(key) < LEAST_KEY_BYTES:
            raise MissingKey(None)
        self._key = key
        keys = {"": key} if isinstance(key, bytes) else key
        marks = [hmac.new(keys[tenant], tenant.encode(), hashlib.sha256).digest() for tenant in sorted(keys)]
        self.id: Final = hashlib.sha256(b"".join(marks)).hexdigest()[:8]
        """Tells keys apart and says nothing of them."""

    def __repr__(self) -> str:
        return "Pseudonyms(<key>)"

    def of(self, rule_id: str, value: str, tenant: str | None) -> str:
        """The pseudonym of a value, `[<rule id>:<16 letters>]`. Raises MissingKey where the tenant has no key."""
        text = f"{rule_id}\0{normalise(rule_id, value)}".encode()
        digest = hmac.new(self._tenant_key(tenant), text, hashlib.sha256).hexdigest()
        return f"[{rule_id}:{digest[:LENGTH].translate(_ALPHABET)}]"

    def _tenant_key(self, tenant: str | None) -> bytes:
        if not tenant:
            raise MissingKey(tenant)
        if isinstance(self._key, bytes):
            return hmac.new(self._key, b"trajlake tenant\0" + tenant.encode(), hashlib.sha256).digest()
        key = self._key.get(tenant)
        if not key:
            raise MissingKey(tenant)
        return key


def normalise(rule_id: str, value: str) -> str:
    """The form under which a value is the same: disguise undone, case folded, telephones as digits without the trunk
    0."""
    view = fold(value)
    plain = (view.text if view else value).strip().casefold()
    if rule_id.endswith("phone"):
        digits = "".join(char for char in plain if char.isdigit())
        if digits.startswith("82") and len(digits) > 10:
            digits = digits[2:]
        return digits.lstrip("0")
    return plain
