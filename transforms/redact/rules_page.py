"""The rule table as a page for people."""

from __future__ import annotations

from collections.abc import Sequence

from trajlake.transforms.redact.model import Kind, Rule
from trajlake.transforms.redact.rules import DEFAULT_RULES

_HEAD = """# What redaction finds

Generated from the rule table by `trajlake redact --rules --markdown`; `tests/redact` holds the two together. Examples
that each rule must find, and must leave alone, stand in the table itself (`transforms/redact/rules/`).

A finding is replaced by `[redacted:<id>]`. Where the action is `pseudonym` and a key is configured (settings
`redaction_key_file` or `redaction_key_env`), it is replaced by `[<id>:<16 letters>]` instead: HMAC-SHA256 under a key
of the tenant, so that the same value of the same tenant gets the same letters and nobody without the key can tell which
value. The setting `redaction_actions` changes the action of a rule or of a whole kind: `people=keep,ip=marker`.

Text is searched as it stands, with zero-width and full-width characters folded, in JSON inside strings, behind base64,
hex, percent encoding and `\\u` escapes, and over the borders of lists of pieces. What stands outside a finding stays
byte for byte. A value that meets a limit of depth, size, work or numbers is not let through: the record goes to
quarantine without its payload, with reason `redaction_failed`. No limit is one of time, so a record is judged the same
way whenever it is read again.

A policy may ask for [a second look](governance.md#a-second-look-before-publication) before a run is published.

Pieces of a message that streams:

- In one value, as a list of texts or of objects: they are joined, searched, and cut where they stand.
- Events with `partial`, each fuller than the last: a copy loses its unfinished end, and its first word where that is no
  plain one. The last copy has all of it.
- Events that hold one piece each. The contract has no type for these; a type of your own is known by a word such as
  delta, chunk or stream in its name, or by a member `delta` or `partial_json` in its data. Their texts are withheld,
  `[redacted:delta]` in their place: a row of the first piece has landed before the rest of a secret comes. Publish the
  whole message at its end.
"""


def rules_page(rules: Sequence[Rule] = DEFAULT_RULES) -> str:
    """The page, Markdown."""
    parts = [_HEAD]
    for kind in Kind:
        rows = [rule for rule in rules if rule.kind is kind]
        if rows:
            parts.append(f"\n## {kind.value.capitalize()}\n\n| id | severity | action | finds |\n|---|---|---|---|\n")
            parts += [f"| `{rule.id}` | {rule.severity} | {rule.action} | {_cell(rule.finds)} |\n" for rule in rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
