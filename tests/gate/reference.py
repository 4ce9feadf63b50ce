"""Great Expectations itself as the judge of rows: which rows of a frame fail which rule of a suite."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl

from trajlake.expectations.suites.suite import Suite, read_suite
from trajlake.streams.checkpoints.checkpoint import gx_context, gx_suite, import_great_expectations


def suite_of(entries: Sequence[Mapping[str, Any]], name: str = "steps") -> Suite:
    """A suite of entries without severities or names."""
    return read_suite(json.dumps({"name": name, "expectations": list(entries)}), f"{name}.json")


@cache
def _batches() -> Any:
    context = gx_context(import_great_expectations())
    return context.data_sources.add_pandas("p").add_dataframe_asset("a").add_batch_definition_whole_dataframe("b")


def failing_rows(frame: pl.DataFrame, suite: Suite) -> list[list[int]]:
    """For each rule of a suite the places of the rows that Great Expectations finds to fail it."""
    gx = import_great_expectations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = _batches().get_batch(batch_parameters={"dataframe": frame.to_pandas()})
        result = batch.validate(gx_suite(gx, suite), result_format="COMPLETE")
    found: dict[int, list[int]] = {}
    for each in result.results:
        info = each.exception_info
        assert not info.get("raised_exception", True) or "raised_exception" not in info, info
        assert "unexpected_index_list" in each.result or each.result.get("unexpected_count") == 0, each
        found[each.expectation_config.meta["place"]] = sorted(each.result.get("unexpected_index_list") or [])
    return [found[rule.place] for rule in suite.expectations]
