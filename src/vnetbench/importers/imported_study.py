"""The study of an import: what runs tell of their factors, written as if it had been asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import FACTORS, format_level
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import DECIDING_METRICS

LONGEST_TITLE = 120


def collect_factors(runs: Iterable[Mapping[str, Level]]) -> tuple[FactorLevels, ...]:
    """The factors that any of the runs tell, each with its levels; `untold` among them where some do not."""
    told = list(dict.fromkeys(frozenset(run.items()) for run in runs))
    names = {name for each in told for name, _ in each}
    ordered = [*(name for name in FACTORS if name in names), *sorted(names - FACTORS.keys())]
    return tuple(FactorLevels(name, _levels(name, [dict(each) for each in told])) for name in ordered)


def treatment_levels(run: Mapping[str, Level], factors: Sequence[FactorLevels]) -> tuple[Level, ...]:
    """A run's level of each factor."""
    return tuple(run.get(factor.name, UNSPECIFIED) for factor in factors)


def format_study(title: str, workload: str, factors: Sequence[FactorLevels], told: Counter[str]) -> str:
    """The study as a text. `told`: how many runs tell each metric; the one that most of them tell decides."""
    metric = max(DECIDING_METRICS[workload], key=lambda name: told[name])
    lines = [
        f"title = {_quoted(title[:LONGEST_TITLE])}",
        f"workload = {_quoted(workload)}",
        "\n[testbed]",
        f"lab = {_quoted(IMPORTED)}",
        "\n[factors]",
        *(f"{each.name} = [{', '.join(_spelled(each.name, x) for x in each.levels)}]" for each in factors),
        "\n[precision]",
        f"metric = {_quoted(metric)}",
    ]
    return "\n".join(lines) + "\n"


def _levels(name: str, runs: Sequence[Mapping[str, Level]]) -> tuple[Level, ...]:
    """Numbers ascending, then words in the order of the runs, and last that some tell none."""
    levels = list(dict.fromkeys(run[name] for run in runs if name in run))
    numbers = sorted(level for level in levels if not isinstance(level, str))
    words = [level for level in levels if isinstance(level, str)]
    return (*numbers, *words, *((UNSPECIFIED,) if any(name not in run for run in runs) else ()))


def _spelled(name: str, level: Level) -> str:
    return _quoted(UNSPECIFIED if level == UNSPECIFIED else format_level(name, level))


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's too, where only ASCII is left.
    return json.dumps(text.replace("\x7f", " "))
