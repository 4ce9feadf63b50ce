"""Arithmetic of numbers: check digits, dates, prefixes and lengths that tell a real number from one that looks like
it.

Each function takes the matched text and answers whether the number can be one of its kind. Where python-stdnum knows
the check digits of a country, rules name it (`stdnum:th.pin`); what follows is what it lacks or asks a clock for.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

_NOT_DIGIT: Final = re.compile(r"\D+")
_TO_VALUES: Final = {ord("0") + value: value for value in range(10)}
_DOUBLED: Final = bytes(value * 2 % 9 if value != 9 else 9 for value in range(10)).ljust(256, b"\0")
"""By digit: the sum of the digits of its double."""
_NOT_ALNUM: Final = re.compile(r"[^0-9A-Za-z]+")


def digits_of(text: str) -> str:
    """The ASCII digits of a text, in order."""
    return _NOT_DIGIT.sub("", text)


def luhn(text: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1) over the digits of a text."""
    digits = digits_of(text).translate(_TO_VALUES).encode()
    return (sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))) % 10 == 0


_NETWORKS: Final = re.compile(
    r"4\d{12}(?:\d{3}){0,2}"  # Visa: 13, 16, 19
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}(?:\d{2})?"  # Diners Club
    r"|6(?:011|4[4-9]\d|5\d{2})\d{12}(?:\d{3})?"  # Discover
    r"|(?:352[89]|35[3-8]\d)\d{12}(?:\d{3})?|(?:1800|2131)\d{11}"  # JCB
    r"|62\d{14,17}"  # UnionPay
    r"|(?:50\d{2}|5[6-9]\d{2}|6\d{3})\d{8,15}"  # Maestro and co-brands
    r"|9\d{15}"  # Korean domestic cards
    r"|1\d{14}"  # UATP
)


def card(text: str) -> bool:
    """A payment card number: a known network's prefix and length, Luhn, and not one digit repeated."""
    number = digits_of(text)
    return _NETWORKS.fullmatch(number) is not None and luhn(number) and len(set(number)) > 1


def card_in_context(text: str) -> bool:
    """A number of a card's length that passes Luhn; the context says that it is a card."""
    number = digits_of(text)
    return 12 <= len(number) <= 19 and luhn(number) and len(set(number)) > 1


def ipv4(text: str) -> bool:
    """An address of somebody: octets in range, not loopback, unspecified, broadcast or a mask."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    first = int(text.split(".", 1)[0])
    return not (address.is_loopback or address.is_multicast or first in (0, 255))


def ipv6(text: str) -> bool:
    """An IPv6 address that is not loopback or unspecified and holds at least two groups and a digit."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    groups = [group for group in text.split(":") if group]
    return (
        not (address.is_loopback or address.is_unspecified)
        and len(groups) >= 2
        and any(char.isdigit() for char in text)
        and (len(groups) >= 4 or max(map(len, groups)) >= 3)
    )


def mac(text: str) -> bool:
    """A hardware address that is not all zeros or all ones."""
    number = _NOT_ALNUM.sub("", text).lower()
    return len(number) == 12 and len(set(number)) > 1


def rrn_born(text: str) -> bool:
    """Korean RRN or FRN: a date of birth that can be, for the century that the seventh digit names.

    Source: Resident Registration Act, Enforcement Rule, article 2. Numbers given since October 2020 carry no check
    digit, so the date is all that every number has. 1, 2, 5, 6: born 19xx; 3, 4, 7, 8: born 20xx. Years 1900 to 1909
    are refused: nobody alive was born then, and counters look like that.
    """
    number = digits_of(text)
    if len(number) != 13 or number[6] not in "12345678" or not varied(number):
        return False
    year, month, day = int(number[:2]), int(number[2:4]), int(number[4:6])
    if number[6] in "1256":
        return year >= 10 and _is_date(1900 + year, month, day)
    return year <= 40 and _is_date(2000 + year, month, day)


def rrn_dated(text: str) -> bool:
    """Korean RRN or FRN by its date alone, whatever the century: enough where the number is written as one."""
    number = digits_of(text)
    return (
        len(number) == 13
        and number[6] in "12345678"
        and _is_date(2000, int(number[2:4]), int(number[4:6]))
        and varied(number)
    )


