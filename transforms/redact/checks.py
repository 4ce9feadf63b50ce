"""Checks that rules name: what a match must be besides its pattern.

A check takes the matched text and answers whether the match stands. Arguments come after a colon in the rule
(`entropy:3.0`, `stdnum:th.pin`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from trajlake.transforms.redact import arithmetic
from trajlake.transforms.redact.arithmetic import stdnum_check_of
from trajlake.transforms.redact.randomness import entropy, is_masked, is_random, is_sequence, is_wordy

Check = Callable[[str], bool]


def random_tail(text: str) -> bool:
    """What follows the last separator looks drawn by a machine."""
    return is_random(re.split(r"[_-]", text)[-1], 16)


def no_mask_run(text: str) -> bool:
    """No run of one mask character."""
    return re.search(r"([#*.xX])\1{3}", text) is None


def no_word(text: str) -> bool:
    """What follows the last separator is no word or name in camel case."""
    return not is_wordy(re.split(r"[_-]", text)[-1])


def not_x(text: str) -> bool:
    """The random part is not all x."""
    return set(re.split(r"[_-]", text)[-1].lower()) != {"x"}


def mixed_case(text: str) -> bool:
    """Holds lower and upper case letters in its random part."""
    tail = re.split(r"[_-]", text)[-1]
    return not tail.islower() and not tail.isupper()


def mixed(text: str) -> bool:
    """Holds a digit and a letter."""
    return any(char.isdigit() for char in text) and any(char.isalpha() for char in text)


def has_digit(text: str) -> bool:
    """Holds a digit."""
    return any(char.isdigit() for char in text)


def real(text: str) -> bool:
    """Not masked, not a vendor's documented example, and not a few digits over and over."""
    if is_masked(text) or "EXAMPLE" in text or text.endswith(("example", "Example")):
        return False
    if re.search(r"[xX]{10}|0{12}", text):
        return False
    parts = re.split(r"[_-]", text)
    numbers = [part for part in parts if part.isdigit()]
    if len(numbers) > 2 and len(set(numbers)) == 1:
        return False
    part = parts[-1].lower()
    if len(part) >= 8 and len(set(part)) == 1:
        return False
    tail = text[-16:]
    return not (tail.isdigit() and len(set(tail)) <= 4)


def unordered(text: str) -> bool:
    """Not letters and digits in order, as people type a fake."""
    return not is_sequence(text)


def _entropy_check(argument: str) -> Check:
    least = float(argument)
    return lambda text: entropy(text) >= least


def _stdnum_check(argument: str) -> Check:
    names = argument.split("|")

    def valid(text: str) -> bool:
        # A module of stdnum may raise on input it was not written for; that is "not valid" here.
        for name in names:
            try:
                if stdnum_check_of(name)(text):
                    return True
            except (ValueError, IndexError, KeyError, TypeError):
                continue
        return False

    return valid


_PLAIN: Final[dict[str, Check]] = {
    function.__name__: function
    for function in (
        random_tail,
        no_mask_run,
        no_word,
        not_x,
        mixed_case,
        mixed,
        has_digit,
        real,
        unordered,
        arithmetic.aba,
        arithmetic.born,
        arithmetic.born_8,
        arithmetic.brn,
        arithmetic.card,
        arithmetic.card_in_context,
        arithmetic.dea,
        arithmetic.fi_hetu,
        arithmetic.iban,
        arithmetic.icao,
        arithmetic.ipv4,
        arithmetic.ipv6,
        arithmetic.itin,
        arithmetic.kvnr,
        arithmetic.lanr,
        arithmetic.luhn,
        arithmetic.luhn_10,
        arithmetic.mac,
        arithmetic.mod_11_10,
        arithmetic.not_epoch,
        arithmetic.ph_tin,
        arithmetic.rrn_born,
        arithmetic.rrn_checked,
        arithmetic.rrn_dated,
        arithmetic.se_personnummer,
        arithmetic.ssn,
        arithmetic.th_province,
        arithmetic.varied,
        arithmetic.verhoeff_aadhaar,
        arithmetic.za_id,
    )
}


@lru_cache(maxsize=512)
def check_named(name: str) -> Check:
    """The check that a rule names. Raises KeyError for an unknown one."""
    head, _, argument = name.partition(":")
    if head == "entropy":
        return _entropy_check(argument)
    if head == "stdnum":
        return _stdnum_check(argument)
    return _PLAIN[head]
