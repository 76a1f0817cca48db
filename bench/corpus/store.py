"""Storage of the corpus: a folder with a manifest for each part, the discarded runs and the controls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpus.controls import Conditions
from bench.corpus.effect_checks import RunMeasurement
from bench.corpus.runs import RECIPE_KEY, Run
from bench.corpus.split import PARTS

MANIFEST, DISCARDED, CONTROLS, WORK_FILE = "manifest.jsonl", "discarded.jsonl", "controls.json", "at-work.vnb"


@dataclass(frozen=True)
class LabelledRun:
    """A stored run and its label."""

    path: Path
    label: Mapping[str, object]

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes that were produced, one or two."""
        causes = self.label["causes"]
        assert isinstance(causes, list)
        return tuple(map(str, causes))

    @property
    def accepted_causes(self) -> frozenset[str]:
        """All cause names that are correct."""
        others = self.label.get("accepted", [])
        assert isinstance(others, list)
        return frozenset((*self.causes, *map(str, others)))

    @property
    def has_fault(self) -> bool:
        """Whether the run has a fault, and not only a limit that every machine has."""
        return bool(self.label["is_wrong"])


class CorpusStore:
    """The folder of a corpus. A run belongs to it as soon as its line is in the manifest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.work_path = folder / WORK_FILE

    def known_names(self) -> set[str]:
        """Return the names of all stored and discarded runs."""
        files = {
            str(line["file"]) for part in PARTS for line in read_json_lines(self.folder / part / MANIFEST)
        }
        files |= {str(line["file"]) for line in read_json_lines(self.folder / DISCARDED)}
        return {file.removesuffix(".vnb") for file in files}

    def keep(self, run: Run, measurement: RunMeasurement, control: RunMeasurement) -> None:
        """Move the file at `work_path` into the corpus."""
        folder = self.folder / run.part
        self.work_path.replace(folder / f"{run.name}.vnb")
        _append_line(folder / MANIFEST, {**run.label(), **_verification(measurement, control)})

    def discard(
        self,
        run: Run,
        reason: str,
        measurement: RunMeasurement | None = None,
        control: RunMeasurement | None = None,
    ) -> None:
        """Remove the file at `work_path` and record the reason."""
        self.work_path.unlink(missing_ok=True)
        verification = _verification(measurement, control) if measurement and control else {}
        _append_line(self.folder / DISCARDED, {**run.label(), "why": reason, **verification})

    def remove_outdated(self, declared: Iterable[Run]) -> None:
        """Remove runs whose declaration has changed or no longer exists.

        Labels without a hash of the declaration are compared by their other values.
        """
        labels = {f"{run.name}.vnb": run.label() for run in declared}

        def is_declared(line: Mapping[str, object]) -> bool:
            label = labels.get(str(line["file"]), {})
            stored_label = {RECIPE_KEY: label.get(RECIPE_KEY), **line}
            return bool(label) and all(stored_label.get(name) == value for name, value in label.items())

        for part in PARTS:
            for line in _filter_file(self.folder / part / MANIFEST, is_declared):
                (self.folder / part / str(line["file"])).unlink(missing_ok=True)
        _filter_file(self.folder / DISCARDED, is_declared)

    def forget_discarded(self, runs: Iterable[Run]) -> None:
        """Remove these runs from the discarded ones, so that they are made again."""
        files = {f"{run.name}.vnb" for run in runs}
        _filter_file(self.folder / DISCARDED, lambda line: line["file"] not in files)

    def find_control_speed(self, study: str, now: Conditions) -> float | None:
        """Return the stored speed of a load without a cause if it is still valid."""
        entry = self._read_controls().get(study)
        # Files from before 2026-11-22 contain speeds without their conditions.
        return float(entry["speed"]) if isinstance(entry, dict) and now.allow_reuse(entry) else None

    def save_control_speed(self, study: str, speed: float, measured: Conditions) -> None:
        """Store a control's speed, which replaces an older one of the same study."""
        controls = {**self._read_controls(), study: measured.to_entry(speed)}
        _replace_file(self.folder / CONTROLS, json.dumps(controls, indent=1))

    def _read_controls(self) -> dict[str, Any]:
        path = self.folder / CONTROLS
        return dict(json.loads(path.read_text())) if path.exists() else {}


def read_labelled_runs(folder: Path) -> list[LabelledRun]:
    """Return the runs of a part."""
    return [LabelledRun(folder / str(line["file"]), line) for line in read_json_lines(folder / MANIFEST)]


def read_json_lines(path: Path) -> list[dict[str, object]]:
    """Return the objects of a JSON Lines file without incomplete lines; a missing file has none."""
    objects = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            objects.append(dict(json.loads(line)))
        except ValueError:
            continue
    return objects


def _filter_file(path: Path, keep: Callable[[Mapping[str, object]], bool]) -> list[dict[str, object]]:
    """Remove the lines for which `keep` is false, and return them."""
    lines = read_json_lines(path)
    removed = [line for line in lines if not keep(line)]
    if removed:
        _replace_file(path, "".join(json.dumps(line) + "\n" for line in lines if line not in removed))
    return removed


def _append_line(path: Path, line: Mapping[str, object]) -> None:
    """Append a line; an incomplete last line remains a line of its own."""
    with path.open("a+b") as file:
        if size := file.tell():  # codespell:ignore tell
            file.seek(size - 1)
        is_incomplete = size > 0 and file.read(1) != b"\n"
        file.write(b"\n" * is_incomplete + json.dumps(line).encode() + b"\n")


def _replace_file(path: Path, text: str) -> None:
    """Replace a file atomically: an interrupted write leaves the old file."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def _verification(measurement: RunMeasurement, control: RunMeasurement) -> dict[str, object]:
    return {"verified": {**measurement.to_json(), "control_speed": round(control.speed)}}
