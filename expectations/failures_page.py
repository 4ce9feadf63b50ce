"""Writes the failure rules as a Markdown page: docs/failures.md, by `trajlake contract failures --markdown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from trajlake.expectations.failure_rules import Rule, RunRule, classifier_revision, rule_table
from trajlake.expectations.taxonomy import SCORABLE

_INTRO: Final = """# How failures are told apart

Printed from `expectations/failure_rules.toml` by `trajlake contract failures --markdown`; change it there. Revision
`{revision}` (it stands in `classifier_revision` of every step and run; a change of the rules changes it). After that
`trajlake reclassify` [runs history through the new rules](reclassification.md).

Only some classes speak of a skill's quality. All others are counted and shown, and kept out of the quality rate: an
account that runs out of quota says nothing about the skills that ran on it.

1. **Strong evidence beats weak.** Strong are statuses, error types and codes, exit codes and signals, finish reasons,
   verdicts. Weak are texts, and signs that say little (a tool that says "error" and no more).
2. **Text is looked at only where an error belongs**: the error message, the content of a tool result that is marked as
   an error, and an answer of which the model wrote no token. The task's text is never looked at. A basis that begins
   with `text:` was read from such text by the rule named after it.
3. **What was made good does not count.** A model call that failed and was followed by a response, and a tool call that
   failed and was followed by a success of the same tool, do not decide the run.
4. **A success ends well.** A run is a success when it completed, or when a grader passed what a cut run left; never
   when it failed, timed out, was cancelled or abandoned. The basis says who judged: `run.graded_pass`,
   `run.claimed_success` (the harness itself) or `run.completed_ungraded` (nobody).
5. **What nothing explains is `unknown`.** An exit code alone blames nobody.
"""

_DECISIONS: Final = """## Readings that are open to argument

- **A context that overflows, and budgets of steps or tokens that run out, are quality failures.** How much an agent
  keeps in its context and how many steps it takes are the skill's doing, and others finish within the same budget.
  Taking such runs out of the rate would hide a prompt that grew. Statistics show the bound for the other reading.
- **A sandbox that is lost after a tool call that hung is a time-out**, not lost infrastructure: an agent must not be
  able to leave the count by breaking its sandbox. Time-outs and abandoned runs stay visible, with bounds for both
  readings.
- **A time-out or a silent end after a model call that the provider refused is laid to the provider.** The cause
  outranks the symptom.
- **A fail verdict does not outrank strong outside trouble**: a grader sees that the answer is missing, not why. A pass
  does, because it looks at the result.
- **A harness that reports success is not believed beside an error** that ended the run or its last model call.
- **A score between 0 and 1 without a verdict is `unknown`.** Where a pass begins is for the grader to say (`passed`).
- **HTTP 429 is quota**, whether the window is a minute or a week; the kind tells the two apart where the provider does.
  A 429 that speaks of the provider's own capacity is an infrastructure fault.
"""


def failures_page() -> str:
    """The whole page."""
    return "\n".join(
        [_INTRO.format(revision=classifier_revision()), *_classes(), _DECISIONS, *_step_rules(), *_run_rules()]
    )


def _classes() -> Iterator[str]:
    table = rule_table()
    yield "## Classes and kinds\n"
    yield "| class | speaks of quality | meaning | kinds |"
    yield "| --- | --- | --- | --- |"
    for name, entry in table.classes.items():
        kinds = ", ".join(f"`{kind}`" for kind in entry.kinds)
        yield f"| `{name}` | {'yes' if name in SCORABLE else ''} | {entry.meaning} | {kinds} |"
    yield "\n| kind | meaning |"
    yield "| --- | --- |"
    yield from (f"| `{kind}` | {meaning} |" for kind, meaning in table.kinds.items())
    yield ""


def _step_rules() -> Iterator[str]:
    yield "## Evidence of a step, or of the error that a run ended with\n"
    yield "Tried in this order, strong before weak. Names are compared without case and punctuation, by their last"
    yield "dotted part.\n"
    yield "| id | means | strength | when | source |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in rule_table().rule:
        means = f"`{rule.outcome_class}` / `{rule.kind}`"
        note = f"<br>{rule.note}" if rule.note else ""
        yield f"| `{rule.id}` | {means} | {rule.strength} | {_condition(rule)}{note} | {rule.source} |"
    yield ""


def _condition(rule: Rule) -> str:
    when = rule.when
    parts = ["by " + " or ".join(when.by)]
    if when.status_from is not None or when.status_to is not None:
        parts.append(f"status {when.status_from or 400}–{when.status_to or 599}")
    for key, label in (
        ("names", "named"), ("words", "named with"), ("statuses", "status"),
        ("finish", "finish reason"), ("exit_codes", "exit code"),
        ("exit_signals", "signal"), ("message", "message with"), ("opening", "text that begins with"),
        ("says", "short text with"),
    ):  # fmt: skip
        values = getattr(when, key)
        if values:
            parts.append(f"{label} " + ", ".join(_code(value) for value in values))
    for key, yes, no in (
        ("refused", "request refused", ""), ("denied", "policy denied", ""), ("is_error", "marked as an error", ""),
        ("tool_known", "", "tool was not offered"), ("arguments_valid", "", "arguments are not a JSON object"),
        ("exit_nonzero", "exit code is not 0", ""),
    ):  # fmt: skip
        wanted = getattr(when, key)
        if wanted is not None:
            parts.append(yes if wanted else no)
    if when.notice:
        parts.append("a client's own notice")
    return "; ".join(parts)


def _run_rules() -> Iterator[str]:
    yield "## Runs\n"
    yield "The first row that fits decides. `step` and `error` stand for the class of the last failed step that nothing"
    yield "made good, and of the error that the run ended with; the basis is then that rule's id.\n"
    yield "| id | means | when | why |"
    yield "| --- | --- | --- | --- |"
    for row in rule_table().run_rule:
        yield f"| `{row.id}` | {_meaning(row)} | {_facts(row)} | {row.why} |"
    yield ""
    yield from (f"- `{default.id}`: {default.why}" for default in rule_table().default)
    yield ""


def _meaning(row: RunRule) -> str:
    if row.take != "rule":
        return row.take
    return f"`{row.outcome_class}`" + (f" / `{row.kind}`" if row.kind else "")


def _facts(row: RunRule) -> str:
    given: dict[str, Any] = msgspec.structs.asdict(row.when)
    return "; ".join(f"{key.replace('_', ' ')} {', '.join(values)}" for key, values in given.items() if values)


def _code(value: object) -> str:
    return f"`{value}`".replace("|", "\\|")
