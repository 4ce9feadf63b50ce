"""Messages behind the tables: outcomes of closed runs, rolling statistics of skills, decisions about levers.

    topic                      key            one message is                           lands in
    trajlake.outcomes.v1       tenant/skill   OutcomeBatch: runs of a skill that       -
                                              closed in one commit of one partition
    trajlake.skill-stats.v1    tenant         SkillStats: a skill in every window      skill_stats
    trajlake.decisions.v1      tenant         Decision: advice, or a flag on advice    decisions

All are JSON. Times are microseconds since the Unix epoch, UTC. Money is whole nano-dollars and latencies are whole
microseconds wherever they are summed, so that no sum depends on the order of its parts. Readers ignore fields that they
do not know.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from trajlake.expectations.taxonomy import OutcomeClass

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
NANO: Final = 1_000_000_000
"""Nano-dollars in a dollar."""

WINDOWS: Final[dict[str, int]] = {"1h": HOUR_US, "24h": DAY_US, "7d": 7 * DAY_US, "30d": 30 * DAY_US, "version": 0}
"""Window -> length in µs of event time. `version` has no length: all runs of the versions that ran last."""

OPEN_CLASSES: Final = (OutcomeClass.ABANDONED, OutcomeClass.TIMEOUT)
"""Classes that may hide a failure of quality or none: both readings are given as bounds."""

CLASSES: Final = tuple(member.value for member in OutcomeClass)
"""Outcome classes in the order of `Counts`."""


class RunVersions(Struct, omit_defaults=True, frozen=True, gc=False):
    """Versions that a run ran under; None where the producer named none."""

    agent: str | None = None
    skill: str | None = None
    prompt: str | None = None
    memory: str | None = None
    model: str | None = None
    policy: str | None = None
    """Version of the weights at the end."""


class RunOutcome(Struct, omit_defaults=True, frozen=True, gc=False):
    """What a closed run says about its skill. A function of its row in `runs`."""

    offset: int
    """Offset of the event that closed the run: what consumers skip by."""
    run_id: str
    end_us: int
    """When the run ended by its producer's clock, but never after the broker saw it close."""
    outcome_class: str
    failure_kind: str | None = None
    failure_basis: str | None = None
    model_tier: str | None = None
    model_provider: str | None = None
    task_family: str | None = None
    versions: RunVersions = RunVersions()
    attempts: int = 1
    """1 and the retries: a run that needed three attempts is one run with three attempts and the cost of all."""
    latency_us: int | None = None
    """From the first event to the last."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_nano_usd: int | None = None
    failing_tool: str | None = None
    """Tool that the deciding evidence names."""
    error_type: str | None = None
    provider_code: str | None = None
    http_status: int | None = None
    attributed_step_id: str | None = None
    classifier_revision: str | None = None
    revision: int = 0
    """0, then one more each time that late parts closed the run again."""


class ClosedRun(Struct, omit_defaults=True, frozen=True, gc=False):
    """One entry of a batch. `outcome`: what counts from now on; None where the run is another skill's by now.

    `replaces`: what it counted as for this skill until now. `offset` is the closing offset of the newer of the two.
    """

    offset: int
    outcome: RunOutcome | None = None
    replaces: RunOutcome | None = None


class LeverPull(Struct, omit_defaults=True, frozen=True, gc=False):
    """A lever that somebody pulled, from an `agent.lever.applied` event of the skill's tenant."""

    offset: int
    partition: int
    at_us: int
    """When, by its producer's clock, but never after the broker saw it."""
    lever: str
    change_from: str | None = None
    change_to: str | None = None
    applied_by: str | None = None
    decision_id: str | None = None


class OutcomeBatch(Struct, omit_defaults=True, frozen=True):
    """Runs of one skill that closed in a stretch of one partition of the events topic, in order of closing offset.

    Batches of one skill and partition come in order, and may come again. A batch never ends between two runs that
    closed at the same offset. A consumer that keeps the last offset it applied skips what is at or below it.
    """

    tenant_id: str
    skill_name: str
    """Empty for runs that name no skill."""
    topic: str
    partition: int
    runs: list[ClosedRun]
    emitted_us: int = 0
    """When the message was made, by the clock of the land worker."""
    levers: list[LeverPull] = field(default_factory=list)
    """Levers pulled on the skill in the same stretch; for skill `""` those pulled on no skill in particular."""


# Statistics


class Position(Struct, frozen=True, gc=False):
    """Last closing offset of a partition of the events topic that the numbers hold."""

    topic: str
    partition: int
    offset: int


