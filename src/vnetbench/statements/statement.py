"""Published statements and verdicts about them: supported, refuted or inconclusive."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.published.catalog import find_table_file
from vnetbench.study.model import Level

SUPPORTED, REFUTED, INCONCLUSIVE = "supported", "refuted", "inconclusive"


@dataclass(frozen=True)
class Statement:
    """A single statement of a published report."""

    id: str
    source: str
    subject: str
    condition: str
    statement: str
    reported_value: str
    """The reported value, measured on the report's machine; empty without one."""
    unit: str
    run: str
    """Arguments of the `vnetbench run` that checks the statement; empty if no study can."""
    uncheckable_part: str
    """What that run cannot check; empty if it checks everything."""


@dataclass(frozen=True)
class StatementEvidence:
    """One value that supports or refutes a part of a statement."""

    levels: Mapping[str, Level]
    """Levels of the treatment. For a ratio: the levels that both treatments share."""
    metric: str
    value: Estimate | Ratio
    state: str
    """`supported`, `refuted` or `inconclusive` by this value alone; empty for a value without a claim."""
    differing_base_levels: Mapping[str, Level] | None = None
    """For a ratio: levels of the denominator's treatment that differ."""
    differing_compared_levels: Mapping[str, Level] | None = None
    """For a ratio: levels of the numerator's treatment that differ."""
    note: str = ""
    """A remark about the value."""


@dataclass(frozen=True)
class StatementPart:
    """A part of a statement that can be checked alone."""

    claim: str
    """A clause: `goodput falls beyond 8 streams`."""
    state: str
    """`supported`, `refuted` or `inconclusive`."""
    evidence: tuple[StatementEvidence, ...] = ()
    missing: str = ""
    """The factor, level, metric or number of trials that an inconclusive part lacks, as a noun phrase."""


@dataclass(frozen=True)
class Verdict:
    """The result of checking a statement against one results file."""

    statement: Statement
    path: str
    parts: tuple[StatementPart, ...]
    varying_factors_of_file: tuple[str, ...] = ()
    """Factors that vary between this file's treatments."""
    measured_values_next_to_reported: tuple[StatementEvidence, ...] = ()
    """Values to show next to the reported value, which is from another machine and not checked."""

    @property
    def state(self) -> str:
        """Supported if every part is, refuted if any part is."""
        return supported_if_all([part.state for part in self.parts])


def supported_if_all(states: Sequence[str]) -> str:
    """Return the state of a claim that holds only if all of its parts hold."""
    if REFUTED in states:
        return REFUTED
    return SUPPORTED if states and set(states) == {SUPPORTED} else INCONCLUSIVE


def supported_if_any(states: Sequence[str]) -> str:
    """Return the state of a claim that holds if one of its parts holds."""
    if SUPPORTED in states:
        return SUPPORTED
    return REFUTED if states and set(states) == {REFUTED} else INCONCLUSIVE


@lru_cache
def load_statements() -> tuple[Statement, ...]:
    """Return all statements in the package, in order of publication."""
    runs = tomllib.loads(find_table_file("statements.toml").read_text(encoding="utf-8"))
    rows = csv.DictReader(find_table_file("statements.csv").read_text(encoding="utf-8").splitlines())
    return tuple(_statement_of_row(row, runs[row["id"]]) for row in rows)


def _statement_of_row(row: Mapping[str, str], run_and_limitation: Mapping[str, str]) -> Statement:
    fields = {"reported_value" if column == "value" else column: text for column, text in row.items()}
    run, limitation = (run_and_limitation.get(key, "") for key in ("run", "limitation"))
    return Statement(**fields, run=run, uncheckable_part=limitation)
