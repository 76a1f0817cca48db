"""Where the corpus lies: a folder for each part with its manifest, what was discarded, and the controls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpus.controls import Conditions
from bench.corpus.proof import Seen
from bench.corpus.runs import RECIPE, Run
from bench.corpus.split import PARTS

MANIFEST, DISCARDED, CONTROLS, AT_WORK = "manifest.jsonl", "discarded.jsonl", "controls.json", "at-work.vnb"


@dataclass(frozen=True)
class Labelled:
    """A run that is there, and what was put into it."""

    path: Path
    label: Mapping[str, object]

    @property
    def causes(self) -> tuple[str, ...]:
        """What was put there: one cause, or two."""
        causes = self.label["causes"]
        assert isinstance(causes, list)
        return tuple(map(str, causes))

    @property
    def accepted(self) -> frozenset[str]:
        """All names that are right."""
        others = self.label.get("accepted", [])
        assert isinstance(others, list)
        return frozenset((*self.causes, *map(str, others)))

    @property
    def is_wrong(self) -> bool:
        """Whether something is wrong in it, beyond the limits that every machine has."""
        return bool(self.label["is_wrong"])


class Store:
    """The folder of a corpus. What is in it stays; a run is in it once its line is in the manifest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.at_work = folder / AT_WORK

    def known(self) -> set[str]:
        """The names of all runs that are there or were discarded."""
        files = {str(line["file"]) for part in PARTS for line in lines(self.folder / part / MANIFEST)}
        files |= {str(line["file"]) for line in lines(self.folder / DISCARDED)}
        return {file.removesuffix(".vnb") for file in files}

    def keep(self, run: Run, found: Seen, control: Seen) -> None:
        """Take in the run at work."""
        folder = self.folder / run.part
        self.at_work.replace(folder / f"{run.name}.vnb")
        _append(folder / MANIFEST, {**run.label(), **_verified(found, control)})

    def discard(self, run: Run, why: str, found: Seen | None = None, control: Seen | None = None) -> None:
        """Throw the run at work away, and write down why."""
        self.at_work.unlink(missing_ok=True)
        verified = _verified(found, control) if found and control else {}
        _append(self.folder / DISCARDED, {**run.label(), "why": why, **verified})

    def drop_others(self, declared: Iterable[Run]) -> None:
        """Remove what is not declared, or was declared otherwise when it was made: it is another run.

        Of what does not tell how it was made the rest of its label counts.
        """
        labels = {f"{run.name}.vnb": run.label() for run in declared}

        def is_declared(line: Mapping[str, object]) -> bool:
            label = labels.get(str(line["file"]), {})
            told = {RECIPE: label.get(RECIPE), **line}
            return bool(label) and all(told.get(name) == value for name, value in label.items())

        for part in PARTS:
            for line in _keep_only(self.folder / part / MANIFEST, is_declared):
                (self.folder / part / str(line["file"])).unlink(missing_ok=True)
        _keep_only(self.folder / DISCARDED, is_declared)

    def forget_discarded(self, runs: Iterable[Run]) -> None:
        """Let those of these runs be tried again that were discarded."""
        files = {f"{run.name}.vnb" for run in runs}
        _keep_only(self.folder / DISCARDED, lambda line: line["file"] not in files)

    def control(self, study: str, now: Conditions) -> float | None:
        """The speed of a load without a cause, where one is kept that would come out alike now."""
        kept = self._controls().get(study)
        # Files of before 2026-11-22 have speeds alone, of nobody knows when.
        return float(kept["speed"]) if isinstance(kept, dict) and now.hold_of(kept) else None

    def keep_control(self, study: str, speed: float, measured: Conditions) -> None:
        """Add one, in place of what is kept of that study."""
        controls = {**self._controls(), study: measured.entry(speed)}
        _put(self.folder / CONTROLS, json.dumps(controls, indent=1))

    def _controls(self) -> dict[str, Any]:
        path = self.folder / CONTROLS
        return dict(json.loads(path.read_text())) if path.exists() else {}


def labelled(folder: Path) -> list[Labelled]:
    """The runs of a part."""
    return [Labelled(folder / str(line["file"]), line) for line in lines(folder / MANIFEST)]


def lines(path: Path) -> list[dict[str, object]]:
    """A file of JSON, an object a line; nothing where there is none. One that was cut short is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(dict(json.loads(line)))
        except ValueError:
            continue
    return found


def _keep_only(path: Path, keep: Callable[[Mapping[str, object]], bool]) -> list[dict[str, object]]:
    """Leave only these lines in a file; returns those that went."""
    found = lines(path)
    gone = [line for line in found if not keep(line)]
    if gone:
        _put(path, "".join(json.dumps(line) + "\n" for line in found if line not in gone))
    return gone


def _append(path: Path, line: Mapping[str, object]) -> None:
    """A line more; one that was cut short before it stays by itself."""
    with path.open("a+b") as file:
        if size := file.tell():
            file.seek(size - 1)
        is_cut = size > 0 and file.read(1) != b"\n"
        file.write(b"\n" * is_cut + json.dumps(line).encode() + b"\n")


def _put(path: Path, text: str) -> None:
    """Write a file anew, so that who is ended in the midst of it leaves the old one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def _verified(found: Seen, control: Seen) -> dict[str, object]:
    return {"verified": {**found.as_json(), "control_speed": round(control.speed)}}
