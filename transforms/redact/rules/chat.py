"""Tokens and webhooks of chat, mail and social services."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

chat = partial(token, kind=Kind.CHAT)

CHAT: Final[tuple[Rule, ...]] = (
    Rule(
        id="slack-token",
        finds="Slack tokens: bot, user, legacy, workspace, app-level, configuration, session cookie",
        kind=Kind.CHAT,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                rf"{TOKEN_LEFT}xox[abceopsr](?:\.xox[bp])?-(?:\d-)?[A-Za-z0-9-]{{20,400}}(?![#*A-Za-z0-9-])",
                ("real", "has_digit", "no_mask_run", "no_word"),
            ),
            Form(rf"{TOKEN_LEFT}xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{{60,400}}", ("real",)),
            Form(rf"{TOKEN_LEFT}xapp-\d-[A-Z0-9]{{6,16}}-\d{{6,16}}-[a-zA-Z0-9]{{20,80}}", ("real",)),
            Form(rf"{TOKEN_LEFT}xoxd-[A-Za-z0-9%+/=-]{{40,}}", ("real", "entropy:3.0")),
        ),
        examples=("xoxb-" + "263594206564-" + RANDOM[:24], "xapp-1-A052F" + "GTS2D-5171572773297-" + HEX * 2),
        counterexamples=(
            "xoxb-" + "x" * 24,
            "xoxp-1234567890",
            "xoxe.xoxp-1-initial",
            "https://x/xoxa-nyc/xoxa-nyc.github.io",
        ),
    ),
    Rule(
        id="webhook-url",
        finds="Webhook addresses that need no other secret: Slack, Discord, Teams, Google Chat, Zapier, Make, Tines, "
        "IFTTT",
        kind=Kind.CHAT,
        severity=Severity.HIGH,
        forms=(
            Form(
                r"hooks\.slack(?:-gov)?\.com\\?/(?:services|workflows|triggers)\\?/([A-Za-z0-9+/\\]{20,120})", group=1
            ),
            Form(r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(\d{16,20}/[A-Za-z0-9_-]{40,100})", group=1),
            Form(
                r"[a-z0-9-]{1,60}\.webhook\.office\.com/webhookb2/([A-Za-z0-9@-]{36,120}/IncomingWebhook/[A-Za-z0-9"
                r"]{20,64}/[A-Za-z0-9-]{20,60}(?:/[A-Za-z0-9_-]{10,60})?)",
                group=1,
            ),
            Form(r"chat\.googleapis\.com/v1/spaces/[A-Za-z0-9_-]{4,40}/messages\?(key=[^\s\"'<>]{20,300})", group=1),
            Form(
                r"(?:hooks\.zapier\.com/hooks/catch|hook\.(?:[a-z0-9]{2,8}\.)?make\.com|hook\.integromat\.com"
                r"|maker\.ifttt\.com/trigger/[\w-]{1,60}/(?:json/)?with/key|[a-z0-9-]{3,60}\.tines\.(?:com|io)"
                r"/webhook)/([A-Za-z0-9/_-]{12,120})",
                group=1,
            ),
        ),
        examples=(
            "https://hooks.slack.com/services/T0DCUJB1Q/B0DD08H5G/" + RANDOM[:24],
            "https://calm-cat-1.tines.com/webhook/" + HEX + "/" + HEX,
        ),
        counterexamples=("https://hooks.slack.com/services/", "https://discord.com/api/webhooks/"),
    ),
    chat(
        "discord-token",
        "Discord bot token",
        pattern=r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
        example="MTA5ODc2NTQz" + "MjEwOTg3NjU0" + "." + RANDOM[:6] + "." + RANDOM[:27],
        counterexample="M" + "x" * 23 + "." + "x" * 6 + "." + "x" * 27,
        checks=("real", "entropy:3.5", "mixed"),
        triggers=("#encoded",),
    ),
    Rule(
        id="telegram-token",
        finds="Telegram bot token",
        kind=Kind.CHAT,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                rf"{TOKEN_LEFT}(?:\d{{8,10}}:AA[A-Za-z0-9_-]{{33}}|\d{{9,11}}:[A-Za-z0-9_-]{{34,37}}){TOKEN_RIGHT}",
                ("real", "entropy:3.2", "mixed"),
                triggers=("#telegram",),
            ),
            # As the address of the bot's API has it.
            Form(
                rf"(?<=bot)\d{{8,11}}:[A-Za-z0-9_-]{{25,45}}{TOKEN_RIGHT}",
                ("real", "entropy:3.2", "mixed"),
                triggers=("#telegram",),
            ),
        ),
        examples=(
            "508627689:AA" + RANDOM + "x",
            "https://api.telegram.org/bot" + "508627689:AA" + RANDOM + "x/getUpdates",
        ),
        counterexamples=("508627689:AA" + "x" * 33,),
    ),
    Rule(
        id="meta-token",
        finds="Facebook and Instagram tokens",
        kind=Kind.CHAT,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}EAA[MCG][A-Za-z0-9]{{100,400}}{TOKEN_RIGHT}", ("real", "entropy:4.0")),
            Form(rf"{TOKEN_LEFT}EAA[A-Za-z0-9]{{120,400}}{TOKEN_RIGHT}", ("real", "entropy:4.3", "mixed")),
            Form(rf"{TOKEN_LEFT}IG(?:QV|QW|AA)[A-Za-z0-9_-]{{80,300}}", ("real", "entropy:4.0")),
            Form(
                rf"{TOKEN_LEFT}\d{{13,17}}\|[A-Za-z0-9_-]{{24,40}}{TOKEN_RIGHT}",
                ("real", "entropy:3.0"),
                triggers=("#facebook",),
            ),
        ),
        examples=("EAAM" + RANDOM * 5, "1477036645700765|" + RANDOM[:27]),
        counterexamples=("EAA" + "x" * 120, "eaac4cf978b6"),
    ),
    chat(
        "twitter-bearer",
        "X app-only bearer token",
        pattern=r"A{20,}[A-Za-z0-9%]{60,160}",
        example="A" * 22 + RANDOM * 3,
        counterexample="A" * 120,
        checks=("entropy:3.5", "mixed"),
        triggers=(r"A{20}",),
    ),
    chat(
        "twilio-key",
        "Twilio API key",
        pattern=r"SK[0-9a-f]{32}",
        example="SK" + HEX,
        counterexample="SK" + "x" * 32,
        checks=("real", "entropy:3.0"),
    ),
    chat(
        "sendgrid-key",
        "SendGrid API key",
        pattern=r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,80}",
        example="SG." + RANDOM[:22] + "." + RANDOM + RANDOM[:11],
        counterexample="SG." + "x" * 22 + "." + "x" * 43,
    ),
    Rule(
        id="mail-service-key",
        finds="Keys of Mailgun, Mailchimp, Brevo, Resend, Postmark and the like",
        kind=Kind.CHAT,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}(?:pubkey|key)-[a-f0-9]{{32}}{TOKEN_RIGHT}", ("entropy:3.0",)),
            Form(
                rf"{TOKEN_LEFT}[A-Za-z0-9]{{32}}-us\d{{1,2}}{TOKEN_RIGHT}",
                ("entropy:3.0",),
                triggers=(r"[A-Za-z0-9]{8}-us\d",),
            ),
            Form(rf"{TOKEN_LEFT}x(?:keysib|smtpsib)-[a-f0-9]{{64}}-[A-Za-z0-9]{{16}}{TOKEN_RIGHT}", ("entropy:3.0",)),
            Form(rf"{TOKEN_LEFT}re_[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{TOKEN_RIGHT}", ("real", "entropy:3.5")),
        ),
        examples=("key-" + HEX, HEX + "-us12", "xkeysib-" + HEX * 2 + "-" + RANDOM[:16]),
        counterexamples=("key-value", HEX),
    ),
    Rule(
        id="dropbox-token",
        finds="Dropbox access tokens, short and long lived",
        kind=Kind.CHAT,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}sl\.(?:u\.)?[A-Za-z0-9_=-]{{120,1200}}", ("real", "entropy:3.5")),
            Form(
                rf"{TOKEN_LEFT}[A-Za-z0-9_-]{{11}}AAAAAAAAAA[A-Za-z0-9_-]{{43}}{TOKEN_RIGHT}",
                ("entropy:3.5", "mixed"),
                triggers=(r"AAAAAAAAAA[A-Za-z0-9_-]{43}",),
            ),
        ),
        examples=("sl." + RANDOM * 5,),
        counterexamples=("sl." + "x" * 130, "DropboxIsAAAAAAAmazing"),
    ),
    chat(
        "other-chat-tokens",
        "Frame.io, Webex, Beamer and Typeform tokens",
        pattern=r"(?:fio-u-[A-Za-z0-9=_-]{64}|tfp_[A-Za-z0-9=._-]{43,60})",
        example="tfp_" + RANDOM + RANDOM[:27],
        counterexample="tfp_" + "x" * 59,
        checks=("real", "entropy:3.2", "mixed"),
    ),
)
