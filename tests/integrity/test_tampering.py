"""`verify --integrity` names what was done to a ledger behind the program's back, and is silent where nothing was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integrity import auditor
from tests.integrity.conftest import Landed
from tests.landkit.checker import read
from tests.landkit.events import Sent
from tests.landkit.stretches import TOPIC

Change = Callable[[pa.Table], pa.Table]


def with_value(name: str, offset: int, change: Callable[[object], object]) -> Change:
    """Change one value of the row at an offset."""

    def apply(rows: pa.Table) -> pa.Table:
        values = rows[name].to_pylist()
        place = rows["offset"].to_pylist().index(offset)
        values[place] = change(values[place])
        return rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, rows.schema.field(name).type))

    return apply


def problem(report: object, code: str) -> dict[str, object]:
    found = [one for one in report.problems if one["code"] == code]  # type: ignore[attr-defined]
    assert found, report
    return dict(found[0]["place"])


def test_a_clean_lake_verifies_and_its_head_is_what_an_auditor_computes(
    landed: Landed, sent: Sequence[Sent], other: Sequence[Sent]
) -> None:
    landed.land(sent, (7, 60, 31))
    landed.land(other, (11,), partition=1)
    report = landed.verify()
    assert report.ok, report.problems
    assert report.integrity
    rows = read(landed.lake.uri, "events")
    for part in report.integrity:
        own = [row for row in rows if row["partition"] == part.partition]
        assert part.head == auditor.head(TOPIC, part.partition, own, part.offset)
        assert part.proven_offset == part.offset
        assert part.heads > 4
        assert part.anchored_offset == -1
    assert {part.offset for part in report.integrity} == {len(sent) - 1, len(other) - 1}
    assert all(part.anchored_offset == part.offset for part in landed.verify(landed.heads()).integrity or ())


def one_byte(text: object) -> str:
    assert isinstance(text, str)
    return text.replace("urn:test:agent", "urn:test:agenT", 1)


def test_one_changed_byte_is_found_where_it_is(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (50,))
    landed.rewrite(with_value("event", 61, one_byte), 61)
    place = problem(landed.verify(), "changed_rows")
    # Up to the end, since all later heads build on it: the block is still open.
    assert (place["offset"], place["last_offset"]) == (50, len(sent) - 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("append_time", lambda value: value + timedelta(microseconds=1)),
        ("rule_revision", lambda value: value + "0"),
        ("redactions", lambda value: [{"path": "data.a", "rule": "deny.a", "count": 1}]),
    ],
)
def test_a_change_beside_the_text_is_found(
    landed: Landed, sent: Sequence[Sent], name: str, change: Callable[[object], object]
) -> None:
    landed.land(sent)
    landed.rewrite(with_value(name, 61, change), 61)
    assert "changed_rows" in landed.codes()


def test_a_column_that_contradicts_its_text_is_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent)
    landed.rewrite(with_value("run_id", 61, lambda value: "run-of-another"), 61)
    place = problem(landed.verify(), "column_mismatch")
    assert place["offset"] == 61


def test_a_removed_row_is_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent)
    DeltaTable(str(landed.events)).delete("offset = 61")
    codes = landed.codes()
    assert codes["missing_offsets"] == 1
    assert codes["changed_rows"] == 1


def test_swapped_rows_are_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent)

    def swap(rows: pa.Table) -> pa.Table:
        offsets = rows["offset"].to_pylist()
        one, other = offsets.index(61), offsets.index(63)
        order = list(range(len(offsets)))
        order[one], order[other] = other, one
        swapped = rows.take(order)
        return swapped.set_column(swapped.schema.get_field_index("offset"), "offset", rows["offset"])

    landed.rewrite(swap, 61)
    assert "changed_rows" in landed.codes()


def test_truncated_newest_commits_are_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (50,))
    heads = landed.heads()
    commits = sorted(landed.log.glob("*.json"))
    for commit in commits[-2:]:
        commit.unlink()
    report = landed.verify()
    assert problem(report, "truncated_rows")["last_offset"] == len(sent) - 1
    # One who also cuts what the lake knows of itself is caught by the head that was kept elsewhere.
    shutil.rmtree(landed.lake.uri + "/_state/integrity")
    assert "truncated_rows" not in landed.codes()
    assert landed.codes(heads)["truncated_rows"] == 1


def test_a_table_rolled_back_to_an_older_version_is_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (50,))
    table = DeltaTable(str(landed.events))
    table.restore(table.version() - 2)
    assert {"missing_offsets", "changed_rows"} <= landed.codes().keys()


def test_a_lake_that_was_written_anew_with_its_own_heads_is_found_by_the_head_kept_outside(
    landed: Landed, sent: Sequence[Sent]
) -> None:
    landed.land(sent)
    heads = landed.heads()
    shutil.rmtree(landed.lake.uri)
    forged = [Sent(one.key, (one.value or b"").replace(b"urn:test:agent", b"urn:test:agenT")) for one in sent]
    landed.land(forged)
    assert landed.verify().ok
    assert landed.codes(heads) == {"changed_rows": 1}


def test_a_forged_commit_is_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent[:100], (50,))
    row = DeltaTable(str(landed.events)).to_pyarrow_table().filter(pc.field("offset") == 98)
    forged = with_value("offset", 98, lambda _: 100)(row)
    # By another program, and by one that imitates a commit of ours without its head.
    write_deltalake(str(landed.events), forged, mode="append")
    assert "beyond_landed" in landed.codes()
    newest = sorted(landed.log.glob("*.json"))[-1]
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    lines.append({"txn": {"appId": f"trajlake-land/{TOPIC}/0", "version": 100}})
    newest.write_text("\n".join(json.dumps(line) for line in lines))
    place = problem(landed.verify(), "unchained_rows")
    assert (place["offset"], place["last_offset"]) == (100, 100)


def test_a_changed_head_is_found(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (50,))
    commit = sorted(landed.log.glob("*.json"))[2]
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    lines[0]["commitInfo"]["integrity"][0]["head"] = "00" * 32
    commit.write_text("\n".join(json.dumps(line) for line in lines))
    assert "changed_rows" in landed.codes()
