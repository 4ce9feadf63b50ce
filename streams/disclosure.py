"""What may be shown of options that are passed on to Kafka and to object stores.

Secrets have no fixed names there (`proxy_url` holds a password, an Azure connection string a key), so that only options
which are known to be harmless are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "***"

HARMLESS: Final = frozenset(
    {
        "acks", "aws_allow_http", "aws_conditional_put", "aws_default_region", "aws_region",
        "aws_virtual_hosted_style_request", "allow_http", "allow_invalid_certificates", "azure_storage_use_emulator",
        "azure_use_emulator", "broker.address.family", "client.dns.lookup", "client.id", "client.rack",
        "compression.codec", "compression.type", "conditional_put", "connect_timeout", "debug", "default_region",
        "enable.ssl.certificate.verification", "linger.ms", "log_level", "pool_idle_timeout", "region",
        "request.timeout.ms", "sasl.mechanism", "sasl.mechanisms", "security.protocol", "session.timeout.ms",
        "socket.timeout.ms", "ssl.endpoint.identification.algorithm", "timeout", "use_emulator",
        "virtual_hosted_style_request",
    }
)  # fmt: skip
"""Names, in lower case, of options whose values are never secret."""

_ENDPOINTS: Final = frozenset({"aws_endpoint", "aws_endpoint_url", "azure_endpoint", "endpoint", "endpoint_url"})
_BARE_ENDPOINT: Final = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?/?")
"""An address and nothing else: no user, no path and no query, where keys and signatures may stand."""


def disclose(value: Any) -> Any:
    """A setting that may be secret, fit to be shown: `***` for every value that is not known to be harmless."""
    if isinstance(value, Mapping):
        return {name: text if _is_harmless(name, str(text)) else HIDDEN for name, text in value.items()}
    return HIDDEN if value else value


def _is_harmless(name: str, text: str) -> bool:
    name = name.lower()
    return name in HARMLESS or (name in _ENDPOINTS and _BARE_ENDPOINT.fullmatch(text) is not None)
