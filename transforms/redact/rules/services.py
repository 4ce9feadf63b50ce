"""Tokens of monitoring, data, marketing and other services, and the family rule for vendors without a row of their
own."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

service = partial(token, kind=Kind.SERVICE)

SERVICES: Final[tuple[Rule, ...]] = (
    Rule(
        id="grafana-token",
        finds="Grafana cloud, service account and API tokens",
        kind=Kind.SERVICE,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}glc_[A-Za-z0-9+/]{{32,400}}={{0,3}}", ("real", "entropy:3.0")),
            Form(rf"{TOKEN_LEFT}glsa_[A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}}{TOKEN_RIGHT}", ("real", "entropy:3.0")),
            Form(rf"{TOKEN_LEFT}eyJrIjoi[A-Za-z0-9+/_-]{{60,400}}={{0,3}}"),
        ),
        examples=("glsa_" + RANDOM + "_" + HEX[:8], "glc_" + RANDOM),
        counterexamples=("glsa_" + "X" * 32 + "_AAAAAAAA", "GLC_CreateLightmapTexturesIndividual", "glc_" + "1" * 40),
    ),
    Rule(
        id="sentry-token",
        finds="Sentry organisation and user tokens",
        kind=Kind.SERVICE,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}sntrys_eyJ[A-Za-z0-9+/=_-]{{40,600}}"),
            Form(rf"{TOKEN_LEFT}sntry[ur]_[a-f0-9]{{64}}{TOKEN_RIGHT}", ("real", "entropy:3.0")),
        ),
        examples=("sntrys_eyJ" + RANDOM * 3, "sntryu_" + HEX * 2),
        counterexamples=("sntryu_" + "a" * 64, "sntryu_" + HEX),
    ),
    service(
        "new-relic-key",
        "New Relic keys",
        pattern=r"(?:NR(?:AK|II|JS|RA|IQ|SP|BR)-[A-Za-z0-9_-]{19,40}|[a-z0-9]{36}NRAL)",
        example="NRAK-" + RANDOM[:27].upper(),
        counterexample="NRAK-" + "X" * 27,
        triggers=(r"NR(?:AK|II|JS|RA|IQ|SP|BR)-", r"NRAL"),
    ),
    service(
        "dynatrace-token",
        "Dynatrace token",
        pattern=r"dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
        example="dt0c01." + RANDOM[:24].upper() + "." + (RANDOM * 2).upper(),
        counterexample="dt0c01." + "X" * 24 + "." + "X" * 64,
    ),
    service(
        "notion-token",
        "Notion integration tokens",
        pattern=r"(?:ntn_\d{11}[A-Za-z0-9]{35}|secret_[A-Za-z0-9]{43})",
        example="ntn_45647615172" + RANDOM + "Ab3",
        counterexample="ntn_" + "1234567890" * 6,
        checks=("real", "entropy:3.3", "mixed"),
    ),
    service(
        "airtable-token",
        "Airtable personal access token",
        pattern=r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
        example="pat" + RANDOM[:14] + "." + HEX * 2,
        counterexample="pat" + "x" * 14 + "." + "x" * 64,
    ),
    service(
        "hubspot-token",
        "HubSpot private app token",
        pattern=r"pat-[a-z]{2}\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        example="pat-na1-" + "7d5e97ad-6ddb-4200-8b6a-cbad245c1c29",
        counterexample="pat-na1-x",
    ),
    service(
        "akamai-token",
        "Akamai EdgeGrid client and access tokens",
        pattern=r"akab-[a-z0-9]{16}-[a-z0-9]{16}",
        example="akab-" + RANDOM[:16].lower() + "-" + RANDOM[16:].lower(),
        counterexample="akab-" + "x" * 16 + "-" + "x" * 16,
    ),
    service(
        "posthog-key",
        "PostHog keys",
        pattern=r"ph[acrsx]_[A-Za-z0-9]{32,60}",
        example="phx_" + RANDOM + RANDOM[:16],
        counterexample="phx_" + "x" * 48,
        checks=("real", "entropy:3.3", "mixed"),
    ),
    service(
        "contentful-token",
        "Contentful management token",
        pattern=r"CFPAT-[A-Za-z0-9_-]{43}",
        example="CFPAT-" + RANDOM + RANDOM[:11],
        counterexample="CFPAT-" + "x" * 43,
    ),
    service(
        "intercom-token",
        "Intercom access token",
        pattern=r"dG9rO[A-Za-z0-9+/]{40,80}={0,2}",
        example="dG9rO" + RANDOM + RANDOM[:16],
        counterexample="dG9rO" + "x" * 50,
    ),
    service(
        "mapbox-token",
        "Mapbox tokens",
        pattern=r"[st]k\.eyJ1Ijoi[A-Za-z0-9_-]{20,120}\.[A-Za-z0-9_-]{20,30}",
        example="sk.eyJ1Ijoi" + RANDOM + "." + RANDOM[:22],
        counterexample="sk.eyJ1",
    ),
    service(
        "defined-networking-token",
        "Defined Networking and Nebula keys",
        pattern=r"dnkey-[A-Za-z0-9=_-]{26,}",
        example="dnkey-" + RANDOM * 2,
        counterexample="dnkey-" + "x" * 60,
    ),
    service(
        "onesignal-key",
        "OneSignal key",
        pattern=r"os_v2_(?:app|org)_[a-z0-9]{80,110}",
        example="os_v2_app_" + (RANDOM * 3).lower(),
        counterexample="os_v2_app_" + "x" * 90,
    ),
    service(
        "kolide-secret",
        "Kolide enrolment secret",
        pattern=r"k2sk_v\d_[A-Za-z0-9]{24,}",
        example="k2sk_v1_" + RANDOM[:24],
        counterexample="k2sk_v1_" + "x" * 24,
    ),
    Rule(
        id="vendor-token",
        finds="Tokens of vendors without a row of their own: a short name, a word such as live, api, pat or secret, "
        "and a random part",
        kind=Kind.SERVICE,
        severity=Severity.HIGH,
        forms=(
            Form(
                rf"{TOKEN_LEFT}(?<!bedrock-)(?!bedrock-)[A-Za-z][A-Za-z0-9]{{1,11}}[_-](?:live|prod|sandbox|pat|api|sk|secret|token"
                rf"|key|apikey|access)[_-](?:v\d[_-])?[A-Za-z0-9]{{20,120}}{TOKEN_RIGHT}",
                ("real", "entropy:3.3", "random_tail"),
                triggers=(
                    r"[A-Za-z0-9][_-](?:live|prod|sandbox|pat|api|sk|secret|token|key|apikey|access)"
                    r"[_-](?:v\d[_-])?[A-Za-z0-9]{20}",
                ),
            ),
            Form(
                rf"{TOKEN_LEFT}(?:sk|rk|pat|secret|token|apikey)[_-](?:v\d[_-])?[A-Za-z0-9]{{24,120}}{TOKEN_RIGHT}",
                ("real", "entropy:3.3", "random_tail"),
                triggers=(r"(?:sk|rk|pat|secret|token|apikey)[_-](?:v\d[_-])?[A-Za-z0-9]{24}",),
            ),
        ),
        examples=("acme_live_" + RANDOM[:28], "secret-" + RANDOM),
        counterexamples=(
            "task_test_" + RANDOM[:28].lower(),
            "tool_api_internationalization",
            "secret-management-configuration",
            "key_" + "x" * 30,
        ),
    ),
)
