"""The campaigns of a check: each part runs as an ordinary campaign with a results file of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console

from vnetbench.audit.settings import SettingsAudit
from vnetbench.check.parts import Part
from vnetbench.commands.campaign import run_plan
from vnetbench.commands.check_display import CheckProgressBar
from vnetbench.errors import BenchError
from vnetbench.results.records import INTERRUPTED
from vnetbench.study.model import Plan
from vnetbench.study.plan import make_plan


@dataclass
class PartsOutcome:
    """The parts that have a results file, and what happened to the others."""

    paths_by_part: dict[str, Path] = field(default_factory=dict)
    is_interrupted: bool = False
    errors: list[str] = field(default_factory=list)
    """Sentences about parts that could not run or finish."""

    @property
    def is_complete(self) -> bool:
        """Whether every part ran to its end."""
        return not self.is_interrupted and not self.errors


@dataclass(frozen=True)
class PlannedPart:
    """A part with its plan and the path of its results file."""

    part: Part
    plan: Plan
    path: Path


def plan_parts(parts: Sequence[Part], output: Path) -> list[PlannedPart]:
    """Return the parts with their plans; raises BenchError if a results file exists already."""
    planned = [PlannedPart(part, make_plan(part.study, None), part.results_path(output)) for part in parts]
    for each in planned:
        if each.path.exists():
            raise BenchError(
                "this file exists already", where=str(each.path), fix="choose another -o, or move the file"
            )
        if not each.path.parent.is_dir():
            raise BenchError(
                "this folder does not exist",
                where=str(each.path.parent),
                fix="create it, or choose another -o",
            )
    return planned


def run_parts(planned: Sequence[PlannedPart], console: Console, audit: SettingsAudit) -> PartsOutcome:
    """Run all parts, and store the audit with each. An error ends the check, but what is measured stays.

    Raises:
        BenchError: The first part cannot start, so nothing is measured.
    """
    outcome = PartsOutcome()
    progress = CheckProgressBar([(each.part, each.plan) for each in planned])
    for number, each in enumerate(planned):
        try:
            status = run_plan(
                each.part.study,
                each.plan,
                lambda path=each.path: path,  # type: ignore[misc]
                console,
                make_display=progress.display_factory(number),
                audit=audit,
            )
        except BenchError as error:
            if not outcome.paths_by_part and not each.path.exists():
                raise
            outcome.errors.append(f"The part {each.part.name} ended early: {error}")
        except KeyboardInterrupt:
            if not outcome.paths_by_part and not each.path.exists():
                raise
            outcome.is_interrupted = True
        else:
            outcome.is_interrupted = status == INTERRUPTED
        if each.path.exists():
            outcome.paths_by_part[each.part.name] = each.path
        if not outcome.is_complete:
            break
    return outcome


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, so that the clean-up runs between two campaigns too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
