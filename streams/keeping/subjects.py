"""The forms in which the id of a data subject stands in tables: as it was sent, and as redaction leaves it.

An id that is a mail address or a telephone number lands as a pseudonym. Whoever asks for erasure knows the address.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

from trajlake.streams.redaction import redactor_for
from trajlake.streams.settings import Settings
from trajlake.transforms.landing.redaction import RecordRedaction
from trajlake.transforms.redact.denylist import DenyList

MARKED: Final = "[redacted:"


class Forms(NamedTuple):
    """`names`: the id as given, and as it may stand in a table. `is_marked`: redaction may leave a marker of it that is
    the same for everybody, so that rows which hold it cannot be told."""

    names: tuple[str, ...]
    is_marked: bool


def forms_of(settings: Settings, tenant_id: str, subject_id: str) -> Forms:
    """Forms of a subject's id under the settings of now. Raises `SettingError`."""
    redactor = redactor_for(settings)
    if redactor is None:
        return Forms((subject_id,), is_marked=False)
    event = {"tenantid": tenant_id, "subject": subject_id, "data": {"subject_id": subject_id}}
    text, _ = RecordRedaction(DenyList(()), redactor).apply(orjson.dumps(event), tenant_id)
    landed = orjson.loads(text)
    found = dict.fromkeys([subject_id, landed["data"]["subject_id"], landed["subject"]])
    names = tuple(name for name in found if isinstance(name, str) and (name == subject_id or MARKED not in name))
    return Forms(names, is_marked=len(names) < len(found))
