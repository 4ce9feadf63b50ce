"""Client properties of Kafka from a file: where secrets are mounted, not set in the environment.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.username=trajlake
    sasl.password=...

One `key=value` a line with `#` comments, as Kafka's own tools read them, or a JSON object. Names are librdkafka's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1 << 20


def read_client_options(path: Path) -> dict[str, str]:
    """The properties that a file holds. Raises ValueError with the line that is wrong, and never with its text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path} is larger than {MAX_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
    if text.lstrip().startswith("{"):
        return _from_json(path, text)
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        key, equals, value = line.partition("=")
        if not (key.strip() and equals):
            raise ValueError(f"{path} line {number} is not key=value")
        found[key.strip()] = value.strip()
    return found


def _from_json(path: Path, text: str) -> dict[str, str]:
    try:
        parsed = json.loads(text)
    except ValueError:
        # The parser's own message quotes the text.
        raise ValueError(f"{path} is not a JSON object") from None
    for key, value in parsed.items():
        if not isinstance(value, (str, int, float, bool)):
            raise ValueError(f"{path}: {key} is neither text, number nor true or false")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in parsed.items()}
