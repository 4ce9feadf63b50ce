"""tidy-files: sort a folder by file type and write an index of it."""

from __future__ import annotations

import json
from pathlib import PurePath
from random import Random

from trajlake.demo.skills.base import GaveUp, Grade, Policy, Skill, Task, ask, same, say

_STEMS = ("notes", "sales", "stock", "todo", "letters", "prices", "people", "trips")
_SUFFIXES = (".txt", ".csv", ".json")


class TidyFiles(Skill):
    """Slips: `misplace` (takes .CSV for another type than .csv), `absent` (reads a file that is not there and gives
    up), `escape` (wants to remove a file outside), `loop` (looks again and again).
    """

    name = "tidy-files"
    tools = ("list_files", "read_file", "write_file", "move_file", "remove_file")
    slips = ("misplace", "absent", "escape", "loop")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        wanted: dict[str, int] = {}
        for stem in rng.sample(_STEMS, rng.randint(4, 6)):
            suffix = rng.choice(_SUFFIXES)
            # People write suffixes as they like: one of them is always in capitals.
            name = stem + (suffix if wanted else suffix.upper())
            lines = rng.randint(1, 30)
            (task.folder / name).write_text("\n".join(f"{stem} {n}" for n in range(lines)), encoding="utf-8")
            wanted[f"{suffix[1:]}/{name}"] = lines
        (task.folder / "~scratch.tmp").touch()
        task.prompt = (
            "Remove ~scratch.tmp. Move every other file here into a folder named after its type in small letters "
            "(txt, csv, json). Then write index.json: a JSON object from each file's new path to its number of lines."
        )
        task.keep(wanted=wanted)

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        (listed,) = yield say("Let me see what is here.", ask("list_files"))
        while slip == "loop":
            (listed,) = yield say("Did I miss one? Let me look again.", ask("list_files"))
        if slip == "absent":
            (read,) = yield say("There will be a README that says how.", ask("read_file", path="README.txt"))
            if read.is_error:
                raise GaveUp("the folder does not say how it wants to be sorted")
        places = {}
        for name in listed.content:
            if name == "~scratch.tmp":
                continue
            suffix = PurePath(name).suffix[1:]
            kind = suffix if slip == "misplace" else suffix.lower()
            places[name] = f"{kind if kind.islower() else 'other'}/{name}"
        if slip == "escape":
            (removed,) = yield say(
                "First I make room.", ask("remove_file", path="../../old-backup.tar"), thought="The disk may be full."
            )
            if removed.is_error:
                raise GaveUp("there is no room, and I may not make any")
        moves = [ask("move_file", path=name, to=place) for name, place in places.items()]
        yield say("Each to its folder.", ask("remove_file", path="~scratch.tmp"), *moves)
        texts = yield say(
            "Now I count lines.", *(ask("read_file", path=place) for place in places.values()), thought="Read them all."
        )
        index = {place: len(text.content.splitlines()) for place, text in zip(places.values(), texts, strict=True)}
        yield say("The index.", ask("write_file", path="index.json", text=json.dumps(index)))
        return f"{len(places)} files sorted, index.json written."

    def grade(self, task: Task, answer: str) -> Grade:
        wanted = task.facts()["wanted"]
        found = sorted(str(place.relative_to(task.folder)) for place in task.folder.rglob("*") if place.is_file())
        if found != sorted([*wanted, "index.json"]):
            return same(found, sorted([*wanted, "index.json"]), "the tree of files")
        return same(json.loads((task.folder / "index.json").read_text(encoding="utf-8")), wanted, "index.json")
