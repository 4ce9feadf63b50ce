"""`trajlake contract`: print what producers and readers may rely on, as JSON Schema or as a page."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trajlake.cli.options import JsonOption
from trajlake.cli.output import fail, print_json, print_table

FAILURES = "failures"
METRICS = "metrics"


def register(app: typer.Typer) -> None:
    @app.command("contract")
    def contract(
        name: Annotated[
            str | None,
            typer.Argument(metavar="NAME", help="events, a table, outcomes, failures or metrics; none lists them."),
        ] = None,
        as_json: JsonOption = False,
        markdown: Annotated[bool, typer.Option("--markdown", help="Print the documentation page.")] = False,
    ) -> None:
        """Print the contract of events and tables as JSON Schema 2020-12, the failure rules, and the metrics.

        Example: trajlake contract events
        """
        from trajlake.expectations.jsonschema import CONTRACTS, contract_schema

        if name not in (None, FAILURES, METRICS, *CONTRACTS):
            fail(f"there is no contract {name!r}; there are {', '.join([*CONTRACTS, FAILURES, METRICS])}", code=2)
        if markdown:
            sys.stdout.write(_page(name))
        elif name == FAILURES:
            print_json(_rules(), indent=True)
        elif name == METRICS:
            print_json(_metrics(), indent=True)
        elif name is not None:
            print_json(contract_schema(name), indent=True)
        elif as_json:
            print_json({each: contract_schema(each) for each in CONTRACTS}, indent=True)
        else:
            rows = [
                *CONTRACTS.items(),
                (FAILURES, "the rules by which failures are told apart"),
                (METRICS, "what Prometheus can ask of each process"),
            ]
            print_table(rows, ["name", "what it is"])


def _page(name: str | None) -> str:
    from trajlake.expectations.contract_page import contract_page, contract_section
    from trajlake.expectations.failures_page import failures_page

    if name == FAILURES:
        return failures_page()
    if name == METRICS:
        from trajlake.expectations.metrics_page import metrics_page

        return metrics_page()
    return contract_page() if name is None else contract_section(name)


def _rules() -> object:
    import msgspec

    from trajlake.expectations.failure_rules import classifier_revision, rule_table

    return {"revision": classifier_revision(), **msgspec.to_builtins(rule_table())}


def _metrics() -> object:
    from dataclasses import asdict

    from trajlake.expectations.metrics import METRICS

    return [asdict(metric) for metric in METRICS.values()]