class Stratum(Struct, frozen=True, gc=False):
    """Scorable runs of one model tier and task family within a window."""

    model_tier: str | None
    task_family: str | None
    successes: int
    failures: int
    priced_runs: int = 0
    """Runs of any class that reported a price."""
    cost_nano_usd: int = 0


class Cause(Struct, frozen=True, gc=False):
    """Runs of a window that did not succeed, by what they failed of."""

    outcome_class: str
    failure_kind: str | None
    model_provider: str | None
    failing_tool: str | None
    error_type: str | None
    count: int


class Interval(Struct, frozen=True, gc=False):
    """Bounds of a rate, both within 0..1."""

    low: float
    high: float


class Quantiles(Struct, frozen=True, gc=False):
    """Quantiles from a sketch: each within the sketch's relative error of the exact one."""

    p50: float
    p95: float
    p99: float


class WindowStats(Struct, omit_defaults=True):
    """A skill in one window. Counts are exact; `rate` and what follows it are null where nothing is scorable."""

    window: str
    start_us: int
    """First moment of the window's oldest bucket. Buckets are minutes for `1h`, hours for the others."""
    end_us: int
    """First moment behind the window's newest bucket."""
    runs: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Outcome class -> runs; classes without any are left out."""
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    priced_runs: int = 0
    """Runs that reported a price."""
    scorable: int = 0
    """Runs of the classes that speak of quality."""
    successes: int = 0
    rate: float | None = None
    """Successes of the scorable runs."""
    interval: Interval | None = None
    """Time-uniform confidence sequence: holds at all times at once, so it may be looked at as often as one likes."""
    wilson: Interval | None = None
    """Wilson's interval for a fixed number of runs: too narrow for one who keeps looking."""
    open_bounds: Interval | None = None
    """The rate where every abandoned and timed-out run counts as failed, and where it counts as succeeded."""
    latency_ms: Quantiles | None = None
    cost_usd: Quantiles | None = None
    strata: list[Stratum] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    restatement: int = 0
    """How often late data changed a bucket of this window after a newer one had been counted."""


class RecentRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """One of a skill's newest runs. Their order is (end_us, partition, offset, run_id)."""

    end_us: int
    partition: int
    offset: int
    run_id: str
    outcome_class: str
    failure_kind: str | None = None
    model_tier: str | None = None
    task_family: str | None = None
    version: str | None = None
    """Version of the skill."""


class Drop(Struct, omit_defaults=True, frozen=True):
    """What a detector says of a skill's scorable runs (or of its judged ones), see `transforms.stats.drops`."""

    e_value: float
    """At or above 1 / alpha: a drop, within the detector's budget of false alarms."""
    since_us: int | None = None
    """Likely beginning."""
    before: tuple[int, int] = (0, 0)
    """Successes and failures that the base rests on."""
    after: tuple[int, int] = (0, 0)
    """Successes and failures since."""
    based: bool = False
    """Whether enough runs make a base."""
    alarm: bool = False
    """Whether the e-value has reached 1 / alpha."""
    e_among: float = 0.0
    """The same with a wider margin: what is compared with that of other skills."""


class HourFaults(Struct, omit_defaults=True, frozen=True, gc=False):
    """A skill's runs of one hour: how many, and those that did not succeed by cause."""

    hour: int
    """Hours since the Unix epoch, UTC."""
    runs: int
    causes: list[Cause] = field(default_factory=list)


class PulledCounts(Struct, omit_defaults=True, frozen=True):
    """A lever that was pulled on a skill, with its scorable runs by tier and family before and after.

    Hours are counted whole; the hour of the pull counts as after. Before: back to the pull before it.
    """

    pull: LeverPull
    before: list[Stratum] = field(default_factory=list)
    after: list[Stratum] = field(default_factory=list)


class VersionSeen(Struct, omit_defaults=True, frozen=True, gc=False):
    """A version of a component, and the end of its first run."""

    component: str
    """agent, skill, prompt, memory or model."""
    version: str
    first_us: int


class Standing(Struct, omit_defaults=True, frozen=True):
    """What `transforms.stats.assessment.assess` says of the skill over the window `24h`, by the worker that counted.

    Every page, table and alarm about a skill shows this one, so that they cannot disagree.
    """

    state: str
    """degraded, watch, not_enough_data or ok."""
    code: str
    """Stable name of the reason."""
    reason: str
    """One sentence with the numbers."""
    e_value: float
    """Evidence against the skill; above 1 / alpha it is degraded by itself."""
    baseline: float | None = None
    """Rate of success that it is compared with."""


