"""A store of results for Great Expectations that keeps none."""

from __future__ import annotations

from typing import Any

from great_expectations.data_context.store.validation_results_store import ValidationResultsStore


class KeepsNothing(ValidationResultsStore):
    """Results hold values of rows until they are scrubbed, so they go to the caller and nowhere else.

    It also spares their serialization, which is not able to write the results of some expectations.
    """

    def store_validation_results(self, *args: Any, **kwargs: Any) -> bool:
        return True
