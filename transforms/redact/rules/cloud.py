"""Keys of clouds, of infrastructure and of the vaults that hold other keys. Shapes are those that the issuers
document."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

cloud = partial(token, kind=Kind.CLOUD)

CLOUD: Final[tuple[Rule, ...]] = (
    cloud(
        "aws-access-key-id",
        "AWS access key id (long-lived, temporary, bearer and context keys)",
        pattern=r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}",
        example="AKIA" + "Q3ZX7LM2PN8RT4VW",
        counterexample="AKIA" + "IOSFODNN7EXAMPLE",
        checks=("real", "entropy:2.8"),
        severity=Severity.HIGH,
    ),
    cloud(
        "aws-mws-key",
        "AWS marketplace key",
        pattern=r"amzn\.mws\.[0-9a-z]{8}-(?:[0-9a-z]{4}-){3}[0-9a-z]{12}",
        example="amzn.mws." + "4ea38b7b-f563-7709-4bae-87aea0c5c4d2",
        counterexample="amzn.mws.example",
    ),
    Rule(
        id="aws-bedrock-key",
        finds="Amazon Bedrock API keys, long and short lived",
        kind=Kind.CLOUD,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}ABSKQmVkcm9ja0FQSUtleS[A-Za-z0-9+/]{{60,240}}={{0,2}}(?![A-Za-z0-9+/])"),
            Form(
                rf"{TOKEN_LEFT}bedrock-api-key-(?:YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/_-]*={{0,2}}"
                rf"|[A-Za-z0-9+/_-]{{48,}}={{0,2}})",
                ("entropy:3.0",),
            ),
        ),
        examples=("ABSKQmVkcm9ja0FQSUtleS1" + RANDOM * 4, "bedrock-api-key-" + RANDOM * 2),
        counterexamples=("bedrock-api-key-", "ABSK" + "x" * 120),
    ),
    Rule(
        id="aws-signed-url",
        finds="Signature and session token in the query of a signed request (AWS, Google, Azure SAS)",
        kind=Kind.CLOUD,
        severity=Severity.HIGH,
        forms=(
            Form(
                r"[?&;](?:amp;)?X-(?:Amz|Goog)-(?:Signature|Security-Token|Credential)=([A-Za-z0-9%+/=_.~-]{16,})",
                group=1,
            ),
            Form(r"[?&;](?:amp;)?sig=([A-Za-z0-9%+/=_-]{32,})", ("entropy:3.0",), group=1),
            Form(
                r"[?&;](?:amp;)?AWSAccessKeyId=[A-Z0-9]{20}&(?:amp;)?(?:[A-Za-z]+=[^&\s\"']{1,40}&(?:amp;)?)"
                r"?Signature=([A-Za-z0-9%+/=]{20,})",
                group=1,
            ),
        ),
        examples=("https://b.s3.amazonaws.com/x?X-Amz-Signature=" + HEX * 2, "?sv=2022-11-02&sig=" + RANDOM + "%3D"),
        counterexamples=("https://b.s3.amazonaws.com/x?X-Amz-Algorithm=AWS4-HMAC-SHA256",),
    ),
    cloud(
        "gcp-api-key",
        "Google API key",
        pattern=r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
        example="AIza" + "SyD" + RANDOM,
        counterexample="AIza" + "x" * 35,
        checks=("real", "entropy:3.0"),
    ),
    cloud(
        "gcp-oauth",
        "Google OAuth access token, refresh token and client secret",
        pattern=r"(?:ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,40}|1//0[0-9A-Za-z_-]{30,})",
        triggers=(r"ya29\.", "GOCSPX-", r"1(?://|\\/\\/)0[0-9A-Za-z_-]{8}"),
        example="ya29." + RANDOM * 2,
        counterexample="GOCSPX-" + "x" * 28,
    ),
    cloud(
        "azure-client-secret",
        "Microsoft Entra client secret",
        pattern=r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
        example="abc8Q~" + RANDOM + "x~",
        counterexample="abc8Q" + "x" * 34,
        triggers=(r"[0-9]Q~[A-Za-z0-9_~.-]{20}",),
    ),
    Rule(
        id="azure-account-key",
        finds="Azure keys in connection strings and platform keys with their embedded signature",
        kind=Kind.CLOUD,
        severity=Severity.CRITICAL,
        forms=(
            Form(r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,88}={0,2})", ("entropy:3.0",), group=1),
            Form(
                rf"{TOKEN_LEFT}[A-Za-z0-9+/]{{30,76}}(?:JQQJ9|AzCa|\+ABa|ACDb|AzSe|APIM|AZDO|ACRDb|AIoT)"
                rf"[A-Za-z0-9+/]{{6,34}}={{0,2}}{TOKEN_RIGHT}",
                ("entropy:4.2", "mixed"),
                triggers=(r"(?:JQQJ9|AzCa|\+ABa|ACDb|AzSe|APIM|AZDO|ACRDb|AIoT)[A-Za-z0-9+/]{6}",),
            ),
        ),
        examples=("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + RANDOM * 2 + "==",),
        counterexamples=("AccountKey=<key>",),
    ),
    cloud(
        "digitalocean-token",
        "DigitalOcean access, OAuth and refresh tokens",
        pattern=r"do[opr]_v1_[a-f0-9]{64}",
        example="dop_v1_" + HEX * 2,
        counterexample="dop_v1_" + "x" * 64,
    ),
    cloud(
        "alibaba-access-key-id",
        "Alibaba Cloud access key id",
        pattern=r"LTAI[A-Za-z0-9]{16,22}",
        example="LTAI" + RANDOM[:20],
        counterexample="LTAI" + "x" * 20,
        checks=("real", "entropy:2.8"),
        severity=Severity.HIGH,
    ),
    cloud(
        "tencent-secret-id",
        "Tencent Cloud secret id",
        pattern=r"AKID[A-Za-z0-9]{28,40}",
        example="AKID" + RANDOM,
        counterexample="AKID" + "x" * 32,
        severity=Severity.HIGH,
    ),
    cloud(
        "ncloud-access-key",
        "Naver Cloud access key",
        pattern=r"ncp_iam_[A-Za-z0-9]{20,}",
        example="ncp_iam_" + "BPASKR" + RANDOM[:20],
        counterexample="ncp_iam_" + "x" * 24,
    ),
    cloud(
        "heroku-key",
        "Heroku API key, second form",
        pattern=r"HRKU-[0-9A-Za-z_-]{32,70}",
        example="HRKU-AA" + RANDOM + RANDOM[:26],
        counterexample="HRKU-AA" + "x" * 58,
    ),
    cloud(
        "adobe-client-secret",
        "Adobe client secret",
        pattern=r"p8e-[A-Za-z0-9]{32}",
        example="p8e-" + HEX,
        counterexample="p8e-" + "x" * 32,
    ),
    Rule(
        id="fly-token",
        finds="Fly.io tokens",
        kind=Kind.CLOUD,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}fo1_[A-Za-z0-9_-]{{40,46}}(?![A-Za-z0-9_-])", ("real", "entropy:3.0")),
            Form(rf"{TOKEN_LEFT}fm[12][ar]?_[A-Za-z0-9+/]{{60,}}={{0,3}}", ("real", "entropy:3.5")),
        ),
        examples=("fo1_" + RANDOM + RANDOM[:11], "fm2_" + RANDOM * 4),
        counterexamples=("fo1_" + "x" * 43,),
    ),
    cloud(
        "cloudflare-token",
        "Cloudflare API tokens, global keys and origin CA keys",
        pattern=r"(?:cf(?:at|ut)_[A-Za-z0-9]{40}[a-zA-Z0-9]{8,}|cfk_[A-Za-z0-9]{40,}"
        r"|v1\.0-[a-f0-9]{24}-[a-f0-9]{100,160})",
        example="cfut_" + RANDOM + RANDOM[:16],
        counterexample="cfat_" + "x" * 48,
        checks=("real", "entropy:3.0"),
    ),
    cloud(
        "databricks-token",
        "Databricks personal access token",
        pattern=r"(?:dapi|dkea|dose)[a-f0-9]{32}(?:-\d)?",
        example="dapi" + HEX,
        counterexample="dapi" + "x" * 32,
        checks=("real", "entropy:3.0", "unordered"),
    ),
    cloud(
        "hashicorp-token",
        "HashiCorp Terraform and Vault tokens",
        pattern=r"(?:[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}|hv[sbr]\.[A-Za-z0-9_-]{24,}(?:\.[A-Za-z0-9_-]+)"
        r"?)",
        example="hvs." + RANDOM * 3,
        counterexample="hvs." + "x" * 90,
        checks=("real", "entropy:3.5"),
        triggers=(r"\.atlasv1\.", r"hv[sbr]\.[A-Za-z0-9_-]{12}"),
    ),
    cloud(
        "doppler-token",
        "Doppler tokens",
        pattern=r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
        example="dp.pt." + RANDOM + RANDOM[:11],
        counterexample="dp.pt." + "x" * 43,
    ),
    cloud(
        "pulumi-token",
        "Pulumi access token",
        pattern=r"pul-[a-f0-9]{40}",
        example="pul-" + HEX + HEX[:8],
        counterexample="pul-" + "x" * 40,
    ),
    cloud(
        "planetscale-token",
        "PlanetScale passwords and tokens",
        pattern=r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9=._-]{32,64}",
        example="pscale_pw_" + RANDOM,
        counterexample="pscale_tkn_" + "x" * 32,
    ),
    cloud(
        "supabase-token",
        "Supabase access token and secret key",
        pattern=r"(?:sbp_(?:v0_)?[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{22,})",
        example="sbp_" + HEX + HEX[:8],
        counterexample="sbp_" + "x" * 40,
    ),
    cloud(
        "netlify-token",
        "Netlify personal access token",
        pattern=r"nf[pcobu]_[A-Za-z0-9]{36}",
        example="nfp_" + RANDOM + "Ab3d",
        counterexample="nfp_" + "x" * 36,
    ),
    cloud(
        "render-token",
        "Render, Railway, Vercel and Scalingo tokens",
        pattern=r"(?:rnd_[A-Za-z0-9]{28,40}|vc[pkiar]_[A-Za-z0-9]{24,64}|tk-us-[A-Za-z0-9_-]{48})",
        example="rnd_" + RANDOM,
        counterexample="rnd_" + "x" * 32,
    ),
    cloud(
        "openshift-token",
        "OpenShift session token",
        pattern=r"sha256~[A-Za-z0-9_-]{43}",
        example="sha256~" + RANDOM + RANDOM[:11],
        counterexample="sha256~" + "x" * 43,
    ),
    cloud(
        "yandex-key",
        "Yandex Cloud API key, access token and IAM token",
        pattern=r"(?:AQVN[A-Za-z0-9_-]{35,38}|YC[A-Za-z0-9_-]{38}"
        r"|t1\.[A-Za-z0-9_-]{1,12}={0,2}\.[A-Za-z0-9_-]{86}={0,2})",
        triggers=(
            r"AQVN[A-Za-z0-9_-]{16}",
            r"YC[A-Za-z0-9_-]{38}",
            r"t1\.[A-Za-z0-9_-]{1,12}={0,2}\.[A-Za-z0-9_-]{30}",
        ),
        example="AQVN" + RANDOM + "Ab3",
        counterexample="AQVN" + "x" * 35,
        checks=("real", "entropy:3.2"),
    ),
    cloud(
        "tailscale-key",
        "Tailscale keys",
        pattern=r"tskey-[a-z]{3,10}-[A-Za-z0-9]{10,24}-[A-Za-z0-9]{16,40}",
        example="tskey-auth-" + RANDOM[:12] + "-" + RANDOM[:24],
        counterexample="tskey-foo",
        checks=(),
    ),
    cloud(
        "ngrok-token",
        "Ngrok authentication token",
        pattern=r"(?:ak|cr)_2[A-Za-z0-9]{26}",
        example="ak_2" + RANDOM[:26],
        counterexample="ak_2" + "x" * 26,
        checks=("real", "entropy:3.8", "mixed"),
    ),
    cloud(
        "age-secret-key",
        "age identity",
        pattern=r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
        example="AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE",
        counterexample="AGE-SECRET-KEY-1X",
        checks=(),
    ),
    cloud(
        "onepassword-token",
        "1Password service account token and secret key",
        pattern=r"(?:ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})"
        r"-(?:[A-Z0-9]{5}-){2}[A-Z0-9]{5})",
        example="ops_eyJ" + RANDOM * 5,
        counterexample="ops_eyJ" + "x" * 200,
        checks=("real", "entropy:3.2"),
    ),
    cloud(
        "infracost-key",
        "Infracost, Scalr and env0 keys",
        pattern=r"ico-[A-Za-z0-9]{32}",
        example="ico-" + RANDOM,
        counterexample="ico-" + "x" * 32,
    ),
)
