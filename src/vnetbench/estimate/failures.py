"""Failed trials of a treatment, grouped by what failed and by what the bench observed right after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vnetbench.failure_kinds import FAILURE_KIND_KEY, PATH_PROBE_RESULT_KEY, TESTBED_REBUILD_REASON_KEY
from vnetbench.results.records import TrialRecord, mapping_or_empty


@dataclass(frozen=True)
class FailedTrials:
    """Attempts of a treatment's trials that failed in the same way."""

    kind: str
    """A failure kind of docs/results-file.md; empty if the file has none."""
    text: str
    """What the first of them reported."""
    count: int = 1
    path_probe: Mapping[str, Any] = field(default_factory=dict)
    """Which packets passed right after the failure; empty without a probe (docs/results-file.md)."""


def failed_attempts(trial: TrialRecord) -> tuple[FailedTrials, ...]:
    """Return the failed attempt that a stored trial is or replaced; empty for an ordinary trial."""
    replaced = mapping_or_empty(trial.effective.get(TESTBED_REBUILD_REASON_KEY))
    fields = trial.effective if trial.failure else replaced
    text = trial.failure or str(replaced.get("failure", ""))
    if not text:
        return ()
    kind = str(fields.get(FAILURE_KIND_KEY, ""))
    return (FailedTrials(kind, text, path_probe=mapping_or_empty(fields.get(PATH_PROBE_RESULT_KEY))),)


def group_failed_attempts(attempts: Iterable[FailedTrials]) -> tuple[FailedTrials, ...]:
    """Join attempts of the same kind whose probes agree, the most frequent first."""
    groups: dict[tuple[object, ...], FailedTrials] = {}
    for each in attempts:
        probe = each.path_probe
        key = (each.kind, probe.get("small_passed"), probe.get("large_passed"))
        known = groups.get(key)
        groups[key] = replace(known, count=known.count + each.count) if known else each
    return tuple(sorted(groups.values(), key=lambda group: -group.count))
