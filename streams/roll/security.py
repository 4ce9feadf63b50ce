"""TLS, SASL and OAuth for the rolling workers, whose client is aiokafka: the same properties as for all other clients.

`kafka_options` are librdkafka's. Those that concern security are put into Faust's credentials here; one that has no
counterpart stops the worker with its name, because a connection that is less secure than asked for must not be made.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import faust
from aiokafka.abc import AbstractTokenProvider
from faust.types.auth import CredentialsT

from trajlake.streams.settings import SettingError

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
UNDERSTOOD: Final = frozenset(
    {
        "security.protocol", "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm",
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
        "ssl.cipher.suites", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "sasl.oauthbearer.token.endpoint.url",
        "https.ca.location",
    }
)  # fmt: skip
TOKEN_S: Final = 15.0
"""Time that the token's endpoint has to answer."""
RENEW_AT: Final = 0.8
"""Part of a token's life after which the next one is fetched."""


def broker_credentials(options: Mapping[str, str]) -> CredentialsT | None:
    """Credentials for Faust from librdkafka's properties; None for a plain connection.

    Raises `SettingError` for what aiokafka cannot do, and for files that cannot be read.
    """
    protocol = options.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise _wrong("security.protocol", f"is none of {', '.join(PROTOCOLS)}")
    strange = sorted(
        name for name in options if name.startswith(("ssl.", "sasl.", "https.")) and name not in UNDERSTOOD
    )
    if strange and protocol != "plaintext":
        raise _wrong(
            strange[0], "has no counterpart in the client of `trajlake roll`; docs/kafka-security.md lists all"
        )
    if protocol == "plaintext":
        return None
    context = _tls(options) if protocol.endswith("ssl") else None
    if protocol == "ssl":
        return faust.SSLCredentials(context)
    mechanism = (options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "").upper()
    if mechanism not in MECHANISMS:
        raise _wrong("sasl.mechanism", f"is none of {', '.join(MECHANISMS)}")
    if mechanism == "OAUTHBEARER":
        from faust.auth import OAuthCredentials

        return OAuthCredentials(oauth_cb=OidcToken(options), ssl_context=context)
    for name in ("sasl.username", "sasl.password"):
        if not options.get(name):
            raise _wrong(name, f"is missing, which {mechanism} needs")
    return faust.SASLCredentials(
        username=options["sasl.username"], password=options["sasl.password"], mechanism=mechanism, ssl_context=context
    )


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl.ca.location") or None, cadata=options.get("ssl.ca.pem") or None
        )
    except (OSError, ValueError) as error:
        raise _wrong("ssl.ca.location", f"cannot be used: {_reason(error)}") from None
    if options.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if options.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ciphers := options.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise _wrong("ssl.cipher.suites", _reason(error)) from None
    if certificate := options.get("ssl.certificate.location"):
        try:
            context.load_cert_chain(
                certificate, options.get("ssl.key.location") or None, options.get("ssl.key.password") or None
            )
        except (OSError, ValueError) as error:
            raise _wrong("ssl.certificate.location", f"cannot be used with its key: {_reason(error)}") from None
    return context


class OidcToken(AbstractTokenProvider):  # type: ignore[misc,unused-ignore]
    """An access token by the client credentials grant (RFC 6749, section 4.4), kept for most of its life."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if options.get("sasl.oauthbearer.method", "oidc").lower() != "oidc":
            raise _wrong("sasl.oauthbearer.method", "is not oidc, the one way that all clients know")
        for name in ("token.endpoint.url", "client.id", "client.secret"):
            if not options.get(f"sasl.oauthbearer.{name}"):
                raise _wrong(f"sasl.oauthbearer.{name}", "is missing")
        self._url = options["sasl.oauthbearer.token.endpoint.url"]
        account = f"{options['sasl.oauthbearer.client.id']}:{options['sasl.oauthbearer.client.secret']}"
        self._headers = {"Authorization": f"Basic {b64encode(account.encode()).decode()}"}
        self._scope = options.get("sasl.oauthbearer.scope", "")
        self._extensions = dict(
            part.strip().split("=", 1)
            for part in options.get("sasl.oauthbearer.extensions", "").split(",")
            if "=" in part
        )
        self._ca = options.get("https.ca.location") or None
        self._token = ""
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """The token, fetched anew when most of its life is over. Raises `ConnectionError` where there is none."""
        async with self._lock:
            if time.monotonic() >= self._renew_at:
                await self._fetch()
            return self._token

    def extensions(self) -> dict[str, str]:
        """SASL extensions (RFC 7628, section 3.1)."""
        return self._extensions

    async def _fetch(self) -> None:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        context = ssl.create_default_context(cafile=self._ca)
        began = time.monotonic()
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TOKEN_S)) as session,
                session.post(self._url, data=form, headers=self._headers, ssl=context) as answer,
            ):
                if answer.status != 200:
                    raise ConnectionError(f"the token's endpoint answers {answer.status}")
                body: dict[str, Any] = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ConnectionError(f"the token's endpoint does not answer: {type(error).__name__}") from None
        token = body.get("access_token")
        if not isinstance(token, str) or not token:
            raise ConnectionError("the token's endpoint gives no access_token")
        self._token = token
        self._renew_at = began + RENEW_AT * float(body.get("expires_in") or 60.0)


def _wrong(name: str, problem: str) -> SettingError:
    return SettingError("kafka_options", f"{name} {problem}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or type(error).__name__
