"""Sealing: records as they were received, readable by operators alone.

HPKE (RFC 9180) in base mode, X25519, HKDF-SHA-256, ChaCha20-Poly1305, as the `cryptography` package has it. The land
worker holds the public key and can open nothing; the private key is only given where a seal is opened. The place of
the record in the log is bound in, so that a seal opens for its own row alone.

    openssl genpkey -algorithm X25519 -out operators.key
    openssl pkey -in operators.key -pubout -out operators.pub
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

FORMAT: Final = "hpke1"
_INFO: Final = b"trajlake quarantine "
_KEY_ID_BYTES: Final = 8


class SealError(ValueError):
    """A key is none, or a seal does not open with it. Says nothing of what is sealed."""


class Sealer:
    """Seals with the operators' public key (PEM, SubjectPublicKeyInfo). Raises `SealError` when it is none."""

    def __init__(self, pem: bytes) -> None:
        try:
            key = serialization.load_pem_public_key(pem)
        except ValueError:
            raise SealError("is no public key in PEM form") from None
        if not isinstance(key, X25519PublicKey):
            raise SealError("is no X25519 key: openssl genpkey -algorithm X25519 makes one")
        self._key = key
        self.key_id = _key_id(key)

    def seal(self, content: bytes, place: str) -> str:
        """Content sealed for a place `topic/partition/offset`, as text: format, id of the key, base64."""
        sealed = _suite().encrypt(content, self._key, info=_INFO + place.encode())
        return f"{FORMAT}:{self.key_id}:{base64.b64encode(sealed).decode()}"


class Opener:
    """Opens seals with the operators' private key (PEM, PKCS 8). Raises `SealError` when it is none."""

    def __init__(self, pem: bytes, password: bytes | None = None) -> None:
        try:
            key = serialization.load_pem_private_key(pem, password)
        except (ValueError, TypeError):
            raise SealError("is no private key in PEM form, or wants a password") from None
        if not isinstance(key, X25519PrivateKey):
            raise SealError("is no X25519 key")
        self._key = key
        self.key_id = _key_id(key.public_key())

    def open(self, sealed: str, place: str) -> bytes:
        """What was sealed for a place. Raises `SealError`."""
        kind, _, rest = sealed.partition(":")
        key_id, _, text = rest.partition(":")
        if kind != FORMAT:
            raise SealError(f"a seal of format {kind[:16]!r}; this version opens {FORMAT}")
        if key_id != self.key_id:
            raise SealError(f"sealed for key {key_id[:32]}, and the given one is {self.key_id}")
        try:
            return bytes(
                _suite().decrypt(base64.b64decode(text, validate=True), self._key, info=_INFO + place.encode())
            )
        except (InvalidTag, ValueError, binascii.Error):
            raise SealError(f"the seal of {place} is broken, or of another row") from None


def read_key(text: str) -> bytes:
    """A key given as PEM text, or as the name of a file that holds it. Raises `SealError` when there is none."""
    if text.lstrip().startswith("-----BEGIN"):
        return text.encode()
    try:
        return Path(text).expanduser().read_bytes()
    except OSError as error:
        raise SealError(f"cannot be read: {error.strerror}") from None


def _suite() -> Any:
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _key_id(key: X25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[: 2 * _KEY_ID_BYTES]
