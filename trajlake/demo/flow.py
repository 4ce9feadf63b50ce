"""A demo from its first process to the proof, in order."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trajlake.demo.after import Curated, curate, wait_for_statistics, warm_up
from trajlake.demo.arrival import Arrival
from trajlake.demo.crew import run_all
from trajlake.demo.disturbance import disturb
from trajlake.demo.errors import DemoError
from trajlake.demo.harness import World
from trajlake.demo.log import LogView
from trajlake.demo.plan import HOME, LIMITED, allowance, deal
from trajlake.demo.provider import Provider
from trajlake.demo.site import RUN_TIMEOUT_S, Site
from trajlake.demo.summary import Figures, read_figures
from trajlake.demo.topic import choose_topic
from trajlake.expectations.progress import SILENT, Progress
from trajlake.reading.tables import LakeTables, open_lake
from trajlake.recording.recorder import Recorder
from trajlake.streams.importing.delivery import Delivery
from trajlake.streams.importing.intake import ImportReport, import_files
from trajlake.streams.importing.published import Published
from trajlake.streams.settings import Settings
from trajlake.streams.topics import ensure_topics
from trajlake.verification.report import Report, add_lags
from trajlake.verification.verify import verify

IMPORT_TENANT: Final = "default"
_FLUSH_S: Final = 30.0
_LAG_S: Final = 10.0


@dataclass(frozen=True)
class Choices:
    """What somebody may choose about a demo. `runs`: agents' runs, spawned ones counted, imported ones not."""

    runs: int
    seed: int
    workers: int
    imports: Sequence[str]
    keep: bool


@dataclass(frozen=True)
class Result:
    """What a demo came to.

    figures: of the whole lake. open_runs, not_landed, not_counted: runs, offsets and skills that the tables did not
    come to in time. policies: the file that curation judged by. goes_on: Kafka (its data in `broker_folder`), land and
    rolling workers (`pids`) go on running.
    """

    root: str
    topic: str
    servers: str
    figures: Figures
    report: Report
    imported: ImportReport | None
    open_runs: int
    not_landed: int
    not_counted: int
    curated: Curated
    policies: str
    broker_folder: Path
    goes_on: bool
    pids: list[int]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether all has landed, and the proof holds."""
        return self.report.ok and not (self.open_runs or self.not_landed or self.not_counted)


def run_demo(
    settings: Settings, choices: Choices, show: Progress, check: Callable[[], None], closer: Progress = SILENT
) -> Result:
    """Run a demo on the lake that `settings` name, on a Kafka of its own whatever else they name.

    show: told each stage. closer: told what goes on within importing, curating and verifying.
    check: called several times a second; what it raises stops the demo and everything that it started.
    Raises DemoError when it cannot go on.
    """
    began = time.monotonic()
    with Site(settings.root, settings.broker_heap_mb, check) as site:
        show.stage("starting Kafka")
        servers = site.start_broker()
        check()
        lake = LakeTables(settings.lake())
        settings = _pointed_at(servers, settings, lake, show)
        settings = settings.model_copy(update={"policies": settings.policies or str(site.policies_file())})
        site.start_services(settings, choices.workers)

        def check_all() -> None:
            check()
            site.check_services()

        runs, imported = _publish(settings, choices, site.folder / "spool", show, closer, check_all)
        warm_up()

        def on_look(open_runs: int, behind: int) -> None:
            show.reach(len(runs) - open_runs)

        show.stage(f"landing (runs that went silent end as abandoned after {RUN_TIMEOUT_S} s)", len(runs), "runs")
        with LogView(settings.kafka()) as log:
            open_runs, not_landed = Arrival(settings, lake, log).wait(runs, check_all, on_look)

        def on_count(counted: int, skills: int) -> None:
            show.reach(counted, skills)

        show.stage("counting (rolling statistics of skills)", None, "skills")
        not_counted = wait_for_statistics(lake, settings.events_topic, check_all, on_count)
        show.stage("curating (policies and quality rules decide what may be trained on)")
        curated = curate(settings, check_all, closer)
        show.stage("verifying")
        site.keep = choices.keep
        if not site.goes_on:
            # Everything has landed; they end while the proof is made.
            site.dismiss_services()
        report, figures = _prove(settings, lake, closer)
        return Result(
            root=lake.root,
            topic=settings.events_topic,
            servers=servers,
            figures=figures,
            report=report,
            imported=imported,
            open_runs=open_runs,
            not_landed=not_landed,
            not_counted=not_counted,
            curated=curated,
            policies=settings.policies,
            broker_folder=site.broker.folder,
            goes_on=site.goes_on,
            pids=site.pids,
            seconds=time.monotonic() - began,
        )


def _pointed_at(servers: str, settings: Settings, lake: LakeTables, show: Progress) -> Settings:
    """The settings with the demo's own Kafka in them, and a topic of it that fits the lake and exists."""
    # The options of another Kafka (TLS, passwords) are neither needed nor shown to this one.
    here = settings.model_copy(update={"bootstrap_servers": servers, "kafka_options": {}})
    topic = choose_topic(lake, here.app_id, here.kafka(), here.events_topic)
    if topic != here.events_topic:
        show.stage(f"the log of {here.events_topic} here is not the one that this lake was filled from; using {topic}")
        # What is told about those runs begins anew as well.
        suffix = topic.removeprefix(here.events_topic)
        names = ("events_topic", "outcomes_topic", "stats_topic", "decisions_topic", "roll_id")
        here = here.model_copy(update={name: f"{getattr(here, name)}{suffix}" for name in names})
    ensure_topics(
        servers, {topic: here.events_partitions}, max_message_bytes=here.event_max_bytes, options={"log_level": 0}
    )
    return here