def luhn_10(text: str) -> bool:
    """Luhn over the last ten digits."""
    return luhn(digits_of(text)[-10:])


def rrn_checked(text: str) -> bool:
    """Korean RRN with its check digit, or FRN with its own (numbers before October 2020)."""
    number = digits_of(text)
    if len(number) != 13 or not _is_date(2000, int(number[2:4]), int(number[4:6])):
        return False
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    left = (11 - sum(int(d) * w for d, w in zip(number, weights, strict=False)) % 11) % 10
    return int(number[12]) in (left, (left + 2) % 10)


def brn(text: str) -> bool:
    """Korean business registration number: weights 1-3-7 and the tens of five times the ninth digit (National Tax
    Service)."""
    d = [int(char) for char in digits_of(text)]
    if len(d) != 10 or d[:3] == [0, 0, 0]:
        return False
    total = (
        sum(digit * weight for digit, weight in zip(d[:9], (1, 3, 7, 1, 3, 7, 1, 3, 5), strict=True)) + d[8] * 5 // 10
    )
    return (10 - total % 10) % 10 == d[9]


def not_epoch(text: str) -> bool:
    """Not what a clock of the years 2014 to 2033 would write: seconds, milli-, micro- or nanoseconds since 1970."""
    number = digits_of(text)
    return not (len(number) in (10, 13, 16, 19) and number[0] == "1" and number[1] in "456789")


def born(text: str) -> bool:
    """The first six digits are a date YYMMDD or DDMMYY."""
    d = digits_of(text)
    return _is_date(2000, int(d[2:4]), int(d[4:6])) or _is_date(2000, int(d[2:4]), int(d[0:2]))


def born_8(text: str) -> bool:
    """The first eight digits are a date YYYYMMDD between 1900 and 2099."""
    d = digits_of(text)
    return d[:2] in ("19", "20") and _is_date(int(d[:4]), int(d[4:6]), int(d[6:8]))


def _is_date(year: int, month: int, day: int) -> bool:
    if not (1 <= month <= 12 and day >= 1):
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= 28 + leap
    return day <= (30 if month in (4, 6, 9, 11) else 31)


def aba(text: str) -> bool:
    """ABA routing number: first two digits of a Federal Reserve district, weights 3-7-1."""
    number = digits_of(text)
    district = int(number[:2])
    known = district <= 12 or 21 <= district <= 32 or 61 <= district <= 72 or district == 80
    total = sum(int(d) * w for d, w in zip(number, (3, 7, 1) * 3, strict=False))
    return len(number) == 9 and known and district > 0 and total % 10 == 0


def ssn(text: str) -> bool:
    """US SSN areas, groups and serials that were ever given (SSA: never 000, 666, 9xx; never 00; never 0000)."""
    number = digits_of(text)
    return (
        len(number) == 9
        and number[:3] not in ("000", "666")
        and number[0] != "9"
        and number[3:5] != "00"
        and number[5:] != "0000"
        and len(set(number)) > 1
    )


def itin(text: str) -> bool:
    """US ITIN: 9xx with group 50-65, 70-88, 90-92 or 94-99."""
    number = digits_of(text)
    group = int(number[3:5]) if len(number) == 9 else 0
    return number[:1] == "9" and (50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99)


def dea(text: str) -> bool:
    """US DEA registration: 1st, 3rd, 5th digit plus twice 2nd, 4th, 6th; last digit of the sum is the check."""
    d = [int(char) for char in digits_of(text)[-7:]]
    return len(d) == 7 and (d[0] + d[2] + d[4] + 2 * (d[1] + d[3] + d[5])) % 10 == d[6]


def kvnr(text: str) -> bool:
    """German health insurance number: letter as two digits, weights 1-2, sums of digits (GKV-Spitzenverband, annex
    1)."""
    text = text.upper()
    number = f"{ord(text[0]) - 64:02d}{text[1:]}"
    total = 0
    for place, char in enumerate(number[:-1]):
        value = int(char) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == int(number[-1])


