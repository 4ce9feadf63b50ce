"""The suppression list as the fold takes it, read from the erasure ledger."""

from __future__ import annotations

from trajlake.sinks.erasures import ErasureLedger, erasure_key, suppressed
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.transforms.landing.suppression import NO_SUPPRESSION, Suppression


def read_suppression(lake: Lake) -> Suppression:
    """Who is erased by now. Raises `SinkUnavailable`: a worker that cannot read the list may not land."""
    epoch, digests = suppressed(ErasureLedger(lake).entries())
    if not epoch:
        return NO_SUPPRESSION
    key = erasure_key(lake)
    if digests and not key:
        raise SinkUnavailable(
            f"the key of the erasure ledger is gone: {lake.uri}/{lake.erasure_key_path()}; erased subjects cannot be "
            "recognised without it. Restore it"
        )
    return Suppression(epoch, key, digests)
