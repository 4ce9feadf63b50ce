"""The skills of the demo's agents, by name.

Stage: demo. Reads: an agent's folder. Writes: an agent's folder. May import: the demo's tools.
"""

from __future__ import annotations

from typing import Final

from trajlake.demo.skills.base import Skill
from trajlake.demo.skills.files import TidyFiles
from trajlake.demo.skills.json_repair import FixJson
from trajlake.demo.skills.logs import TriageLog
from trajlake.demo.skills.reports import SumReport
from trajlake.demo.skills.scripts import RunScript
from trajlake.demo.skills.teams import Orchestrate

SKILLS: Final[dict[str, Skill]] = {
    skill.name: skill for skill in (TidyFiles(), SumReport(), RunScript(), FixJson(), TriageLog(), Orchestrate())
}

WATCH: Final = "watch-log"
"""The skill of agents that wait for somebody; see `trajlake.demo.waiting`."""
