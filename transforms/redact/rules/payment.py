"""Keys of payment and commerce services."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

payment = partial(token, kind=Kind.PAYMENT)

PAYMENT: Final[tuple[Rule, ...]] = (
    Rule(
        id="stripe-key",
        finds="Stripe secret, restricted and webhook keys (publishable keys are no secret)",
        kind=Kind.PAYMENT,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}[sr]k_(?:live|test|prod)_[A-Za-z0-9]{{24,255}}{TOKEN_RIGHT}", ("not_x",)),
            Form(
                rf"{TOKEN_LEFT}[sr]k_(?:live|test|prod)_[A-Za-z0-9]{{10,23}}{TOKEN_RIGHT}",
                ("real", "entropy:2.8", "mixed"),
            ),
            Form(rf"{TOKEN_LEFT}whsec_[A-Za-z0-9+/]{{24,80}}={{0,2}}", ("real", "entropy:3.0")),
        ),
        examples=("sk_live_" + RANDOM[:24], "whsec_" + RANDOM),
        counterexamples=("pk_live_" + RANDOM[:24], "sk_live_short", "task_test_" + RANDOM[:30], "sk_test_" + "x" * 24),
    ),
    payment(
        "square-token",
        "Square access token and OAuth secret",
        pattern=r"(?:sq0(?:atp|csp|idp)-[^\s\"'<>,;]{22,60}|EAAA[A-Za-z0-9_-]{60})",
        example="sq0csp-" + RANDOM + RANDOM[:11],
        counterexample="sq0atp-" + "x" * 22,
        checks=("real", "entropy:3.0"),
    ),
    payment(
        "shopify-token",
        "Shopify tokens and shared secrets",
        pattern=r"shp(?:at|ca|pa|ss|it|ua)_[A-Za-z0-9]{32,64}",
        example="shpat_" + HEX,
        counterexample="shpat_" + "x" * 32,
    ),
    payment(
        "paypal-token",
        "PayPal and Braintree access tokens",
        pattern=r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        example="access_token$sandbox$" + HEX[:16] + "$" + HEX,
        counterexample="access_token$sandbox$x",
    ),
    payment(
        "razorpay-key",
        "Razorpay key",
        pattern=r"rzp_(?:live|test)_[A-Za-z0-9]{14,24}",
        example="rzp_live_" + RANDOM[:14],
        counterexample="rzp_test_" + "x" * 14,
    ),
    payment(
        "flutterwave-key",
        "Flutterwave keys",
        pattern=r"FLW(?:PUBK|SECK)(?:_TEST|_LIVE)?-[a-zA-Z0-9]{12,40}(?:-X)?",
        example="FLWSECK_TEST-" + HEX + "-X",
        counterexample="FLWSECK_TEST-" + "x" * 32,
        checks=("real",),
    ),
    payment(
        "plaid-token",
        "Plaid access token",
        pattern=r"(?:access|public|link)-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        example="access-sandbox-" + "7d5e97ad-6ddb-4200-8b6a-cbad245c1c29",
        counterexample="access-sandbox-x",
    ),
    payment(
        "toss-payments-key",
        "Toss Payments and PortOne secret keys",
        pattern=r"(?:live|test)_(?:g?sk|g?ck|wsk)_[A-Za-z0-9]{16,48}",
        example="live_sk_" + RANDOM[:28],
        counterexample="test_sk_" + "x" * 28,
    ),
    payment(
        "shippo-easypost-token",
        "Shippo, EasyPost, Duffel and Lob keys",
        pattern=r"(?:shippo_(?:live|test)_[a-fA-F0-9]{40}|EZ[AT]K[A-Za-z0-9]{54}|duffel_(?:test|live)"
        r"_[A-Za-z0-9_=-]{40,50}|(?:live|test)_(?:pub_)?[a-f0-9]{31,40})",
        example="shippo_live_" + HEX + HEX[:8],
        counterexample="EZAK" + "x" * 54,
        checks=("real", "entropy:3.0"),
    ),
    payment(
        "gocardless-token",
        "GoCardless access token",
        pattern=r"live_[A-Za-z0-9_=-]{40}",
        example="live_" + RANDOM + RANDOM[:8],
        counterexample="live_" + "x" * 40,
        checks=("real", "entropy:3.5", "mixed"),
    ),
    payment(
        "adyen-key",
        "Adyen API key",
        pattern=r"AQE[a-z][A-Za-z0-9+/=]{60,200}-[A-Za-z0-9+/=]{20,60}-[A-Za-z0-9]{10,24}",
        example="AQEy" + RANDOM * 3 + "-" + RANDOM + "-" + RANDOM[:16],
        counterexample="AQEyhmf",
    ),
)
