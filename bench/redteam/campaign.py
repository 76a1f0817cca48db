"""A campaign: runs of a plan with their controls, until a time limit."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.redteam import groups, runner
from bench.redteam.causes.controls import make_control
from bench.redteam.corpus import CAUSES
from bench.redteam.effects import LOSSES
from bench.redteam.model import ORDERED_PARTS, Label, Run, Shape
from bench.redteam.plan import group_by_setting, make_ordered_rounds, make_rounds

Report = Callable[[str], None]


def available_shapes(text: str | None) -> list[Shape]:
    """Return the requested shapes, or all that this machine has: 1, 2 and 4 CPUs, quiet and busy."""
    most = len(os.sched_getaffinity(0))
    if text:
        shapes = [Shape.parse(word.strip()) for word in text.split(",")]
        if too_large := [shape.id for shape in shapes if shape.cpus > most]:
            raise ValueError(
                f"this machine has only {most} CPUs: remove {', '.join(too_large)} from --shapes"
            )
        return shapes
    counts = [count for count in (1, 2, 4) if count <= most]
    return [Shape(count, is_busy) for is_busy in (False, True) for count in counts]


def make_blocks(
    part: str, shapes: Sequence[Shape], seed: int, only: Sequence[str], lab: str
) -> list[list[Run]]:
    """Return the blocks of runs of a part, in their order."""
    causes = [
        cause for cause in CAUSES
        if cause.part == part and cause.lab == lab and (not only or cause.id in only)
    ]  # fmt: skip
    is_ordered = part in ORDERED_PARTS
    rounds = make_ordered_rounds(causes, shapes) if is_ordered else make_rounds(causes, shapes, seed)
    return [block for runs in rounds for block in group_by_setting(runs)]


def strongest_blocks(lab: str, shape: Shape, only: Sequence[str], part: str | None = None) -> list[list[Run]]:
    """Return every cause once, or those of a part, at its strongest intensity, with its first load."""
    runs = [
        Run(cause, len(cause.intensities) - 1, shape, cause.loads[0], cause.vswitches[0])
        for cause in CAUSES
        if not cause.is_control and cause.lab == lab and shape.cpus >= cause.min_cpus
        and (not only or cause.id in only) and part in (None, cause.part)
    ]  # fmt: skip
    return group_by_setting(runs)


class Campaign:
    """Runs with their files in a folder."""

    def __init__(
        self,
        store: Path,
        part: str,
        report: Report,
        deadline: float,
        trials: int = runner.TRIALS,
        diagnose: bool = False,
    ) -> None:
        self._folder = store / part
        self._folder.mkdir(parents=True, exist_ok=True)
        self._report = report
        self._deadline = deadline
        self._trials = trials
        self._diagnose = diagnose

    def run_block(self, block: Sequence[Run]) -> bool:
        """Run a block and its control. Returns False after the time limit."""
        left = [run for run in block if not (self._folder / f"{file_name(run)}.json").exists()]
        if not left:
            return True
        cpus = sorted(os.sched_getaffinity(0))[: block[0].shape.cpus]
        with groups.confined(cpus) as accounting:
            control = None if left[0].cause.is_control else self._run_control(left[0], cpus, accounting)
            for run in left:
                if time.monotonic() > self._deadline:
                    return False
                self._perform(run, file_name(run), cpus, accounting, control)
        return time.monotonic() < self._deadline

    def _run_control(self, run: Run, cpus: Sequence[int], accounting: Path | None) -> Path | None:
        """Run the load without its cause. It counts as a control of the part, too."""
        cause = make_control(run.load, (run.vswitch,))
        number = len(list(self._folder.glob("control-of-*.json")))
        control = replace(
            run, cause=replace(cause, lab=run.cause.lab, factors=run.cause.factors), intensity=0
        )
        name = f"control-of-{number:04d}-{hashlib.sha256(control.id.encode()).hexdigest()[:6]}"
        label = self._perform(control, name, cpus, accounting, None)
        return self._folder / label.results if label.effect != "failed" and not label.error else None

    def _perform(
        self, run: Run, name: str, cpus: Sequence[int], accounting: Path | None, control: Path | None
    ) -> Label:
        label = runner.perform(run, self._folder, name, cpus, accounting, self._trials, self._diagnose)
        runner.judge(label, self._folder, control)
        label.part = self._folder.name
        runner.save(label, self._folder / f"{name}.json")
        self._report(describe(label))
        return label


def file_name(run: Run) -> str:
    """Return a file name that does not show the cause."""
    return "run-" + hashlib.sha256(run.id.encode()).hexdigest()[:12]


def describe(label: Label) -> str:
    """Return one line about a finished run."""
    changes = ", ".join(
        f"{name} {value:+.2f} points" if name in LOSSES else f"{name} x{value:.2f}"
        for name, value in label.changes.items()
    )
    name = label.cause if label.is_control else f"{label.cause} {label.value}"
    rest = label.error or changes
    return f"{label.shape:7} {name:34} {label.load:34} {label.vswitch:11} {label.effect:12} {rest}"


def read_labels(folder: Path) -> list[Label]:
    """Return the labels of a folder."""
    labels = []
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        record["accepted"] = tuple(record["accepted"])
        labels.append(Label(**record))
    return labels
