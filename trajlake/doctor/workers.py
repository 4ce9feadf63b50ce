"""The workers of this machine, by their health endpoints."""

from __future__ import annotations

from trajlake.doctor.finding import Finding, Patient, failed, ok, warning
from trajlake.streams.probing import ask_ready


def land(patient: Patient) -> Finding:
    """The land workers run and are well."""
    settings = patient.settings
    if not settings.health_port:
        return ok("health_port is 0: their log says where they answer")
    return _worker("land", f"http://{settings.health_host}:{settings.health_port}/ready", patient.timeout_s)


def roll(patient: Patient) -> Finding:
    """The first rolling worker runs and is well."""
    settings = patient.settings
    return _worker("roll", f"http://{settings.roll_host}:{settings.roll_port}/ready", patient.timeout_s)


def curate(patient: Patient) -> Finding:
    """Curation runs as a service and is well."""
    return _in_rounds(patient, "curate", patient.settings.curate_port)


def maintain(patient: Patient) -> Finding:
    """Upkeep runs as a service and is well."""
    return _in_rounds(patient, "maintain", patient.settings.maintain_port)


def _in_rounds(patient: Patient, name: str, port: int) -> Finding:
    if not port:
        return ok(f"{name}_port is 0: its log says where it answers")
    return _worker(name, f"http://{patient.settings.health_host}:{port}/ready", patient.timeout_s)


def _worker(name: str, url: str, timeout_s: float) -> Finding:
    answer = ask_ready(url, timeout_s)
    if answer.ready:
        return ok(f"{url}: {answer.says}" if answer.says else url)
    if answer.answered:
        return failed(f"{url}: {answer.says}", f"look at the log of `trajlake {name}`")
    return warning(
        f"{url} {answer.says}", f"`trajlake {name}` starts it here, `trajlake up` all; fine if it runs elsewhere"
    )
