"""What a published statement is, and what can be said of it: shown, refuted, or why neither can be told."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.published.catalog import data_file
from vnetbench.study.model import Level

SHOWN, REFUTED, CANNOT_TELL = "shown", "refuted", "cannot tell"


@dataclass(frozen=True)
class Statement:
    """A single statement of a published report, in its own words."""

    id: str
    source: str
    subject: str
    condition: str
    statement: str
    value: str
    """The figure that goes with it, of the machine of the report; empty without one."""
    unit: str
    run: str
    """What `vnetbench run` is to be given to tell; empty where no study could."""
    limitation: str
    """What even that could not tell, and why; empty where it could tell all."""


@dataclass(frozen=True)
class StatementEvidence:
    """One figure that a part of a statement rests on."""

    levels: Mapping[str, Level]
    """Of the treatment; of a ratio what both of its treatments have in common."""
    metric: str
    value: Estimate | Ratio
    state: str
    """`shown`, `refuted` or `cannot tell` of this figure by itself; empty where it is only told beside."""
    base: Mapping[str, Level] | None = None
    """Of a ratio: the levels that its two treatments do not share, of the one that is divided by,"""
    level: Mapping[str, Level] | None = None
    """and of the other one."""
    note: str = ""
    """What else is to be known of it, in words."""


@dataclass(frozen=True)
class StatementPart:
    """A part of a statement that can be checked by itself."""

    claim: str
    """What is to be seen, as a clause: `it falls beyond 8 streams`."""
    state: str
    """`shown`, `refuted` or `cannot tell`."""
    evidence: tuple[StatementEvidence, ...] = ()
    missing: str = ""
    """Why it cannot be told: what factor, level, metric or number of trials is missing."""


@dataclass(frozen=True)
class Verdict:
    """What one results file says of a statement."""

    statement: Statement
    path: str
    parts: tuple[StatementPart, ...]
    varying: tuple[str, ...] = ()
    """The factors that tell this file's treatments apart."""
    reported_values: tuple[StatementEvidence, ...] = ()
    """Figures here beside the number of the report, which was of another machine and is not checked."""

    @property
    def state(self) -> str:
        """Shown where every part is, refuted where any is."""
        return combine_all([part.state for part in self.parts])


def combine_all(states: Sequence[str]) -> str:
    """Of a claim that holds only where all of these do."""
    if REFUTED in states:
        return REFUTED
    return SHOWN if states and set(states) == {SHOWN} else CANNOT_TELL


def combine_any(states: Sequence[str]) -> str:
    """Of a claim that holds where one of these does."""
    if SHOWN in states:
        return SHOWN
    return REFUTED if states and set(states) == {REFUTED} else CANNOT_TELL


@lru_cache
def load_statements() -> tuple[Statement, ...]:
    """All that ship with the product, in the order in which they were published."""
    runs = tomllib.loads(data_file("statements.toml").read_text(encoding="utf-8"))
    rows = csv.DictReader(data_file("statements.csv").read_text(encoding="utf-8").splitlines())
    return tuple(
        Statement(**row, run=runs[row["id"]].get("run", ""), limitation=runs[row["id"]].get("short_of", ""))
        for row in rows
    )
