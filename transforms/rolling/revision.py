"""Revision of the way in which skills are counted; goes into every statistic."""

from __future__ import annotations

from typing import Final

ROLLING_REVISION: Final = "rolling-1"
"""Raised when the same outcomes would be counted differently. Stored state is then rebuilt from the table `runs`."""
