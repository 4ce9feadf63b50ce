"""The rules that the settings name: policies, quality rules, levers, redaction, sealing, the dashboard's token."""

from __future__ import annotations

from importlib.util import find_spec

from trajlake.doctor.finding import Finding, Patient, failed, ok, warning
from trajlake.doctor.program import DASHBOARD_TOKEN
from trajlake.streams.deepscan.presidio import INSTALL
from trajlake.streams.settings import SettingError

LEAST_TOKEN_CHARS = 16


def policies(patient: Patient) -> Finding:
    """Policies can be read, and what they ask for is here."""
    from trajlake.streams.policies import governance

    try:
        found = governance(patient.settings).policies
    except SettingError as error:
        return failed(error.problem, "`trajlake policy check FILE` lists all that is wrong")
    if found.deep_scans and find_spec("presidio_analyzer") is None:
        return failed(f"policy {found.deep_scans[0]} asks for deep_scan, and Presidio is not installed", INSTALL)
    if not patient.settings.policies:
        return ok("the defaults alone: nothing may be trained on until a policy allows it")
    return ok(f"revision {found.revision}, {len(found.policies)} policies, {len(found.deny)} deny rules")


def suites(patient: Patient) -> Finding:
    """Quality rules can judge rows."""
    from trajlake.expectations.suites.suite import SuiteError
    from trajlake.streams.land.rules import row_gate

    try:
        row_gate(patient.settings)
    except (SuiteError, OSError) as error:
        return failed(str(error), "`trajlake expectations check FOLDER` lists all that is wrong")
    return ok("the shipped rules" if not patient.settings.suites else f"rules of {patient.settings.suites}")


def levers(patient: Patient) -> Finding:
    """The lever table can be read."""
    from trajlake.expectations.levers import LeverError
    from trajlake.streams.levers import read_lever_file

    try:
        read_lever_file(patient.settings.levers_file)
    except (LeverError, OSError) as error:
        return failed(str(error), "`trajlake levers show` shows and checks it")
    return ok("the shipped table" if not patient.settings.levers_file else patient.settings.levers_file)


def redaction(patient: Patient) -> Finding:
    """Secrets and people are taken out, under a key where pseudonyms are wanted."""
    from trajlake.streams.redaction import check_redaction

    if patient.settings.redaction == "off":
        return warning(
            "switched off: secrets and people are stored as they come", "take away the setting redaction: on is default"
        )
    try:
        key = check_redaction(patient.settings)
    except SettingError as error:
        return failed(f"setting {error.name} {error.problem}", "`trajlake redact --rules` lists rules and actions")
    return ok("on, with a key: people become pseudonyms" if key else "on, without a key: people become markers")


def sealing(patient: Patient) -> Finding:
    """The key that originals of refused records are sealed to can be read."""
    from trajlake.streams.keeping.seals import sealer_for
    from trajlake.streams.policies import governance

    try:
        sealer = sealer_for(patient.settings, governance(patient.settings).policies)
    except SettingError as error:
        return failed(f"setting {error.name} {error.problem}", "give the operators' public key (X25519, PEM)")
    return ok("originals of refused records are sealed" if sealer else "off: originals of refused records are not kept")


def dashboard(patient: Patient) -> Finding:
    """The dashboard's packages are installed, and a token that is given is long enough."""
    missing = [name for name in ("starlette", "uvicorn", "altair", "vl_convert") if find_spec(name) is None]
    if missing:
        return warning(f"packages are missing: {', '.join(missing)}", "pip install 'trajlake[dashboard]'")
    token = patient.environ.get(DASHBOARD_TOKEN)
    if token is None:
        return ok("no token: it is served on loopback alone")
    if len(token.strip()) < LEAST_TOKEN_CHARS:
        return failed(
            f"{DASHBOARD_TOKEN} has less than {LEAST_TOKEN_CHARS} characters", "make one: openssl rand -hex 24"
        )
    return ok("a token of readers is set")
