"""The redactor that the settings ask for. The key of pseudonyms is read here, once, and shown nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from trajlake.streams.settings import SettingError, Settings
from trajlake.transforms.redact.actions import resolve_actions
from trajlake.transforms.redact.errors import RedactionError
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.rules import DEFAULT_RULES


def redactor_for(settings: Settings) -> Redactor | None:
    """The redactor of the land path; None where redaction is switched off and only denied fields are removed.

    Raises SettingError for actions that make no sense, and where pseudonyms are asked for and there is no key.
    """
    if settings.redaction == "off":
        return None
    return Redactor(key=check_redaction(settings), actions=settings.redaction_actions)


def check_redaction(settings: Settings) -> bytes | None:
    """The key of pseudonyms. Raises SettingError where `redactor_for` does, without compiling the rule table."""
    if settings.redaction == "off":
        return None
    key = pseudonym_key(settings)
    try:
        resolve_actions(DEFAULT_RULES, settings.redaction_actions, keyed=key is not None)
    except RedactionError as error:
        raise SettingError("redaction_actions", str(error)) from None
    return key


def pseudonym_key(settings: Settings) -> bytes | None:
    """The master key that the settings name; None where they name none. Raises SettingError where it is not there."""
    if settings.redaction_key_file:
        try:
            key = Path(settings.redaction_key_file).read_bytes().strip()
        except OSError as error:
            raise SettingError("redaction_key_file", f"cannot be read: {error.strerror}") from None
        return _checked("redaction_key_file", key)
    if settings.redaction_key_env:
        value = os.environ.get(settings.redaction_key_env)
        if not value:
            raise SettingError("redaction_key_env", f"the variable {settings.redaction_key_env} is not set")
        return _checked("redaction_key_env", value.strip().encode())
    return None


def _checked(name: str, key: bytes) -> bytes:
    if len(key) < Redactor.LEAST_KEY_BYTES:
        raise SettingError(name, f"the key has {len(key)} bytes; it needs {Redactor.LEAST_KEY_BYTES} or more")
    return key
