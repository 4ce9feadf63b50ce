"""Keys of model providers and of the tools around models."""

from __future__ import annotations

from functools import partial
from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT, TOKEN_RIGHT, token

model = partial(token, kind=Kind.MODEL)

MODELS: Final[tuple[Rule, ...]] = (
    Rule(
        id="anthropic-key",
        finds="Anthropic API, admin and OAuth keys",
        kind=Kind.MODEL,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                rf"{TOKEN_LEFT}sk-ant-[a-z]{{2,8}}\d{{2}}-[A-Za-z0-9_-]{{93}}AA(?![A-Za-z0-9_-])", ("real", "unordered")
            ),
            Form(rf"{TOKEN_LEFT}sk-ant-(?:[a-z]{{2,8}}\d{{2}}-)?[A-Za-z0-9_-]{{16,}}", ("real", "unordered")),
        ),
        examples=("sk-ant-api03-" + RANDOM * 2 + RANDOM[:29] + "AA", "sk-ant-api03-" + RANDOM),
        counterexamples=("sk-ant-api03-" + "x" * 95, "sk-ant-"),
    ),
    Rule(
        id="openai-key",
        finds="OpenAI keys: project, service account, admin and user, and keys of services that copied the shape",
        kind=Kind.MODEL,
        severity=Severity.CRITICAL,
        forms=(
            Form(rf"{TOKEN_LEFT}sk-(?:proj|svcacct|service|admin|None|or-v1|lf|user)-[A-Za-z0-9_-]{{20,}}", ("real",)),
            Form(rf"{TOKEN_LEFT}sk-[A-Za-z0-9_-]{{0,140}}T3BlbkFJ[A-Za-z0-9_-]{{10,}}"),
            Form(rf"{TOKEN_LEFT}sk-[A-Za-z0-9]{{20,100}}{TOKEN_RIGHT}", ("real", "no_word")),
            Form(rf"{TOKEN_LEFT}sess-[A-Za-z0-9]{{40}}{TOKEN_RIGHT}", ("real", "entropy:3.5", "mixed")),
        ),
        examples=("sk-proj-" + RANDOM * 2, "sk-" + RANDOM[:20] + "T3Blbk" + "FJ" + RANDOM[:20], "sk-or-v1-" + HEX * 2),
        counterexamples=("sk-" + "x" * 48, "sk-learn-is-a-common-library-name", "task-proj-" + RANDOM),
    ),
    model(
        "huggingface-token",
        "Hugging Face user and organisation tokens",
        pattern=r"(?:hf|api_org)_[A-Za-z0-9]{34,40}",
        example="hf_" + "aZkQmXpLvBnRtYwCsDfGhJqWeEuIoPaSdF",
        counterexample="hf_" + "x" * 34,
        checks=("real", "entropy:3.0", "mixed_case"),
    ),
    model(
        "groq-key",
        "Groq key",
        pattern=r"gsk_[A-Za-z0-9]{40,60}",
        example="gsk_" + RANDOM + RANDOM[:20],
        counterexample="gsk_" + "x" * 52,
    ),
    model(
        "xai-key",
        "xAI key",
        pattern=r"xai-[A-Za-z0-9]{60,90}",
        example="xai-" + RANDOM * 2 + RANDOM[:16],
        counterexample="xai-" + "x" * 80,
    ),
    model(
        "perplexity-key",
        "Perplexity key",
        pattern=r"pplx-[A-Za-z0-9]{40,60}'?",
        example="pplx-" + RANDOM + RANDOM[:16],
        counterexample="pplx-" + "x" * 48,
    ),
    model(
        "replicate-key",
        "Replicate key",
        pattern=r"r8_[A-Za-z0-9]{37,40}",
        example="r8_" + RANDOM + "Ab3dE",
        counterexample="r8_" + "x" * 37,
    ),
    model(
        "nvidia-key",
        "NVIDIA API key",
        pattern=r"nvapi-[A-Za-z0-9_-]{64}(?![A-Za-z0-9_-])",
        example="nvapi-" + RANDOM * 2,
        counterexample="nvapi-" + "x" * 64,
    ),
    model(
        "langsmith-key",
        "LangSmith and Langfuse keys",
        pattern=r"(?:lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|ls__[a-f0-9]{32}|(?:sk|pk)-lf-[0-9a-f]{8}(?:-[0-9a-f]{4})"
        r"{3}-[0-9a-f]{12})",
        example="lsv2_pt_" + HEX + "_" + HEX[:10],
        counterexample="lsv2_pt_" + "x" * 32 + "_" + "x" * 10,
    ),
    model(
        "model-tool-key",
        "Keys of vector stores, search, speech and hosting services around models",
        pattern=r"(?:pcsk_[A-Za-z0-9_]{50,80}|tvly-(?:dev-|prod-)?[A-Za-z0-9-]{24,48}|fc-[a-f0-9]{32}"
        r"|jina_[a-f0-9]{32}[A-Za-z0-9_-]{16,}|e2b_[a-f0-9]{40}"
        r"|csk-[a-z0-9]{40,56}|tgp_v1_[A-Za-z0-9_-]{40,50}|fw_[A-Za-z0-9]{22,40}"
        r"|up_[A-Za-z0-9]{28,32}|wandb_v1_[A-Za-z0-9_]{70,90}|esecret_[a-z0-9]{24,50}"
        r"|pa-[A-Za-z0-9_-]{43}|sk_[a-f0-9]{48}|ak-[A-Za-z0-9]{22}|as-[A-Za-z0-9]{22})",
        example="tvly-" + RANDOM,
        counterexample="tvly-" + "x" * 32,
        checks=("real", "entropy:3.3", "mixed"),
        severity=Severity.HIGH,
        triggers=(
            r"pcsk_[A-Za-z0-9_]{16}",
            r"tvly-[A-Za-z0-9-]{16}",
            r"fc-[a-f0-9]{20}",
            r"jina_[a-f0-9]{16}",
            r"e2b_[a-f0-9]{16}",
            r"csk-[a-z0-9]{16}",
            r"tgp_v1_[A-Za-z0-9_-]{16}",
            r"fw_[A-Za-z0-9]{16}",
            r"up_[A-Za-z0-9]{20}",
            r"wandb_v1_[A-Za-z0-9_]{16}",
            r"esecret_[a-z0-9]{16}",
            r"pa-[A-Za-z0-9_-]{32}",
            r"sk_[a-f0-9]{20}",
            r"ak-[A-Za-z0-9]{20}",
            r"as-[A-Za-z0-9]{20}",
        ),
    ),
)
