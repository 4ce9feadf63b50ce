"""The `trajlake` command.

Stage: outermost. Reads: the command line and the settings. Writes: the terminal.
May import: every other package; a command's module is imported only when that command runs, so that `trajlake --help`
answers at once. A module takes part by defining `register(app: typer.Typer) -> None`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

from trajlake import __version__
from trajlake.cli.output import fail, one_line
from trajlake.cli.usage import USAGE_ERROR, name_plainly, refuse

WRONG_SETTING = 2
INTERRUPTED = 128 + 2
"""Exit code after Ctrl-C, as shells report a process that SIGINT ended."""


class Entry(NamedTuple):
    """Where a command lives: the module below `trajlake.cli` and its line in the help."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("demo", "Run the whole flow here once, with agents, to the proof."),
    "up": Entry("up", "Run the whole system on this machine, and keep it running."),
    "broker": Entry("broker", "Start, stop and look at the embedded Apache Kafka."),
    "land": Entry("land", "Land events from Kafka in the tables, exactly once."),
    "roll": Entry("roll", "Keep rolling statistics of skills, and advise on levers."),
    "skills": Entry("skills", "Show the current statistics of skills."),
    "import": Entry("imports", "Publish the events of runs that are already in files."),
    "query": Entry("query", "Ask the tables in SQL, at any version."),
    "tables": Entry("tables", "List tables with their versions, rows and lag."),
    "curate": Entry("curate", "Judge closed runs, publish what passes to trainers."),
    "publications": Entry("publications", "List publications, and show the report of one."),
    "runs": Entry("runs", "List closed runs with their outcome and verdict."),
    "show": Entry("show", "Show one run: steps, rewards, gaps, verdicts."),
    "export": Entry("export", "Write a training set of what was published."),
    "manifest": Entry("manifest", "Tell whether an export may still be used."),
    "payload": Entry("payload", "Print or save content that a row refers to."),
    "verify": Entry("verify", "Prove from the tables that nothing is lost or doubled."),
    "attention": Entry("attention", "Which skills need attention, and why."),
    "dashboard": Entry("dashboard", "Serve the read-only pages over the lake."),
    "maintain": Entry("maintain", "Compact, checkpoint and clean the tables."),
    "decisions": Entry("decisions", "Advice on levers: list, show evidence, decide again."),
    "levers": Entry("levers", "The levers that can be advised; a team's tier file."),
    "retro": Entry("retro", "The weekly review of skills, as Markdown and HTML."),
    "policy": Entry("policy", "Check policies, explain what they decide, compare two sets."),
    "forget": Entry("forget", "Erase a data subject or a run everywhere, and prove it."),
    "quarantine": Entry("quarantine", "List, show, release and purge what was not let in."),
    "reclassify": Entry("reclassify", "Classify closed runs again by the failure rules of now."),
    "replay": Entry("replay", "Rebuild derived tables from the ledger of events."),
    "redact": Entry("redact", "Take secrets and people out of JSON lines, as landing does."),
    "expectations": Entry("expectations", "Quality rules: list them, check a suite."),
    "contract": Entry("contract", "Print the contract of events and tables as JSON Schema."),
    "doctor": Entry("doctor", "Find what is wrong here, and say the next step for each."),
    "config": Entry("config", "Show every setting with its value and where it comes from."),
}


class LazyGroup(TyperGroup):
    """A group that knows its commands' names and help, and imports a command's module only to run it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return (name, load(name), rest) if name in COMMANDS else (name, command, rest)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*args, **extra)
        except USAGE_ERROR as error:
            refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            refuse(error)
        except KeyboardInterrupt:
            sys.stderr.write("\ntrajlake: stopped\n")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Here, since the library above would make exit code 1 of it.
            _reader_gone()


def load(name: str) -> Any:
    """Import the module of one command and return that command."""
    loaded = typer.Typer(cls=TyperGroup, rich_markup_mode=None)
    import_module(f"trajlake.cli.{COMMANDS[name].module}").register(loaded)
    command = typer.main.get_group(loaded).commands.get(name)
    if command is None:
        raise LookupError(f"trajlake.cli.{COMMANDS[name].module} registers no command named {name!r}")
    name_plainly(command)
    return command


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"trajlake {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """Make the application: one stub a command, replaced by the real one when it is called."""
    app = typer.Typer(
        cls=LazyGroup,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(help="Step trajectories that can be trusted, from the events that AI agents emit.")
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
        ] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")] = False,
    ) -> None:
        if debug:
            # In the environment, so that workers started as processes of their own follow it too.
            os.environ["TRAJLAKE_LOG_LEVEL"] = "debug"
            os.environ["TRAJLAKE_DEBUG"] = "1"

    for name, entry in COMMANDS.items():
        if find_spec(f"trajlake.cli.{entry.module}") is not None:
            app.command(name, help=entry.help)(_stub)
    return app


def _stub() -> None:
    raise NotImplementedError("replaced by the real command when it is resolved")


def _reader_gone() -> NoReturn:
    """End quietly: the reader (`| head`) has left, and nothing more may be written at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0) from None


def main() -> None:
    """Run the command line; any error ends in one line on stderr and exit code 1, a wrong setting with 2."""
    try:
        # Its own name, however it was called: completion is kept under it.
        try:
            build()(prog_name="trajlake")
        finally:
            # What is still in the buffer may find nobody either, and must not be met at exit.
            sys.stdout.flush()
    except BrokenPipeError:
        _reader_gone()
    except Exception as error:
        if os.environ.get("TRAJLAKE_DEBUG"):
            raise
        ours = type(error).__module__.startswith("trajlake.")
        code = WRONG_SETTING if type(error).__name__ == "SettingError" and ours else 1
        hint = "" if ours else " (trajlake --debug shows where)"
        fail(f"{one_line(error)}{hint}", code)
