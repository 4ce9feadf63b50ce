"""All formats by name. A new one is a module beside this one and a line here."""

from __future__ import annotations

from typing import Final

from trajlake.transforms.exporters import areal, atif, chat, steps, trl, verl
from trajlake.transforms.exporters.format import ExportFormat

FORMATS: Final[dict[str, ExportFormat]] = {
    made.name: made
    for made in (
        trl.SFT, trl.SFT_MESSAGES, trl.PREFERENCE, trl.PROMPT, verl.FORMAT, areal.FORMAT, atif.FORMAT, chat.FORMAT,
        steps.FORMAT,
    )
}  # fmt: skip
