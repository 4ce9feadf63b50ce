"""Expectations compiled to Polars: one expression a rule, true for each row that fails it.

The meaning is that of Great Expectations' pandas engine, which tests/gate holds it to. A row is judged by itself, as it
lands: what asks about many rows at once (`mostly`, uniqueness over batches) is refused, because the answer would depend
on where a batch happens to end. It belongs into the publication suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import polars as pl

from trajlake.expectations.suites.suite import Expectation, Severity, SuiteError
from trajlake.transforms.gate.columntypes import NUMERIC, Kind, Kinds, column, kind_of, literal
from trajlake.transforms.gate.conditions import compile_condition, condition_columns
from trajlake.transforms.gate.regex import portable

Arguments = Mapping[str, Any]
Form = Callable[[Arguments, Kinds], pl.Expr]
"""From a rule's arguments to the rows that fail it."""

_COMMON: Final = frozenset(
    {"mostly", "row_condition", "condition_parser", "result_format", "catch_exceptions", "batch_id", "windows"}
)
PLACE: Final = "offset"
"""Rows of one offset always land together."""


@dataclass(frozen=True)
class CompiledRule:
    """A rule that can judge frames. `fails`: never-null expression, true for rows that fail. `columns`: what it
    reads."""

    expectation: Expectation
    fails: pl.Expr
    columns: tuple[str, ...]

    @property
    def rule_id(self) -> str:
        return self.expectation.rule_id

    @property
    def severity(self) -> Severity:
        return self.expectation.severity


def compile_rule(expectation: Expectation, kinds: Kinds, *, landing: bool = True) -> CompiledRule:
    """Compile one expectation for frames whose columns are of these kinds.

    `landing`: rows are judged batch by batch as they land; else the frame is all there is. Raises `SuiteError` with the
    rule's name where it has no form here, and why.
    """
    try:
        fails = _compile(expectation, kinds, landing=landing)
    except ValueError as error:
        raise SuiteError(expectation.suite, f"{expectation.type} {error}", expectation.rule_id) from None
    except (TypeError, AttributeError, KeyError, RecursionError, OverflowError):
        # A file that was written by hand, and not by Great Expectations, which lets no such argument through.
        problem = f"{expectation.type} has an argument of another form than Great Expectations writes"
        raise SuiteError(expectation.suite, problem, expectation.rule_id) from None
    read = {*expectation.columns, *condition_columns(expectation.kwargs.get("row_condition"))}
    return CompiledRule(expectation, fails, tuple(sorted(read)))


def _compile(expectation: Expectation, kinds: Kinds, *, landing: bool) -> pl.Expr:
    form = FORMS.get(expectation.type)
    if form is None:
        raise ValueError(
            "cannot judge a row as it lands: it is about a whole batch, or has no form in Polars. Put it into the "
            "publication suite"
        )
    given = {name: value for name, value in expectation.kwargs.items() if value is not None}
    unknown = given.keys() - form.takes - _COMMON
    if unknown or "windows" in given:
        raise ValueError(f"has an argument that is not known here: {sorted(unknown or {'windows'})[0]}")
    parameter = next((name for name, value in given.items() if isinstance(value, dict) and "$PARAMETER" in value), None)
    if parameter is not None:
        raise ValueError(f"takes {parameter} as a parameter, and only batches have parameters")
    if given.get("mostly", 1) != 1:
        raise ValueError("has mostly, which a single row cannot meet. Put it into the publication suite")
    condition = compile_condition(given.get("row_condition"), given.get("condition_parser"), kinds)
    if form is _UNIQUE:
        return _not_unique(given, kinds, condition, landing=landing)
    fails = form.compile(given, kinds)
    return fails if condition is None else fails & condition


@dataclass(frozen=True)
class _Form:
    compile: Form
    takes: frozenset[str]


def _value_rule(holds: Form, *takes: str) -> _Form:
    """A rule on the values of one column; rows without a value are not judged."""

    def compile_fails(given: Arguments, kinds: Kinds) -> pl.Expr:
        return (~holds(given, kinds)).fill_null(value=False)

    return _Form(compile_fails, frozenset({"column", *takes}))


def _column(given: Arguments, kinds: Kinds, *wanted: Kind) -> tuple[pl.Expr, Kind]:
    name = given.get("column")
    kind = kind_of(name, kinds)
    if wanted and kind not in wanted:
        raise ValueError(f"does not fit column {name}, which holds {kind}")
    return column(str(name), kinds), kind


