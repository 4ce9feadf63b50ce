"""Row conditions of Great Expectations as Polars expressions: which rows a rule is about.

The meaning is that of its pandas engine: a comparison with a missing value is false, but `!=` and `NOT_IN` are true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import polars as pl

from trajlake.transforms.gate.columntypes import Kind, Kinds, column, kind_of, literal

Compare = Callable[[pl.Expr, Any], pl.Expr]

_OPERATORS: Final[dict[str, Compare]] = {
    "==": lambda a, b: (a == b).fill_null(value=False),
    "!=": lambda a, b: (a != b).fill_null(value=True),
    "<": lambda a, b: (a < b).fill_null(value=False),
    "<=": lambda a, b: (a <= b).fill_null(value=False),
    ">": lambda a, b: (a > b).fill_null(value=False),
    ">=": lambda a, b: (a >= b).fill_null(value=False),
}
_PARSERS: Final = ("great_expectations", "great_expectations__experimental__")
_TEXT_FORM: Final = re.compile(
    r"""col\("(?P<column>[^"]+)"\)\s*(?:
        (?P<notnull>\.notnull\(\)) |
        (?P<operator>==|!=|<=|>=|<|>)\s*(?:
            (?P<number>[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?) | "(?P<double>[^"']+)" | '(?P<single>[^"']+)'
        )
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def compile_condition(condition: Any, parser: Any, kinds: Kinds) -> pl.Expr | None:
    """The rows that a condition lets through, never null; None where there is no condition.

    `condition`: as a suite file has it, an object or (before Great Expectations 1.9) text with its `parser`. Raises
    ValueError for what has no form here.
    """
    if condition is None:
        return None
    if isinstance(condition, str):
        if parser not in _PARSERS:
            raise ValueError(
                'row_condition is text for another engine; write it as an object, or as col("…") with '
                'condition_parser "great_expectations"'
            )
        condition = _from_text(condition)
    if not isinstance(condition, Mapping):
        raise ValueError("row_condition is neither text nor an object")
    return _compile(condition, kinds)


def condition_columns(condition: Any) -> set[str]:
    """Columns that a condition names."""
    if isinstance(condition, str):
        found = _TEXT_FORM.fullmatch(condition.strip())
        return {found["column"]} if found else set()
    if not isinstance(condition, Mapping):
        return set()
    parts = condition.get("conditions")
    named = {name for part in (parts if isinstance(parts, list) else ()) for name in condition_columns(part)}
    own = condition.get("column")
    return named | ({own["name"]} if isinstance(own, Mapping) and isinstance(own.get("name"), str) else set())


def _from_text(text: str) -> dict[str, Any]:
    found = _TEXT_FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError("row_condition cannot be read; write it as an object")
    place = {"name": found["column"]}
    if found["notnull"]:
        return {"type": "nullity", "column": place, "is_null": False}
    number = found["number"]
    parameter: Any = found["double"] or found["single"]
    if number is not None:
        parameter = int(number) if re.fullmatch(r"[+-]?[0-9]+", number) else float(number)
    return {"type": "comparison", "column": place, "operator": found["operator"], "parameter": parameter}


def _compile(condition: Mapping[str, Any], kinds: Kinds) -> pl.Expr:
    form = condition.get("type")
    if form in ("and", "or"):
        parts = [_compile(part, kinds) for part in condition.get("conditions", ())]
        if not parts:
            raise ValueError("row_condition joins nothing")
        return reduce(lambda a, b: a & b if form == "and" else a | b, parts)
    name = str((condition.get("column") or {}).get("name"))
    kind = kind_of(name, kinds)
    if form == "nullity":
        missing = column(name, kinds).is_null()
        return missing if condition.get("is_null") else ~missing
    if form == "comparison":
        return _comparison(column(name, kinds), kind, str(condition.get("operator")), condition.get("parameter"))
    if form == "pass_through":
        raise ValueError("row_condition is text for another engine; write it as an object")
    raise ValueError(f"row_condition of type {form!r} is not known")


def _comparison(value: pl.Expr, kind: Kind, operator: str, parameter: Any) -> pl.Expr:
    if kind in (Kind.TIME, Kind.NESTED):
        raise ValueError(f"row_condition compares a column of {kind}; only whether it is null can be asked")
    if kind is Kind.BOOL and operator not in ("==", "!="):
        raise ValueError(f"row_condition: {operator} does not fit a column of {kind}; use == or !=")
    if operator in ("IN", "NOT_IN"):
        if not isinstance(parameter, list):
            raise ValueError(f"row_condition: {operator} needs a list")
        inside = value.is_in([literal(item, kind) for item in parameter]) if parameter else pl.lit(value=False)
        found = inside.fill_null(value=False)
        return found if operator == "IN" else ~found
    if operator not in _OPERATORS:
        raise ValueError(f"row_condition: {operator} is not known")
    return _OPERATORS[operator](value, literal(parameter, kind))