def _publish(
    settings: Settings, choices: Choices, spool: Path, show: Progress, closer: Progress, check: Callable[[], None]
) -> tuple[set[tuple[str, str]], ImportReport | None]:
    """Let the agents work, disturb the log, and import files. Returns what runs that were, by tenant and run id."""
    with LogView(settings.kafka()) as log:
        before = log.ends(settings.events_topic)
    plans = deal(choices.runs, choices.seed)
    total = sum(plan.runs for plan in plans)
    show.stage(f"running {total} agents", total, "runs")
    with _recorders(settings, spool) as recorders, tempfile.TemporaryDirectory(prefix="trajlake-demo-") as folder:
        provider = Provider(*allowance(plans))
        world = World(recorders, provider, Path(folder), threading.Event(), choices.seed)
        run_all(world, plans, show.advance, check)
    disturb(settings.kafka(), settings.events_topic, before)
    if not choices.imports:
        return world.run_ids, None
    show.stage("importing files")
    imported, run_ids = _import(settings, choices.imports, closer, check)
    return world.run_ids | run_ids, imported


@contextmanager
def _recorders(settings: Settings, spool: Path) -> Iterator[dict[str, Recorder]]:
    """One recorder a tenant. Raises DemoError at the end when Kafka does not have every event."""
    with ExitStack() as stack:
        made = {
            tenant: stack.enter_context(
                Recorder(
                    tenant,
                    bootstrap_servers=settings.bootstrap_servers,
                    topic=settings.events_topic,
                    source="urn:agent:demo",
                    spool=spool / tenant,
                    # Anything here stands above options of another Kafka in the environment.
                    kafka_options={"client.id": "trajlake-demo"},
                )
            )
            for tenant in (HOME, LIMITED)
        }
        yield made
        left = sum(recorder.flush(_FLUSH_S) for recorder in made.values())
        counts = [recorder.counts for recorder in made.values()]
    lost = sum(count.dropped + count.parked for count in counts)
    if left or lost:
        raise DemoError(f"{left} events wait in {spool}, and {lost} were refused: Kafka did not take them in time")


def _import(
    settings: Settings, paths: Sequence[str], closer: Progress, check: Callable[[], None]
) -> tuple[ImportReport, set[tuple[str, str]]]:
    published = Published(open_lake(settings.root, storage_options=settings.storage_options).lake, IMPORT_TENANT)
    published.read_tail(settings.kafka(), settings.events_topic, settings.app_id, closer)
    runs: set[tuple[str, str]] = set()
    with Delivery(settings.kafka(), settings.events_topic) as delivery:

        def publish(key: bytes, value: bytes) -> None:
            check()
            tenant, _, run_id = key.decode().partition("/")
            runs.add((tenant, run_id))
            delivery.publish(key, value)

        report = import_files(paths, publish=publish, known=published.known, tenant=IMPORT_TENANT, progress=closer)
    return report, runs


def _prove(settings: Settings, lake: LakeTables, closer: Progress) -> tuple[Report, Figures]:
    """Verify the lake, against the log's ends too, and count what is in it."""
    from trajlake.reading.lag import measure_lag

    lake.reopen()
    report = verify(lake, settings.app_id, progress=closer)
    landed = {(part.topic, part.partition): part.landed_offset for part in report.partitions}
    lags = measure_lag(settings.kafka(), landed, {settings.events_topic}, _LAG_S)
    if lags is None:
        raise DemoError(f"the demo's Kafka at {settings.bootstrap_servers} does not answer any more")
    topic = settings.events_topic
    add_lags(report, {key: (lag.end_offset, lag.records, lag.ahead) for key, lag in lags.items() if key[0] == topic})
    return report, read_figures(lake)