def _not_null(given: Arguments, kinds: Kinds) -> pl.Expr:
    return _column(given, kinds)[0].is_null()


def _null(given: Arguments, kinds: Kinds) -> pl.Expr:
    return _column(given, kinds)[0].is_not_null()


def _in_set(given: Arguments, kinds: Kinds) -> pl.Expr:
    value, kind = _column(given, kinds, Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.BOOL)
    values = given.get("value_set")
    if not isinstance(values, list):
        raise ValueError("has no list value_set")
    allowed = [literal(item, kind) for item in values]
    return value.is_in(allowed) if allowed else pl.when(value.is_not_null()).then(pl.lit(value=False))


def _not_in_set(given: Arguments, kinds: Kinds) -> pl.Expr:
    return ~_in_set(given, kinds)


def _between(given: Arguments, kinds: Kinds) -> pl.Expr:
    value, kind = _column(given, kinds, Kind.TEXT, Kind.TIME, *NUMERIC)
    return _within(value, kind, given)


def _within(value: pl.Expr, kind: Kind, given: Arguments) -> pl.Expr:
    least, most = (
        None if given.get(name) is None else literal(given[name], kind) for name in ("min_value", "max_value")
    )
    if least is None and most is None:
        raise ValueError("has neither min_value nor max_value")
    if least is not None and most is not None and least > most:
        raise ValueError("has a min_value above its max_value")
    parts: list[pl.Expr] = []
    if least is not None:
        parts.append(value > least if given.get("strict_min") else value >= least)
    if most is not None:
        parts.append(value < most if given.get("strict_max") else value <= most)
    return reduce(lambda a, b: a & b, parts)


def _length_between(given: Arguments, kinds: Kinds) -> pl.Expr:
    value, _ = _column(given, kinds, Kind.TEXT)
    return _within(value.str.len_chars().cast(pl.Int64), Kind.INTEGER, given)


def _length_equal(given: Arguments, kinds: Kinds) -> pl.Expr:
    value, _ = _column(given, kinds, Kind.TEXT)
    return value.str.len_chars().cast(pl.Int64).eq(literal(given.get("value"), Kind.INTEGER))


def _matches(value: pl.Expr, pattern: Any) -> pl.Expr:
    if not isinstance(pattern, str):
        raise ValueError("has no regex")
    try:
        return value.str.contains(portable(pattern))
    except ValueError as error:
        raise ValueError(f"has a regex that does not mean the same everywhere: {error}") from None


def _regex(given: Arguments, kinds: Kinds) -> pl.Expr:
    return _matches(_column(given, kinds, Kind.TEXT)[0], given.get("regex"))


def _not_regex(given: Arguments, kinds: Kinds) -> pl.Expr:
    return ~_regex(given, kinds)


def _regex_list(given: Arguments, kinds: Kinds) -> pl.Expr:
    value, _ = _column(given, kinds, Kind.TEXT)
    patterns = given.get("regex_list")
    if not isinstance(patterns, list) or not patterns:
        raise ValueError("has no list regex_list")
    found = [_matches(value, pattern) for pattern in patterns]
    match_on = given.get("match_on", "any")
    if match_on not in ("any", "all"):
        raise ValueError('has a match_on that is neither "any" nor "all"')
    return reduce(lambda a, b: a | b if match_on == "any" else a & b, found)


def _not_regex_list(given: Arguments, kinds: Kinds) -> pl.Expr:
    return ~_regex_list({**given, "match_on": "any"}, kinds)


