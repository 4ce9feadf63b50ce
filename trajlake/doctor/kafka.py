"""Kafka: does it answer, are the topics as the flow needs them, how far are the tables behind, whose clock is right."""

from __future__ import annotations

from typing import Final

from trajlake.doctor.finding import Finding, Patient, failed, ok, warning

LATE_S: Final = 60.0
LATE_OUTCOMES: Final = 1_000
SKEW_S: Final = 2.0
SHORT_RETENTION_H: Final = 24.0
_NOT_ASKED: Final = "not asked: Kafka does not answer"


def broker(patient: Patient) -> Finding:
    """A broker answers."""
    servers = patient.settings.bootstrap_servers
    if patient.kafka.problem is not None:
        start = "`trajlake broker start` starts one here" if patient.embeds_broker else "is it running, and reachable?"
        return failed(f"{servers}: {patient.kafka.problem}", f"{start}; TLS and passwords are in setting kafka_options")
    return ok(f"{servers}, {patient.kafka.brokers} brokers")


def topics(patient: Patient) -> Finding:
    """The topics are there, with the partitions, times, sizes and retention that the flow needs."""
    from trajlake.streams.topics import look_at_topics

    settings = patient.settings
    if patient.kafka.problem is not None:
        return warning(_NOT_ASKED, "see check broker")
    wanted = {
        settings.events_topic: settings.events_partitions,
        **dict.fromkeys(
            (settings.outcomes_topic, settings.stats_topic, settings.decisions_topic), settings.outcomes_partitions
        ),
    }
    seen = look_at_topics(settings.kafka(), wanted, settings.event_max_bytes, patient.timeout_s)
    serious = [str(each) for each in seen.warnings if each.code in ("compacted", "retention")]
    if serious:
        return failed("; ".join(serious), "change the topic's cleanup.policy or retention.ms with Kafka's tools")
    if seen.warnings:
        return warning("; ".join(map(str, seen.warnings)), "change the topic with Kafka's tools, or the setting")
    absent = [name for name in wanted if name not in seen.present]
    if absent:
        return warning(f"not there yet: {', '.join(absent)}", "`trajlake land` makes them; or grant it to do so")
    return ok(f"{len(wanted)} topics as they should be")


def changelogs(patient: Patient) -> Finding:
    """The rolling workers' changelogs are compacted, and all their topics have the same number of partitions."""
    from trajlake.streams.roll.topics import asked_topic, changelog_topics
    from trajlake.streams.topics import cleanup_policy

    settings, known = patient.settings, patient.kafka.topics
    if patient.kafka.problem is not None:
        return warning(_NOT_ASKED, "see check broker")
    logs = [name for name in changelog_topics(settings) if name in known]
    if not logs:
        return ok("`trajlake roll` has not run yet")
    names = (settings.outcomes_topic, settings.stats_topic, settings.decisions_topic, asked_topic(settings), *logs)
    counts = {name: known[name] for name in names if name in known}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        return failed(
            f"numbers of partitions differ: {listed}", "make the wrong one anew, then `trajlake roll --rebuild`"
        )
    for name in logs:
        policy = cleanup_policy(settings.kafka(), name, patient.timeout_s)
        if policy is not None and "compact" not in policy:
            return failed(
                f"{name} has cleanup.policy {policy}: statistics would be forgotten",
                "set its cleanup.policy to compact, then `trajlake roll --rebuild`",
            )
    return ok(f"{len(logs)} changelogs, compacted")


def lag(patient: Patient) -> Finding:
    """The tables are near the end of the log, and the log is the one that they were filled from."""
    from trajlake.reading.lag import measure_lag

    settings = patient.settings
    if patient.kafka.problem is not None:
        return warning(_NOT_ASKED, "see check broker")
    landed = {key: at for key, at in patient.tables.landed(settings.app_id).items() if key[0] == settings.events_topic}
    lags = measure_lag(settings.kafka(), landed, {settings.events_topic}, patient.timeout_s)
    if lags is None:
        return warning(_NOT_ASKED, "see check broker")
    ahead = [f"{topic}/{partition}" for (topic, partition), each in lags.items() if each.ahead and each.end_offset >= 0]
    if ahead:
        return failed(
            f"the tables know offsets that the log has not: {', '.join(ahead)}",
            "this Kafka is not the one that the lake was landed from: name that one, or another root",
        )
    records = sum(each.records for each in lags.values())
    seconds = max((each.seconds or 0.0 for each in lags.values()), default=0.0)
    words = f"{records:,} records behind, the oldest waits for {seconds:,.0f} s"
    if seconds > LATE_S:
        return warning(words, "is `trajlake land` running? more --workers land more at once")
    return ok(words if records else "all that the log holds has landed")


def outcomes_lag(patient: Patient) -> Finding:
    """The rolling workers are near the end of what land announces."""
    from trajlake.reading.lag import group_lag

    settings = patient.settings
    if patient.kafka.problem is not None:
        return warning(_NOT_ASKED, "see check broker")
    if settings.outcomes_topic not in patient.kafka.topics:
        return ok("nothing has been announced yet")
    behind = group_lag(settings.kafka(), settings.roll_id, settings.outcomes_topic, patient.timeout_s)
    if behind is None:
        return warning(f"the group {settings.roll_id} does not tell its offsets", "grant DESCRIBE on the group")
    if behind > LATE_OUTCOMES:
        return warning(f"{behind:,} outcome messages are not counted", "is `trajlake roll` running? add --workers")
    return ok(f"{behind:,} outcome messages wait")


def clock(patient: Patient) -> Finding:
    """The clock of this machine is not behind that of the brokers, whose times are on the newest records."""
    from trajlake.reading.lag import newest_times

    if patient.kafka.problem is not None:
        return warning(_NOT_ASKED, "see check broker")
    topic = patient.settings.events_topic
    if topic not in patient.kafka.topics:
        return ok("no record to compare with yet")
    newest = newest_times(patient.settings.kafka(), topic, patient.timeout_s)
    if newest is None:
        return ok("no record to compare with yet")
    ahead_s = newest - patient.now()
    if ahead_s > SKEW_S:
        return failed(
            f"the newest record of {topic} is {ahead_s:,.0f} s in the future of this machine's clock",
            "set the clocks by NTP: ages, time-outs and consents are judged by them",
        )
    return ok("no record is from the future")
