"""Building blocks of patterns: edges of numbers and tokens, and makers of the commonest kinds of rule."""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Action, Form, Kind, Need, Rule, Severity

LEFT: Final = r"(?<![A-Za-z0-9_])(?<![A-Za-z0-9][.\-])"
"""A number starts here: not inside a word, a UUID, a version or a longer number. ASCII only: Hangul may touch it."""
RIGHT: Final = r"(?![A-Za-z0-9_])(?![.\-][0-9])"
"""A number ends here."""
TOKEN_LEFT: Final = r"(?<![A-Za-z0-9])"
TOKEN_RIGHT: Final = r"(?![A-Za-z0-9])"

RANDOM: Final = "aZ3kQ9mX7pL2vB8nR4tY6wC1sD5fG0hJ"
"""Stands for the random part of the examples, which are put together at run time."""
HEX: Final = "7d5e97ad6ddbb002a8b6acbd245c1c29"


def token(
    id: str,
    finds: str,
    kind: Kind,
    pattern: str,
    *,
    example: str,
    counterexample: str,
    checks: tuple[str, ...] = ("real",),
    severity: Severity = Severity.CRITICAL,
    group: int = 0,
    triggers: tuple[str, ...] | None = None,
) -> Rule:
    """A secret that its issuer gave a shape of its own; `pattern` gets the edges of a token around it."""
    form = Form(f"{TOKEN_LEFT}{pattern}{TOKEN_RIGHT}", checks, group=group, triggers=triggers)
    return Rule(
        id=id,
        finds=finds,
        kind=kind,
        severity=severity,
        forms=(form,),
        examples=(example,),
        counterexamples=(counterexample,),
    )


def number(
    id: str,
    finds: str,
    *forms: Form,
    context: tuple[str, ...],
    examples: tuple[str, ...],
    counterexamples: tuple[str, ...],
    severity: Severity = Severity.HIGH,
) -> Rule:
    """A number that a state or an insurer gives to a person or a business."""
    return Rule(
        id=id,
        finds=finds,
        kind=Kind.NATIONAL,
        severity=severity,
        forms=forms,
        context=context,
        examples=examples,
        counterexamples=counterexamples,
        never=NOT_A_PERSON,
        action=Action.MARKER,
    )


NUMBER: Final = ("#number",)
"""Calls every rule for numbers at once: see `signs_numbers`."""


def shaped(pattern: str, *checks: str, nocase: bool = False) -> Form:
    """Written with its separators or letters: enough by itself, together with the checks."""
    return Form(f"{LEFT}(?:{pattern}){RIGHT}", checks, Need.NOTHING, triggers=NUMBER, nocase=nocase)


def whole(pattern: str, *checks: str, nocase: bool = False) -> Form:
    """Digits that say little: found where they are the whole string, or where a context word stands near."""
    return Form(f"{LEFT}(?:{pattern}){RIGHT}", checks, Need.WHOLE, triggers=NUMBER, nocase=nocase)


def near(pattern: str, *checks: str, nocase: bool = False) -> Form:
    """Found only where a context word stands near."""
    return Form(f"{LEFT}(?:{pattern}){RIGHT}", checks, Need.CONTEXT, triggers=NUMBER, nocase=nocase)


NOT_A_PERSON: Final = (
    "order",
    "build",
    "invoice",
    "tracking",
    "version",
    "commit",
    "revision",
    "offset",
    "timestamp",
    "epoch",
    "serial",
    "sku",
    "isbn",
    "ean",
    "upc",
    "ticket",
    "issue",
    "bug",
    "run_id",
    "runid",
    "job",
    "request_id",
    "trace",
    "span",
    "sequence",
    "checksum",
    "crc",
    "port",
    "pid",
    "bytes",
    "size",
    "count",
    "total",
    "amount",
    "price",
    "line",
    "seed",
    "주문",
    "빌드",
    "송장",
    "버전",
    "타임스탬프",
    "수량",
    "금액",
)
"""Words that say that a number belongs to a thing. A context word of the rule itself outweighs them."""

SYSTEM_ACCOUNTS: Final = frozenset(
    """root user users username admin administrator runner runneradmin ubuntu debian centos fedora ec2-user azureuser
    vagrant node app appuser www www-data nobody jenkins circleci travis gitlab-runner git codespace vscode gitpod
    coder sandbox agent openhands openclaw swe devin shared public default guest defaultuser0 build builder buildagent
    ci test tester testuser postgres mysql docker containeruser linuxbrew homebrew oracle hadoop spark airflow jovyan
    pwuser chrome me you your-name yourname your_name your_username name all user1 dev developer worker service nonroot
    steam pi model computeruse workspace project projects""".split()
)
"""Accounts below a home folder that are no people: those of systems, images, CI and examples."""