def lanr(text: str) -> bool:
    """German physician number: check digit over six digits with weights 4-9 (KBV), specialty not 00."""
    d = digits_of(text)
    total = sum(int(char) * (4 if place % 2 == 0 else 9) for place, char in enumerate(d[:6]))
    return len(d) == 9 and (10 - total % 10) % 10 == int(d[6]) and d[7:] != "00" and len(set(d[:6])) > 0


def icao(text: str) -> bool:
    """Documents with the check digit of ICAO 9303 (weights 7-3-1), as on German identity cards."""
    text = text.upper()
    total = sum((int(c) if c.isdigit() else ord(c) - 55) * (7, 3, 1)[i % 3] for i, c in enumerate(text[:-1]))
    return text[-1].isdigit() and total % 10 == int(text[-1])


def verhoeff_aadhaar(text: str) -> bool:
    """Indian Aadhaar: Verhoeff's check, never a palindrome, never starting with 0 or 1 (UIDAI)."""
    number = digits_of(text)
    return bool(stdnum_check_of("in_.aadhaar")(number))


def mod_11_10(text: str) -> bool:
    """ISO 7064 mod 11,10, as German tax numbers carry it."""
    product = 10
    number = digits_of(text)
    for char in number[:-1]:
        total = (int(char) + product) % 10 or 10
        product = total * 2 % 11
    most = max(number[:-1].count(digit) for digit in "0123456789")
    return (11 - product) % 10 == int(number[-1]) and most <= 3


def fi_hetu(text: str) -> bool:
    """Finnish code: a date DDMMYY and the letter at the remainder by 31 (Digital and Population Data Services
    Agency)."""
    day, month, serial = int(text[0:2]), int(text[2:4]), text[7:10]
    letter = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[0:6] + serial) % 31]
    return _is_date(2000, month, day) and letter == text[10].upper() and int(serial) >= 2


def iban(text: str) -> bool:
    """The structure of the country's accounts, by the IBAN registry in python-stdnum."""
    try:
        module = import_module("stdnum.iban")
        module.validate(text, check_country=False)
    except ValueError:
        return False
    return True


def ph_tin(text: str) -> bool:
    """Philippine TIN: a weighted sum of the first eight digits modulo 11 is the ninth. Sources disagree on whether the
    weights rise from 1 or fall from 9; both are taken."""
    d = [int(char) for char in digits_of(text)]
    return len(d) in (9, 12) and any(
        sum(digit * weight for digit, weight in zip(d[:8], weights, strict=True)) % 11 % 10 == d[8]
        for weights in (range(1, 9), range(9, 1, -1))
    )


def se_personnummer(text: str) -> bool:
    """Swedish personnummer and coordination number: a date (days may be 60 higher) and Luhn over ten digits."""
    d = digits_of(text)
    if len(d) not in (10, 12):
        return False
    day = int(d[-6:-4])
    month = int(d[-8:-6])
    century = int(d[:2]) * 100 if len(d) == 12 else 2000
    return _is_date(century + int(d[-10:-8]), month, day - 60 if day > 60 else day) and luhn(d[-10:])


def th_province(text: str) -> bool:
    """Thai number: digits two and three are a province that exists (Ministry of Interior)."""
    province = int(digits_of(text)[1:3])
    return any(
        low <= province <= high for low, high in ((10, 27), (30, 49), (50, 58), (60, 67), (70, 77), (80, 86), (90, 96))
    )


def za_id(text: str) -> bool:
    """South African number: a date, citizenship 0 to 2, Luhn."""
    d = digits_of(text)
    return len(d) == 13 and _is_date(2000, int(d[2:4]), int(d[4:6])) and d[10] in "012" and luhn(d)


def varied(text: str) -> bool:
    """Not one digit over and over, and not a plain count upwards."""
    number = _NOT_ALNUM.sub("", text)
    return len(set(number)) > 2


@lru_cache(maxsize=256)
def stdnum_check_of(name: str) -> Callable[[str], Any]:
    """The check of a module of python-stdnum."""
    return import_module(f"stdnum.{name}").is_valid  # type: ignore[no-any-return]