def _pair(given: Arguments, kinds: Kinds) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Both columns of a pair, and the rows that are judged."""
    names = [given.get("column_A"), given.get("column_B")]
    a, b = (column(str(name), kinds) for name in names)
    ignored = given.get("ignore_row_if", "both_values_are_missing")
    judged = {
        "both_values_are_missing": a.is_not_null() | b.is_not_null(),
        "either_value_is_missing": a.is_not_null() & b.is_not_null(),
        "neither": pl.lit(value=True),
    }
    if ignored not in judged:
        raise ValueError(f"has an ignore_row_if that is not one of {', '.join(judged)}")
    return a, b, judged[ignored]


def _comparable(given: Arguments, kinds: Kinds) -> None:
    a, b = (kind_of(given.get(name), kinds) for name in ("column_A", "column_B"))
    if Kind.NESTED in (a, b) or (a is not b and not {a, b} <= set(NUMERIC)):
        raise ValueError(f"compares {a} with {b}")


def _pair_greater(given: Arguments, kinds: Kinds) -> pl.Expr:
    _comparable(given, kinds)
    a, b, judged = _pair(given, kinds)
    holds = a >= b if given.get("or_equal") else a > b
    return judged & ~holds.fill_null(value=False)


def _pair_equal(given: Arguments, kinds: Kinds) -> pl.Expr:
    _comparable(given, kinds)
    a, b, judged = _pair(given, kinds)
    return judged & ~(a == b).fill_null(value=False)


def _pair_in_set(given: Arguments, kinds: Kinds) -> pl.Expr:
    a, b, judged = _pair(given, kinds)
    pairs = given.get("value_pairs_set")
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("has no list of pairs value_pairs_set")
    sides = ((a, kind_of(given["column_A"], kinds)), (b, kind_of(given["column_B"], kinds)))
    if any(kind in (Kind.TIME, Kind.NESTED) for _, kind in sides):
        raise ValueError("compares times or nested values with those of a set")
    held = [
        reduce(
            lambda x, y: x & y,
            [
                value.is_null() if item is None else (value == literal(item, kind)).fill_null(value=False)
                for item, (value, kind) in zip(pair, sides, strict=True)
            ],
        )
        for pair in pairs
    ]
    return judged & ~reduce(lambda x, y: x | y, held) if held else judged


def _not_unique(given: Arguments, kinds: Kinds, condition: pl.Expr | None, *, landing: bool) -> pl.Expr:
    names = given.get("column_list")
    if not isinstance(names, list) or len(names) < 2:
        raise ValueError("needs a column_list of two or more")
    if any(kind_of(name, kinds) is Kind.NESTED for name in names):
        raise ValueError("compares nested values")
    if landing and PLACE not in names:
        raise ValueError(
            f"asks about rows of other batches too. Add {PLACE} to its column_list: the rows of one event always land "
            "together. Or put it into the publication suite"
        )
    values = [column(name, kinds) for name in names]
    ignored = given.get("ignore_row_if", "all_values_are_missing")
    judged = {
        "all_values_are_missing": pl.any_horizontal(value.is_not_null() for value in values),
        "any_value_is_missing": pl.all_horizontal(value.is_not_null() for value in values),
        "never": pl.lit(value=True),
    }
    if ignored not in judged:
        raise ValueError(f"has an ignore_row_if that is not one of {', '.join(judged)}")
    domain = judged[ignored] if condition is None else judged[ignored] & condition
    return domain & (pl.len().over([*values, domain]) > 1)


def _whole_row(compile_fails: Form, *takes: str) -> _Form:
    return _Form(compile_fails, frozenset(takes))


_BOUNDS: Final = ("min_value", "max_value", "strict_min", "strict_max")
_PAIR: Final = ("column_A", "column_B", "ignore_row_if")
_UNIQUE: Final = _whole_row(lambda given, kinds: pl.lit(value=False), "column_list", "ignore_row_if")

FORMS: Final[Mapping[str, _Form]] = {
    "expect_column_values_to_not_be_null": _whole_row(_not_null, "column"),
    "expect_column_values_to_be_null": _whole_row(_null, "column"),
    "expect_column_values_to_be_in_set": _value_rule(_in_set, "value_set"),
    "expect_column_values_to_not_be_in_set": _value_rule(_not_in_set, "value_set"),
    "expect_column_values_to_be_between": _value_rule(_between, *_BOUNDS),
    "expect_column_values_to_match_regex": _value_rule(_regex, "regex"),
    "expect_column_values_to_not_match_regex": _value_rule(_not_regex, "regex"),
    "expect_column_values_to_match_regex_list": _value_rule(_regex_list, "regex_list", "match_on"),
    "expect_column_values_to_not_match_regex_list": _value_rule(_not_regex_list, "regex_list"),
    "expect_column_value_lengths_to_be_between": _value_rule(_length_between, *_BOUNDS),
    "expect_column_value_lengths_to_equal": _value_rule(_length_equal, "value"),
    "expect_column_pair_values_a_to_be_greater_than_b": _whole_row(_pair_greater, *_PAIR, "or_equal"),
    "expect_column_pair_values_to_be_equal": _whole_row(_pair_equal, *_PAIR),
    "expect_column_pair_values_to_be_in_set": _whole_row(_pair_in_set, *_PAIR, "value_pairs_set"),
    "expect_compound_columns_to_be_unique": _UNIQUE,
}
"""Types that can judge rows as they land."""
