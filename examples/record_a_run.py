"""Record a run of an agent: one decision, two tool calls, one of which fails, and a grader's score.

Needs a Kafka; `trajlake broker start` gives one. Then `python examples/record_a_run.py [bootstrap servers]`. Without
a Kafka it works too: the events wait in the spool, and the next program that records with this spool sends them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trajlake import Recorder


def main(bootstrap_servers: str | None = None, spool: Path | None = None) -> int:
    """Record one run. Returns how many of its events Kafka does not have yet."""
    recorder = Recorder(tenant="acme", bootstrap_servers=bootstrap_servers, source="urn:agent:example", spool=spool)
    with recorder.run(skill="list-files", skill_version="1", model="scripted", task_id="readme") as run:
        with run.step() as step:
            # In a real agent this is the model's answer; `tool_calls` is taken in OpenAI's and Anthropic's forms too.
            step.respond(
                message="I look for the readme.",
                tool_calls=[
                    {"tool_call_id": "c1", "function_name": "shell", "arguments": {"command": "ls"}},
                    {"tool_call_id": "c2", "function_name": "read", "arguments": {"path": "no-such-file"}},
                ],
                usage={"input_tokens": 212, "output_tokens": 38},
            )
            with step.tool("shell", {"command": "ls"}) as call:
                done = subprocess.run(["ls"], capture_output=True, text=True, check=False)
                call.result(done.stdout, exit_code=done.returncode)
            try:
                with step.tool("read", {"path": "no-such-file"}) as call:
                    call.result(Path("no-such-file").read_text())
            except FileNotFoundError:
                # Recorded as the call's error; what to do about it is the agent's business.
                pass
        run.reward("found-readme", float("README" in done.stdout), annotator_kind="code", annotator_id="example")
        run.end(success=True, output="done")
    left = recorder.close(timeout=10)
    print(f"run {run.id}: {recorder.counts.delivered} events delivered, {left} waiting in the spool")
    return left


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
