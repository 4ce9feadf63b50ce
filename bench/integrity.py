"""What the hashes of the ledger cost: an event on the land path, and an event when the ledger is verified."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from itertools import islice

from bench.figures import Figure, show
from bench.traffic import interleaved

EVENTS = 50_000
ROUNDS = 9


def main() -> None:
    """Print the figures."""
    from trajlake.reading.tables import LakeTables
    from trajlake.sinks.lake import Lake
    from trajlake.sinks.ledger import Ledger, Stretch
    from trajlake.transforms.columns.rows import batches
    from trajlake.transforms.integrity.chain import Chain
    from trajlake.transforms.integrity.rows import rows_of
    from trajlake.transforms.landing.partition import PartitionFold
    from trajlake.transforms.landing.rules import LandRules
    from trajlake.transforms.records import Record
    from trajlake.verification.integrity import check_integrity

    fold = PartitionFold("bench", 0, LandRules())
    traffic = enumerate(islice(interleaved(10_000, 2_000), EVENTS))
    landing = fold.fold([Record(place, 1_700_000_000_000_000 + place, key, value) for place, (key, value) in traffic])
    texts = [row.text for row in landing.events]
    whole = b"".join(texts)
    tables = batches(landing, "r0", 1 << 18)
    count, last = len(texts), landing.last

    def chained() -> Chain:
        chain = Chain("bench", 0)
        chain.extend(rows_of(tables["events"], texts), last)
        chain.head()
        return chain

    detail = {
        "bytes_per_event": round(len(whole) / count),
        "sha256_of_the_same_bytes_us": round(least(lambda: hashlib.sha256(whole).digest()) / count * 1e6, 3),
    }
    show(Figure("integrity_us_per_event", round(least(chained) / count * 1e6, 3), "µs", at_most=1.5, detail=detail))
    with tempfile.TemporaryDirectory() as root:
        lake = Lake(root)
        ledger = Ledger(lake, "bench")
        ledger.open()
        ledger.landed("bench", 0)
        ledger.commit([Stretch("bench", 0, landing.first, last, tables, landing.payloads, chained().note())])
        ledger.close()
        began = time.process_time()
        _, found = check_integrity(LakeTables(lake), {("bench", 0): last}, "bench")
        spent = time.process_time() - began
        assert not any(faults.count for faults in found)
    show(Figure("integrity_verified_events_per_core_second", round(count / spent), "events/s"))


def least(work: Callable[[], object]) -> float:
    """Seconds of this thread's CPU that the quickest of some rounds took."""
    spent = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        spent.append(time.thread_time() - began)
    return min(spent)
