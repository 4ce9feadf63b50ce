"""No token is trained on twice: forks, copies in the middle, compactions and sub-agents, in every format with a loss.

Every decision says a word of its own. Sessions grow at random, others go on from a copy of them, some lose their
earlier turns to a summary, some hand work to sub-agents and read the answer. Then each word is looked for in what each
format trains on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.curate.lab import Lab, with_parent
from tests.exporters.test_exports import made
from tests.landkit.events import Sent, event

FORKS, ROOTS = 6, 4


@dataclass
class Session:
    """A run that is being told. `said`: its own decisions and those that it copied, in order."""

    name: str
    parent: str | None = None
    sent: list[Sent] = field(default_factory=list)
    said: list[tuple[str, list[int]]] = field(default_factory=list)
    own: list[str] = field(default_factory=list)

    def tell(self, kind: str, **data: Any) -> None:
        one = event(kind, self.name, len(self.sent) + 1, data)
        self.sent.append(with_parent(one, self.parent) if self.parent else one)

    def decides(self, word: str, ids: list[int], *, copied: bool = False, **more: Any) -> None:
        tokens = {"prompt_token_ids": [1, 2], "completion_token_ids": ids, "logprobs": [-0.5] * len(ids)}
        self.tell("model.responded", message=word, is_copied_context=copied, **tokens, **more)
        self.said.append((word, ids))
        if not copied:
            self.own.append(word)

    def ends(self) -> None:
        self.tell("reward.assigned", score=1.0, annotator_kind="code", reward_id="r")
        self.tell("run.ended", end_state="completed", success=True)


def forest(random: Random) -> tuple[list[Session], dict[int, str]]:
    """Sessions, and the word that each trained token belongs to."""
    sessions: list[Session] = []
    owners: dict[int, str] = {}

    def speak(session: Session, **more: Any) -> None:
        word = f"{session.name}-says-{len(session.said)}"
        ids = list(range(1000 + 3 * len(owners), 1003 + 3 * len(owners)))
        owners.update(dict.fromkeys(ids, word))
        session.decides(word, ids, **more)

    def go_on(session: Session) -> None:
        speak(session)
        for _ in range(random.randint(1, 4)):
            act = random.random()
            if act < 0.2:
                session.tell("context.compacted", summary=f"{session.name} so far")
                if session.said:
                    # The harness gives the last turn again, as context and not as a decision.
                    said = {"role": "assistant", "content": session.said[-1][0]}
                    speak(session, input_messages=[said])
            elif act < 0.4:
                call = f"{session.name}-{len(session.sent)}"
                speak(session, tool_calls=[{"tool_call_id": call, "function_name": "task", "arguments": "{}"}])
                child = Session(f"{call}-child", session.name)
                sessions.append(child)
                child.tell("run.started", input="do it", spawned_by_tool_call_id=call)
                speak(child)
                child.ends()
                session.tell("tool.returned", tool_call_id=call, content=child.said[-1][0])
            elif act < 0.55 and session.said:
                # It is resumed, and the harness writes down once more what was said before.
                for word, ids in session.said[-2:]:
                    session.decides(word, ids, copied=True)
                speak(session)
            else:
                speak(session)

    for number in range(ROOTS + FORKS):
        older = random.choice(sessions) if number >= ROOTS else None
        session = Session(f"s{number}")
        sessions.append(session)
        forked = {} if older is None else {"forked_from_id": older.name}
        session.tell("run.started", input="task", tokenizer_id="tok", **forked)
        for word, ids in () if older is None else older.said:
            session.decides(word, ids, copied=True)
        go_on(session)
        session.ends()
    return sessions, owners


def words_trained(name: str, rows: list[dict[str, Any]], owners: dict[int, str]) -> Counter[str]:
    """How often each word carries loss in the rows of a format."""
    found: Counter[str] = Counter()
    for row in rows:
        if name == "areal":
            ids = [i for i, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask]
            found.update({owners[i] for i in ids})
        elif name == "steps":
            found.update([row["action"].split('"message":"')[1].split('"')[0]] if row["trains"] else [])
        else:
            talk = row["completion"] if name == "trl-sft" else row["messages"]
            found.update(m["content"] for m in talk if m["role"] == "assistant" and m.get("weight", 1))
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_decision_carries_loss_once_and_a_copy_of_it_never(lab: Lab, tmp_path: Path, seed: int) -> None:
    sessions, owners = forest(Random(seed))
    lab.land([one for session in sessions for one in session.sent])
    lab.curate()
    assert set(lab.current()) == {session.name for session in sessions}
    once = Counter(word for session in sessions for word in session.own)
    assert set(once.values()) == {1}
    copies = sum(len(session.said) - len(session.own) for session in sessions)
    assert copies > 5
    for name in ("trl-sft", "chat", "areal", "steps"):
        rows, _ = made(lab, tmp_path / name, name)
        assert words_trained(name, rows, owners) == once, name
    # Whole conversations cannot mark a part of them, so those with copies are left out, and no word is in two.
    rows, manifest = made(lab, tmp_path / "whole", "trl-sft-messages")
    assert set(words_trained("trl-sft-messages", rows, owners).values()) == {1}
    assert manifest.left_out["copied_context"] > 0
