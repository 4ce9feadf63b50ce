"""The model provider of the demo: the one thing in it that is simulated.

What a model says comes from the policies of the skills. Everything around an answer is a provider's: tokens are
counted, a tenant's weekly allowance is counted down and really runs out, unknown models are refused, and requests are
shed while a brown-out lasts. Errors carry what HTTP clients of real providers carry, and nothing else tells the agents
what happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

CHARS_PER_TOKEN: Final = 4
TRIES: Final = 4
"""Requests that the client makes before it gives an answer up."""

_FIRST_PAUSE_S: Final = 0.004
_SECONDS_PER_TOKEN: Final = 0.000_02


class Price(NamedTuple):
    """US dollars for a million tokens read and written."""

    read: float
    written: float


class ModelCard(NamedTuple):
    """A model that the provider has: its price class in the operator's words, and its price."""

    tier: str
    price: Price


MODELS: Final = {
    "m-small": ModelCard("cheap", Price(0.25, 1.25)),
    "m-large": ModelCard("upper", Price(3.0, 15.0)),
}


class ProviderError(Exception):
    """A refused request, as a provider's HTTP client reports it."""

    def __init__(self, status_code: int, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.code = code
        self.retryable = retryable


class Answer(NamedTuple):
    """What one answered request cost. Tokens, US dollars, milliseconds; `retries`: refused requests before it."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    latency_ms: float
    retries: int


class Provider:
    """Meters requests of all agents. Safe for many threads.

    allowances: tenant -> requests in a week; tenants that are not named have no limit. A week that has run out turns
    over after `refusals_a_week` refused requests.
    """

    def __init__(self, allowances: Mapping[str, int], refusals_a_week: int) -> None:
        self._allowances = dict(allowances)
        self._left = dict(allowances)
        self._refusals_a_week = refusals_a_week
        self._refused: dict[str, int] = {}
        self._lock = threading.Lock()

    def ask(self, tenant: str, model: str, prompt_chars: int, answer_chars: int, brown_out: int = 0) -> Answer:
        """One answer, with retries where the provider says that they may help. Raises the last `ProviderError`.

        brown_out: how many requests for this answer are shed before one is served.
        """
        began = time.monotonic()
        for tried in range(TRIES):
            try:
                return self._serve(tenant, model, prompt_chars, answer_chars, tried, brown_out, began)
            except ProviderError as error:
                if not error.retryable or tried == TRIES - 1:
                    raise
            time.sleep(_FIRST_PAUSE_S * 2**tried)
        raise AssertionError("the last try returns or raises")

    def _serve(
        self, tenant: str, model: str, prompt_chars: int, answer_chars: int, tried: int, brown_out: int, began: float
    ) -> Answer:
        card = MODELS.get(model)
        if card is None:
            raise ProviderError(404, "model_not_found", f"the model {model} does not exist", retryable=False)
        self._charge(tenant)
        if tried < brown_out:
            raise ProviderError(503, "overloaded_error", "the model is overloaded", retryable=True)
        read, written = prompt_chars // CHARS_PER_TOKEN + 1, answer_chars // CHARS_PER_TOKEN + 1
        time.sleep(_SECONDS_PER_TOKEN * written)
        cost = (read * card.price.read + written * card.price.written) / 1e6
        return Answer(read, written, cost, (time.monotonic() - began) * 1000, tried)

    def _charge(self, tenant: str) -> None:
        """Take one request from the tenant's week. Raises `ProviderError` when none is left."""
        with self._lock:
            if tenant not in self._left:
                return
            if self._left[tenant] > 0:
                self._left[tenant] -= 1
                return
            self._refused[tenant] = self._refused.get(tenant, 0) + 1
            if self._refused[tenant] >= self._refusals_a_week:
                self._refused[tenant] = 0
                self._left[tenant] = self._allowances[tenant]
        message = f"the weekly limit of {self._allowances[tenant]} requests is used up"
        raise ProviderError(429, "insufficient_quota", message, retryable=False)
