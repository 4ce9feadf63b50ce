"""Tokens of code hosts, package registries, build services and code scanners."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

code = partial(token, kind=Kind.CODE)

CODE: Final[tuple[Rule, ...]] = (
    Rule(
        id="github-token",
        finds="GitHub tokens: personal, OAuth, app, refresh, fine-grained, and app tokens that carry a JWT",
        kind=Kind.CODE,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}ghs_\d{{1,12}}_eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}"),
            Form(rf"{TOKEN_LEFT}gh[pousr]_[A-Za-z0-9]{{30,255}}{TOKEN_RIGHT}", ("real",)),
            Form(rf"{TOKEN_LEFT}github_pat_[A-Za-z0-9_]{{40,255}}{TOKEN_RIGHT}", ("real",)),
        ),
        examples=("ghp_" + RANDOM + "Ab3d", "github_pat_" + RANDOM * 2 + "_" + RANDOM[:17]),
        counterexamples=("ghp_" + "x" * 36, "ghr_16C7e42F292c69", "gxx_" + RANDOM + "Ab3d"),
    ),
    Rule(
        id="gitlab-token",
        finds="GitLab tokens: personal, project, deploy, runner, trigger, feed, agent, feature flag, OAuth, job",
        kind=Kind.CODE,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                rf"{TOKEN_LEFT}gl(?:pat|dt|rt|rtr|ptt|ft|imt|agent|oas|soat|ffct"
                rf"|wt)-(?:t\d_)?[A-Za-z0-9_-]{{20,300}}(?:\.[a-z0-9]{{2,12}}){{0,3}}",
                ("real",),
            ),
            Form(rf"{TOKEN_LEFT}glcbt-[0-9a-zA-Z]{{1,5}}_[A-Za-z0-9_-]{{16,}}", ("real",)),
            Form(rf"{TOKEN_LEFT}GR1348941[A-Za-z0-9_-]{{20}}", ("real",)),
            Form(rf"{TOKEN_LEFT}_gitlab_session=([0-9a-z]{{32}}){TOKEN_RIGHT}", ("entropy:3.0",), group=1),
        ),
        examples=("glpat-" + RANDOM[:20], "glrt-t2_" + RANDOM[:27] + ".a1b2c3d4e", "GR1348941" + RANDOM[:20]),
        counterexamples=("glpat-" + "X" * 20, "glpat-abc"),
    ),
    code(
        "bitbucket-token",
        "Bitbucket and Atlassian tokens",
        pattern=r"(?:ATBB[A-Za-z0-9]{28,36}|AT(?:CTT3|ATT3)[A-Za-z0-9_=-]{60,200}|BBDC-[A-Za-z0-9+/@_-]{40,50})",
        example="ATBB" + RANDOM,
        counterexample="ATBB" + "x" * 32,
        checks=("real", "entropy:3.0"),
    ),
    code(
        "atlassian-server-token",
        "Personal access token of Jira, Confluence and Bitbucket servers",
        pattern=r"(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){4}O[g-j][A-Za-z0-9+/]{26}",
        example="NTkzOTIzMTcxMzg5O" + "i" + RANDOM[:26],
        counterexample="NTkzOTIzMTcxMzg5",
        checks=("entropy:3.5",),
        triggers=("#encoded",),
    ),
    code(
        "npm-token",
        "npm access token",
        pattern=r"npm_[A-Za-z0-9]{36}",
        example="npm_" + RANDOM + "Ab3d",
        counterexample="npm_" + "x" * 36,
    ),
    code(
        "pypi-token",
        "PyPI upload token",
        pattern=r"pypi-AgE[A-Za-z0-9_-]{40,}",
        example="pypi-AgEIcHlwaS5vcmc" + RANDOM * 2,
        counterexample="pypi-AgE" + "x" * 60,
    ),
    code(
        "rubygems-token",
        "RubyGems API key",
        pattern=r"rubygems_[a-f0-9]{48}",
        example="rubygems_" + HEX + HEX[:16],
        counterexample="rubygems_" + "x" * 48,
        checks=("real", "entropy:3.0"),
    ),
    code(
        "nuget-key",
        "NuGet API key",
        pattern=r"oy2[a-z0-9]{43}",
        example="oy2" + RANDOM.lower() + RANDOM.lower()[:11],
        counterexample="oy2" + "x" * 43,
        checks=("real", "entropy:3.5"),
    ),
    code(
        "crates-token",
        "Cargo token",
        pattern=r"cio[A-Za-z0-9]{32}",
        example="cio" + RANDOM,
        counterexample="cio" + "x" * 32,
        checks=("real", "entropy:3.8", "mixed"),
    ),
    code(
        "clojars-token",
        "Clojars deploy token",
        pattern=r"CLOJARS_[A-Za-z0-9]{60}",
        example="CLOJARS_" + RANDOM + RANDOM[:28],
        counterexample="CLOJARS_" + "x" * 60,
        checks=("real", "entropy:3.0"),
    ),
    code(
        "docker-token",
        "Docker Hub access tokens and swarm keys",
        pattern=r"(?:dckr_[po]at_[A-Za-z0-9_-]{27,40}|SWM(?:TKN|KEY)-1-[A-Za-z0-9+/]{40,52}(?:-[a-z0-9]{24,26})?)",
        example="dckr_pat_" + RANDOM[:27],
        counterexample="dckr_pat_" + "x" * 27,
    ),
    Rule(
        id="artifactory-token",
        finds="JFrog Artifactory API keys and reference tokens",
        kind=Kind.CODE,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}AKCp[A-Za-z0-9]{{69}}{TOKEN_RIGHT}", ("real", "entropy:3.0")),
            Form(rf"{TOKEN_LEFT}cmVmd[A-Za-z0-9]{{59}}{TOKEN_RIGHT}", ("real", "entropy:3.0")),
        ),
        examples=("AKCp" + RANDOM * 2 + RANDOM[:5], "cmVmd" + RANDOM + RANDOM[:27]),
        counterexamples=("cmVmd" + "X" * 59, "AKCp" + "x" * 69),
    ),
    code(
        "circleci-token",
        "CircleCI tokens",
        pattern=r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}",
        example="CCIPAT_" + RANDOM[:22] + "_" + HEX + HEX[:8],
        counterexample="CCIPAT_" + "x" * 22 + "_" + "x" * 40,
    ),
    code(
        "buildkite-token",
        "Buildkite tokens",
        pattern=r"bk(?:ua|pt|at|ct|aj)_[a-f0-9]{40,64}",
        example="bkua_" + HEX + HEX[:8],
        counterexample="bkua_" + "x" * 40,
    ),
    code(
        "sourcegraph-token",
        "Sourcegraph and Cody tokens",
        pattern=r"(?:sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}|slk_[a-f0-9]{64})",
        example="sgp_" + HEX + HEX[:8],
        counterexample="sgp_" + "x" * 40,
        checks=("real", "entropy:3.0"),
    ),
    Rule(
        id="sonar-token",
        finds="SonarQube and SonarCloud tokens",
        kind=Kind.CODE,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}sq[upa]_[a-f0-9]{{40}}{TOKEN_RIGHT}", ("real",)),
            Form(
                rf"sonar\.(?:login|token)[\"']?[ \t]?[=:][ \t]?[\"']?([a-f0-9]{{40}}){TOKEN_RIGHT}", ("real",), group=1
            ),
        ),
        examples=("squ_" + HEX + HEX[:8], "-Dsonar.login=" + HEX + HEX[:8]),
        counterexamples=("squ_" + "x" * 40, "sonar.login=admin"),
    ),
    code(
        "deploy-token",
        "Harness, Prefect, Settlemint and Octopus Deploy tokens",
        pattern=r"(?:pat\.[A-Za-z0-9_-]{20,22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
        r"|sat\.[A-Za-z0-9_-]{20,22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
        r"|pn[ub]_[A-Za-z0-9]{36}|sm_(?:pat|aat|sat)_[A-Za-z0-9]{16}|API-[A-Z0-9]{26})",
        example="pnu_" + RANDOM + "Ab3d",
        counterexample="API-" + "X" * 26,
        checks=("real", "entropy:2.8", "mixed"),
        triggers=(
            r"[ps]at\.[A-Za-z0-9_-]{12}",
            r"pn[ub]_[A-Za-z0-9]{12}",
            r"sm_[pas]at_[A-Za-z0-9]{12}",
            r"API-[A-Z0-9]{12}",
        ),
    ),
    code(
        "postman-key",
        "Postman API key",
        pattern=r"PMAK-[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}",
        example="PMAK-" + HEX[:24] + "-" + HEX + "ab",
        counterexample="PMAK-" + "x" * 24 + "-" + "x" * 34,
    ),
    code(
        "readme-key",
        "ReadMe API key",
        pattern=r"rdme_[a-z0-9]{70}",
        example="rdme_" + (RANDOM * 3).lower()[:70],
        counterexample="rdme_" + "x" * 70,
    ),
    code(
        "launchdarkly-key",
        "LaunchDarkly keys",
        pattern=r"(?:sdk|api|mob|reg|rel)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        example="sdk-" + "7d5e97ad-6ddb-4200-8b6a-cbad245c1c29",
        counterexample="sdk-7d5e97ad",
        severity=Severity.HIGH,
    ),
    code(
        "snyk-token",
        "Snyk service account token",
        pattern=r"snyk_(?:uat|sat)\.[a-z0-9]{8}\.[A-Za-z0-9._-]{60,}",
        example="snyk_uat.a1b2c3d4." + RANDOM * 2,
        counterexample="snyk_uat.x",
    ),
    code(
        "tracker-token",
        "Linear, Figma and Asana tokens",
        pattern=r"(?:lin_(?:api|oauth)_[A-Za-z0-9]{32,64}|figd_[A-Za-z0-9_-]{38,}|[012]/\d{16}(?:/\d{16})"
        r"?:[a-f0-9]{32})",
        example="lin_api_" + RANDOM + RANDOM[:8],
        counterexample="lin_api_" + "x" * 40,
        triggers=(r"lin_(?:api|oauth)_[A-Za-z0-9]{32}", r"figd_[A-Za-z0-9_-]{38}", "#asana"),
    ),
)