class SkillStats(Struct, omit_defaults=True):
    """A skill in every window, as of its newest run. A function of the outcomes up to `positions`, whatever the order
    in which they came."""

    tenant_id: str
    skill_name: str
    as_of_us: int
    """End of the skill's newest run: every window ends with the bucket that holds it."""
    positions: list[Position]
    windows: list[WindowStats]
    streak: int = 0
    """Scorable failures in a row, up to the newest scorable run; runs of other classes do not break it."""
    streak_since_us: int | None = None
    """End of the streak's first run."""
    recent: list[RecentRun] = field(default_factory=list)
    """The newest runs, oldest first."""
    versions: RunVersions = RunVersions()
    """Versions of the newest run; window `version` holds the runs that share its skill, prompt and memory versions."""
    model_tier: str | None = None
    """Tier of the newest run that names one."""
    standing: Standing | None = None
    drop: Drop | None = None
    """Evidence that its quality fell, from the hours of the last thirty days."""
    unjudged: Drop | None = None
    """The same of runs that got an answer against those abandoned and timed out: a rise of these makes a selection."""
    hours: list[HourFaults] = field(default_factory=list)
    """The last two days, hour by hour: what a cause common to several skills is found by."""
    pulled: list[PulledCounts] = field(default_factory=list)
    """Levers that were pulled within the last thirty days, by time."""
    versions_seen: list[VersionSeen] = field(default_factory=list)
    """Versions by the end of their first run."""
    restatement: int = 0
    """Late runs and revisions that changed what had been counted before, since the skill's first run."""
    restated_from_us: int | None = None
    """Start of the oldest bucket that late data changed since the last message; null when none did."""
    emitted_us: int = 0
    """When the message was made, by the clock of the worker."""
    code_revision: str = ""
    keep: bool = True
    """Whether it is for the table; of a busy skill only one message in some seconds is."""


# Decisions


class Evidence(Struct, frozen=True, omit_defaults=True):
    """One fact that a decision rests on: a name, its value as text, and what it means."""

    name: str
    value: str
    detail: str | None = None


class Rejection(Struct, frozen=True, omit_defaults=True):
    """A lever that was looked at and not advised. `reason`: a code; `detail`: the numbers behind it."""

    lever: str
    reason: str
    detail: str | None = None


class Decision(Struct, omit_defaults=True):
    """Advice with its evidence. `decision_id` is a digest of its inputs: the same inputs make the same decision.

    A decision that late data put in doubt comes again with the same id, a higher `revision` and a `flag`.
    """

    decision_id: str
    tenant_id: str
    lever: str
    """wait, capacity, platform, tool, prompt, skill, memory, model_down, model_up, retrain or none."""
    target_kind: str
    """skill, tool, provider, model or tenant."""
    target: str
    """Name of what the lever is to be pulled on."""
    as_of_us: int
    """Event time of the newest outcome that it saw."""
    expires_us: int
    policy_revision: str
    code_revision: str
    revision: Annotated[int, Meta(ge=0)] = 0
    skill_name: str | None = None
    """The skill that it concerns; null for one that names a cause common to several."""
    skills: list[str] = field(default_factory=list)
    """Skills that share the cause."""
    summary: str = ""
    """One sentence for a person."""
    confidence: float | None = None
    expected_gain: float | None = None
    expected_gain_unit: str | None = None
    expected_cost_usd: float | None = None
    rejected: list[Rejection] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    inputs: msgspec.Raw = msgspec.Raw(b"null")
    """JSON of all that the decision is a function of: statistics, tier and pin, levers tried, policy's values."""
    table_versions: dict[str, int] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    supersedes: str | None = None
    """`decision_id` of the advice on the same target that this one replaces."""
    flag: str | None = None
    """Why it is in doubt: `restated`: late data changed a window that it used; `withdrawn`: its ground is gone."""
    flag_detail: str | None = None
    old_rule: str | None = None
    """What the rule "promote after two failures in a row" would have done now: promote or keep."""
    made_us: int = 0
    """When it was made, by the worker's clock; no input."""


def outcome_key(tenant_id: str, skill_name: str) -> bytes:
    """Kafka key of a skill's outcomes. Tenants hold no slash, so two skills never share a key."""
    return f"{tenant_id}/{skill_name}".encode()
