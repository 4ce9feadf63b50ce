"""People: addresses, telephones, cards, accounts, machines, names in Git history, home folders."""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Action, Form, Kind, Need, Rule, Severity
from trajlake.transforms.redact.rules.shapes import NUMBER, SYSTEM_ACCOUNTS

_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"

PEOPLE: Final[tuple[Rule, ...]] = (
    Rule(
        id="email",
        finds="Mail addresses, internal domains included; not remotes such as git@host",
        kind=Kind.PEOPLE,
        severity=Severity.HIGH,
        finder="emails",
        triggers=("#email",),
        action=Action.PSEUDONYM,
        examples=("mail bob@corp.internal", "john.doe+tag@company.co.uk", "a@b.co,b@c.io"),
        counterexamples=(
            "git@github.com:org/repo.git",
            "icon@2x.png",
            "info@presidio.",
            "strict-uri-encode@npm:2.0.0",
            "@dataclass",
        ),
    ),
    Rule(
        id="phone",
        finds="Telephone numbers: international ones that exist, national ones written as such, any that words call "
        "one",
        kind=Kind.PEOPLE,
        severity=Severity.MEDIUM,
        finder="phones",
        triggers=NUMBER,
        action=Action.PSEUDONYM,
        examples=("call (202) 555-0123", "+44 20 7946 0958", "Desk: 5551234567 ext 9", "Mobile: 03.93.92.16.85"),
        counterexamples=(
            "order 2025550123 shipped",
            "bad id 1607635102",
            "2024-01-02 03:04:05",
            "version 1.22.333.4444",
        ),
    ),
    Rule(
        id="card",
        finds="Payment card numbers: a network's prefix, its length and Luhn; any card length with Luhn near a word "
        "for it",
        kind=Kind.PEOPLE,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                r"(?<![0-9A-Za-z_])(?<![0-9][.\-])(?<![+=/])(?<![0-9] )[2-69]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}(?![0"
                r"-9A-Za-z_])(?![.\-]\d)(?! \d{2})",
                ("card", "not_epoch"),
                triggers=NUMBER,
            ),
            Form(
                r"(?<![0-9A-Za-z_])(?<![0-9][.\-])(?<![+=/])3[47]\d{2}([ -]?)\d{6}\1\d{5}(?![0-9A-Za-z_])"
                r"(?![.\-]\d)",
                ("card",),
                triggers=NUMBER,
            ),
            Form(
                r"(?<![0-9A-Za-z_])(?<![0-9][.\-])(?<![+=/])3[0689]\d{2}([ -]?)\d{6}\1\d{4}(?![0-9A-Za-z_])"
                r"(?![.\-]\d)",
                ("card",),
                triggers=NUMBER,
            ),
            Form(
                r"(?<![0-9A-Za-z_])(?<![0-9][.\-])(?<![+=/])(?:1800|2131|[3-6]\d{3})\d{8,15}(?![0-9A-Za-z_])"
                r"(?![.\-]\d)",
                ("card", "not_epoch"),
                triggers=NUMBER,
            ),
            Form(r"(?<![0-9A-Za-z_.\-])1\d{14}(?![0-9A-Za-z_.\-])", ("card",), Need.WHOLE, triggers=NUMBER),
            Form(
                r"(?<![0-9A-Za-z_.])\d(?:[ -]?\d){11,18}(?![0-9A-Za-z_])(?![.\-]\d)",
                ("card_in_context",),
                Need.CONTEXT,
                triggers=NUMBER,
            ),
        ),
        context=(
            "card",
            "credit",
            "debit",
            "visa",
            "mastercard",
            "amex",
            "cc",
            "카드",
            "pan",
            "kreditkarte",
            "tarjeta",
            "carte",
        ),
        never=("commit", "hash", "digest", "sha"),
        examples=(
            "Card 4111111111111111 approved.",
            "4012-8888-8888-1881",
            "block card no 4415101282806639538",
            "my card 503867297114",
        ),
        counterexamples=("4012-8888-8888-1882", "Sequence 1234 5678 90", "Numbers 111222333444", "0.4111111111111111"),
    ),
    Rule(
        id="iban",
        finds="International bank account numbers",
        kind=Kind.PEOPLE,
        severity=Severity.HIGH,
        finder="ibans",
        triggers=NUMBER,
        examples=("GB33" + "BUKB20201555555555", "CH93 0076 2011 6238 5295 7"),
        counterexamples=("GB33BUKB20201555555556", "AD12000A2030200359100100"),
    ),
    Rule(
        id="ip",
        finds="IPv4 and IPv6 addresses; not loopback, masks or versions",
        kind=Kind.PEOPLE,
        severity=Severity.LOW,
        forms=(
            Form(
                rf"(?<![\w.])(?<![\w]/)(?<![vV=~^>]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w])(?!\.\d)(?!-\w)"
                # A network, as in 203.0.113.0/24, is nobody's address.
                r"(?!(?<=\.0)/(?:[89]|1\d|2[0-4])(?!\d))",
                ("ipv4",),
                triggers=("#ip",),
            ),
            Form(r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])", ("ipv6",), triggers=("#ip",)),
            Form(
                r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){1,7}(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])",
                ("ipv6",),
                triggers=("#ip",),
            ),
        ),
        never=("version", "release", "chrome", "firefox", "netmask", "mask", "ver", "버전", "v"),
        action=Action.PSEUDONYM,
        examples=("login from 203.0.113.10", "fe80::1ff:fe23:4567:890a", "[203.0.113.9] in logs"),
        counterexamples=(
            "127.0.0.1:8080",
            "Chrome/120.0.0.0",
            "version 1.2.3.4",
            "12:34:56",
            "std::vector",
            "192.168.1",
        ),
    ),
    Rule(
        id="mac",
        finds="Hardware addresses of network cards",
        kind=Kind.PEOPLE,
        severity=Severity.LOW,
        forms=(
            Form(
                r"(?<![\w:.-])[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![\w:-])",
                ("mac",),
                triggers=("#ip",),
            ),
            Form(
                r"(?i:\b(?:mac|address|hwaddr|ether|arp)\b)[^\n]{0,24}?"
                r"(?<![\w:.-])([0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![\w.:-])",
                ("mac",),
                group=1,
                triggers=("#ip",),
            ),
        ),
        action=Action.PSEUDONYM,
        examples=("00:1A:2B:3C:4D:5E", "Cisco MAC: 0012.3456.789A"),
        counterexamples=("00:00:00:00:00:00", "12:34:56"),
    ),
    Rule(
        id="person",
        finds="Names of people in Git history, blame, trailers and mail headers",
        kind=Kind.PEOPLE,
        severity=Severity.MEDIUM,
        finder="git_names",
        triggers=(
            "#email",
            r"(?:Author|Commit|Committer|Tagger|Merged-by|-[Bb]y):[ \t]+[^\s<>]",
            "#commit",
        ),
        action=Action.PSEUDONYM,
        examples=("Author: Jane Roe <jane@example.org>", "a1b2c3d4 (Jane Roe 2024-01-02 10:11:12 +0900 42) x = 1"),
        counterexamples=("Author: dependabot[bot] <x>", "commit 9f0aa0590c0941f396a5755b7b560be5"),
    ),
    Rule(
        id="home",
        finds="The account in the path of a home folder",
        kind=Kind.PEOPLE,
        severity=Severity.LOW,
        finder="home_names",
        triggers=(
            rf"/(?:Users|home)\\*/(?!(?:{'|'.join(sorted(SYSTEM_ACCOUNTS))})(?:[\\/'\"`\s]|\.+(?![\w-])))[^\W\d_]",
            r"\\+(?:Users|Documents and Settings)\\+[^\W\d_]",
            r"/-(?:Users|home)-[A-Za-z]",
            r"(?:Users|home)\\*/[\x80-\xff]",
        ),
        action=Action.PSEUDONYM,
        examples=('File "/Users/jane.roe/src/app/main.py", line 142', "C:\\Users\\JaneRoe\\AppData\\Local\\x.log:88"),
        counterexamples=("/home/runner/work/x", "/Users/Shared/x", "https://example.com/api/home/page"),
    ),
)
