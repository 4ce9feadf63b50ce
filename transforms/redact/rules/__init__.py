"""The rule table: every kind of secret and of personal data that is found, as data.

Read `model.Rule` for the columns. Order does not matter; ids are what lands in `redactions` and in markers, so a
published id keeps its meaning.
"""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Rule
from trajlake.transforms.redact.rules.chat import CHAT
from trajlake.transforms.redact.rules.cloud import CLOUD
from trajlake.transforms.redact.rules.code import CODE
from trajlake.transforms.redact.rules.credentials import CREDENTIALS
from trajlake.transforms.redact.rules.europe import EUROPE
from trajlake.transforms.redact.rules.korea import KOREA
from trajlake.transforms.redact.rules.models import MODELS
from trajlake.transforms.redact.rules.national import NATIONAL
from trajlake.transforms.redact.rules.payment import PAYMENT
from trajlake.transforms.redact.rules.people import PEOPLE
from trajlake.transforms.redact.rules.services import SERVICES

DEFAULT_RULES: Final[tuple[Rule, ...]] = (
    *CREDENTIALS,
    *CLOUD,
    *CODE,
    *CHAT,
    *PAYMENT,
    *MODELS,
    *SERVICES,
    *PEOPLE,
    *KOREA,
    *EUROPE,
    *NATIONAL,
)

__all__ = ["DEFAULT_RULES"]
