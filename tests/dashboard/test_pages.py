"""Every page, asked as a browser without scripts would ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.dashboard.conftest import HOSTILE, NOW, decision, incident, stats_row, write
from tests.looking.conftest import Rows, append
from trajlake.dashboard.app import HEADERS, LOOPBACK, Access, make_app
from trajlake.reading.tables import open_lake
from trajlake.sinks.lake import Lake

PAGES = (
    "/", "/skills", "/skills/acme/refund", "/runs", "/runs/acme/run-bad", "/runs/acme/run-bad/steps/2", "/levers",
    "/causes", "/pipeline", "/governance",
)  # fmt: skip


@contextmanager
def client(root: Path, access: Access | None = None) -> Iterator[TestClient]:
    app = make_app(open_lake(str(root), storage_options={}), access=access, refresh_s=3600)
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as reader:
        yield reader


def keys(page: str) -> list[str]:
    return re.findall(r'<tr data-key="([^"]*)"', page)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_names_no_other_origin_and_carries_the_security_headers(lake: Path, path: str) -> None:
    with client(lake) as reader:
        answer = reader.get(path)
    assert answer.status_code == 200
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert re.findall(r'(?:src|href|srcset|action)="?(?:https?:)?//', answer.text) == []
    assert " style=" not in answer.text
    assert "<script>" not in answer.text


def test_a_regression_leads_and_a_quota_storm_is_named_once_in_the_strip(lake: Path) -> None:
    with client(lake) as reader:
        page = reader.get("/").text
    assert keys(page)[0] == "acme/refund"
    assert len(keys(page)) == 20
    strip = page[page.index("<ul class=strip") : page.index("</ul>", page.index("<ul class=strip"))]
    assert "are quota (acme-ai)" in strip
    assert "capacity, not skills" in strip
    first = page[page.index('data-key="acme/refund"') :]
    assert "success fell from 90% to 23%" in first[: first.index("</tr>")]
    assert "412 scorable of 432" in first[: first.index("</tr>")]
    assert "tool" in first[: first.index("</tr>")]


def test_skills_are_ordered_by_what_is_sure_so_that_one_failure_of_one_never_leads(tmp_path: Path) -> None:
    stats = [*incident(), stats_row(3000, "once", {"quality_failure": 1}), stats_row(3001, "never", {"cancelled": 9})]
    write(tmp_path, stats)
    with client(tmp_path) as reader:
        page = reader.get("/skills").text
    order = keys(page)
    assert order[0] == "acme/refund"
    assert order.index("acme/once") > order.index("acme/refund")
    assert order[-1] == "acme/never"
    row = page[page.index('data-key="acme/never"') :]
    assert "<b>—</b>" in row[: row.index("</tr>")]
    assert "0%" not in re.sub(r"[1-9]\d*0%", "", row[: row.index("</tr>")])


def test_skills_are_filtered_sorted_and_paged_by_the_address_alone(tmp_path: Path) -> None:
    write(tmp_path, incident(250))
    with client(tmp_path) as reader:
        assert len(keys(reader.get("/skills").text)) == 100
        assert len(keys(reader.get("/skills?page=3").text)) == 50
        assert keys(reader.get("/skills?q=nightly&sort=skill").text) == [f"acme/nightly-{n}" for n in range(1, 6)]
        assert keys(reader.get("/skills?state=degraded").text) == ["acme/refund"]
        assert keys(reader.get("/skills?sort=runs&page=99999999999&dir=nonsense").text)
        assert "No skill fits" in reader.get("/skills?q=zzz").text


def test_the_newest_row_of_a_skill_counts(lake: Path) -> None:
    append(Lake(str(lake)), "skill_stats", [stats_row(9000, "refund", {"success": 500})], {})
    with client(lake) as reader:
        assert keys(reader.get("/").text)[0] != "acme/refund"


def test_changes_tell_a_new_board_and_a_restarted_process_from_the_same_board(lake: Path) -> None:
    app = make_app(open_lake(str(lake), storage_options={}), refresh_s=3600)
    with TestClient(app, base_url="http://localhost") as reader:
        cursor = reader.get("/changes").json()["cursor"]
        assert reader.get(f"/changes?since={cursor}").json()["changed"] is False
        append(Lake(str(lake)), "skill_stats", [stats_row(9000, "refund", {"success": 500})], {})
        app.state.keeper.refresh()
        assert reader.get(f"/changes?since={cursor}").json()["changed"] is True
    with client(lake) as other:
        assert other.get(f"/changes?since={cursor}").json()["changed"] is True


def test_tables_that_cannot_be_read_are_said_so_over_the_last_numbers(lake: Path) -> None:
    app = make_app(open_lake(str(lake), storage_options={}), refresh_s=3600)
    with TestClient(app, base_url="http://localhost") as reader:
        for log in (lake / "restricted" / "skill_stats" / "_delta_log").iterdir():
            log.write_text("broken")
        app.state.keeper.refresh()
        page = reader.get("/").text
        assert "could not be read" in page
        assert keys(page)[0] == "acme/refund"
        assert reader.get("/ready").status_code == 503


def test_a_run_shows_its_verdict_its_failing_step_and_all_that_is_odd_about_it(lake: Path) -> None:
    with client(lake) as reader:
        page = reader.get("/runs/acme/run-bad").text
        assert "agent action" in page
        assert 'href="#step-2"' in page
        assert 'id="step-3"' in page
        for words in ("missing sequence: 4", "email × 2", "reward", "1.000"):
            assert words in page
        raw = reader.get("/runs/acme/run-bad/raw").text.splitlines()
        assert len(raw) == 1 + 3 + 1
        assert reader.get("/runs/acme/none").status_code == 404
        assert reader.get("/runs/acme/run-bad/steps/99").status_code == 404


def test_runs_are_found_by_skill_outcome_and_beginning_of_their_id(lake: Path) -> None:
    with client(lake) as reader:
        assert keys(reader.get("/runs?skill=refund").text) == ["acme/run-bad"]
        assert keys(reader.get("/runs?class=agent_action").text) == ["acme/run-bad"]
        assert keys(reader.get("/runs?run=run-o").text) == ["acme/run-ok"]
        assert "No closed run fits" in reader.get("/runs?class=quota").text


def test_a_skill_has_charts_made_here_with_utc_axes(lake: Path) -> None:
    history = [
        stats_row(5000 + n, "refund", {"success": 90 - n, "quality_failure": n}, as_of=NOW - timedelta(hours=30 - n))
        for n in range(30)
    ]
    append(Lake(str(lake)), "skill_stats", history, {})
    with client(lake) as reader:
        for kind in ("rate", "causes"):
            chart = reader.get(f"/skills/acme/refund/chart.svg?kind={kind}")
            assert chart.headers["content-type"].startswith("image/svg+xml")
            assert "time (UTC)" in chart.text
            assert not re.search(r'(?:href|src)="https?:', chart.text)


def test_hostile_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    made = Rows()
    made.whole_run(0, HOSTILE)
    made.first("runs", run_id=HOSTILE).update(
        skill_name=HOSTILE, output=HOSTILE, error_type=HOSTILE, model_name=HOSTILE
    )
    for step in made["steps"]:
        step.update(message=HOSTILE, step_id=HOSTILE, reasoning_content=HOSTILE)
    row = stats_row(1, HOSTILE, {"success": 5}, state_reason=HOSTILE, skill_version=HOSTILE)
    write(tmp_path, [row], [decision(1, HOSTILE, "tool", summary=HOSTILE)], made)
    with client(tmp_path) as reader:
        first = reader.get("/runs").text
        address = re.search(r'href="(/runs/acme/[^"]+)"', first)
        assert address is not None
        paths = ["/", "/skills", "/levers", "/runs", "/causes", address[1].replace("&amp;", "&")]
        for path in [*paths, paths[-1] + "/steps/1"]:
            answer = reader.get(path)
            assert answer.status_code == 200, path
            assert "<script>document" not in answer.text
            assert "<img src=x" not in answer.text
            assert "\u202e" not in answer.text
            assert "\x1b" not in answer.text


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_nothing_can_be_changed(lake: Path, method: str) -> None:
    with client(lake) as reader:
        assert getattr(reader, method)("/skills").status_code == 405


def test_another_host_name_is_refused(lake: Path) -> None:
    with client(lake) as reader:
        assert reader.get("/", headers={"host": "elsewhere.example"}).status_code == 400


def test_a_token_opens_the_pages_and_leaves_the_address(lake: Path) -> None:
    token = "-".join(["a", "long", "token", "for", "tests"])
    with client(lake, Access(token, None, LOOPBACK)) as reader:
        assert reader.get("/").status_code == 401
        assert reader.get("/?token=wrong").status_code == 401
        assert reader.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 200
        answer = reader.get(f"/?token={token}")
        assert answer.status_code == 303
        assert token not in answer.headers["location"]
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert reader.get("/skills").status_code == 200
        assert reader.get("/live").status_code == 200
        answer = reader.get(f"/runs?class=quota&token={token}&skill=a%20b", follow_redirects=False)
        assert answer.headers["location"] == "/runs?class=quota&skill=a+b", "the view that was asked for"


@pytest.mark.parametrize("path", ["/static/none.css", "/liveliness", "/ready-x", "/static/../", "/none"])
def test_who_shows_no_token_learns_nothing_of_the_lake(lake: Path, path: str) -> None:
    with client(lake, Access("-".join(["a", "long", "token"]), None, LOOPBACK)) as reader:
        answer = reader.get(path)
    assert answer.status_code in (401, 404)
    assert "acme" not in answer.text
    assert str(lake) not in answer.text


def test_a_page_that_fails_has_the_security_headers_and_nothing_of_the_error(lake: Path) -> None:
    with client(lake) as reader:
        answer = reader.get("/runs/acme/r/steps/" + "9" * 5000)
    assert answer.status_code == 500
    assert "this page failed: ValueError" in answer.text
    assert "digits" not in answer.text
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


def test_superseded_advice_does_not_come_back_when_what_took_its_place_is_in_doubt(tmp_path: Path) -> None:
    first = decision(1, "b", "tool", summary="mend the tool")
    second = decision(2, "b", "prompt", summary="revise the prompt", supersedes=first["decision_id"], flag="restated")
    write(tmp_path, [stats_row(1, "b", {"success": 50})], [first, second])
    with client(tmp_path) as reader:
        home = reader.get("/").text
    assert "mend the tool" not in home
    assert "revise the prompt" not in home


def test_a_reader_of_one_tenant_sees_nothing_of_another(tmp_path: Path) -> None:
    made = Rows()
    made.whole_run(0, "theirs")
    for table in ("runs", "steps", "rewards", "events"):
        for row in made[table]:
            row["tenant_id"] = "other"
    mine, theirs = stats_row(1, "mine", {"success": 5}), stats_row(2, "secret-skill", {"success": 5}, tenant_id="other")
    write(tmp_path, [mine, theirs], [decision(1, "secret-skill", "tool", tenant_id="other")], made)
    with client(tmp_path, Access(None, "acme", LOOPBACK)) as reader:
        for path in ("/", "/skills", "/skills?tenant=other", "/runs", "/runs?tenant=other", "/levers", "/causes",
                     "/pipeline?tenant=other", "/governance"):  # fmt: skip
            text = reader.get(path).text
            assert "secret-skill" not in text, path
            assert "theirs" not in text, path
        for path in ("/skills/other/secret-skill", "/runs/other/theirs", "/runs/other/theirs/raw",
                     "/runs/other/theirs/steps/1", "/skills/other/secret-skill/chart.svg"):  # fmt: skip
            assert reader.get(path).status_code == 404, path


def test_advice_on_a_shared_cause_stands_at_each_skill_that_shares_it(tmp_path: Path) -> None:
    cause = decision(1, "", "capacity", skill_name=None, skills=["a"], summary="buy capacity")
    lapsed = decision(2, "b", "tool", summary="out of date", expires_at=NOW - timedelta(minutes=1))
    write(tmp_path, [stats_row(1, "a", {"success": 5}), stats_row(2, "b", {"success": 5})], [cause, lapsed])
    with client(tmp_path) as reader:
        home = reader.get("/").text
        assert home.count("buy capacity") == 1
        assert "out of date" not in home
        assert "buy capacity" in reader.get("/skills/acme/a").text
        assert "buy capacity" in reader.get("/levers?skill=a").text
        assert "buy capacity" not in reader.get("/levers?skill=b").text


def test_the_newest_statistics_are_those_put_together_last(tmp_path: Path) -> None:
    old = stats_row(900, "a", {"success": 5}, emitted_at=NOW - timedelta(hours=1))
    # Another log begins at 0 again.
    new = stats_row(3, "a", {"success": 7}, topic="trajlake.skill-stats.v1-2")
    write(tmp_path, [old, new])
    with client(tmp_path) as reader:
        assert "7 success" in reader.get("/skills").text


def test_redelivered_events_are_counted_where_they_were_set_aside(tmp_path: Path) -> None:
    made = Rows()
    made.whole_run(0, "r")
    for reason in ("duplicate", "duplicate", "malformed_json"):
        made.refuse(0, reason)
    write(tmp_path, [], rows=made)
    with client(tmp_path) as reader:
        assert "2 redelivered events set aside" in reader.get("/pipeline").text


def test_a_page_that_fails_halfway_ends_with_a_word_on_that_and_the_next_command(tmp_path: Path) -> None:
    made = Rows()
    made.whole_run(0, "run-odd")
    made.first("steps", run_id="run-odd").update(gaps=[{"code": None, "detail": None}])
    write(tmp_path, [], None, made)
    with client(tmp_path) as reader:
        page = reader.get("/runs/acme/run-odd").text
    assert page.rstrip().endswith("</html>")
    assert "The rest of this page failed: TypeError" in page
    assert f"trajlake verify --root {tmp_path}" in page


def test_an_empty_lake_says_what_to_do_next(tmp_path: Path) -> None:
    with client(tmp_path / "none") as reader:
        assert "trajlake roll" in reader.get("/").text
        for path in ("/skills", "/runs", "/levers", "/causes", "/pipeline", "/governance"):
            assert reader.get(path).status_code == 200, path


def test_the_terminal_agrees_with_the_page(lake: Path, trajlake: Callable[..., Any]) -> None:
    import orjson

    done = trajlake("attention", "--root", str(lake), "--json")
    assert done.returncode == 10
    told = orjson.loads(done.stdout)
    with client(lake) as reader:
        assert [f"{s['tenant']}/{s['skill']}" for s in told["skills"]] == keys(reader.get("/").text)
    assert told["causes"][0]["outcome_class"] == "quota"
    assert trajlake("attention", "--root", str(lake / "none")).returncode == 1
