"""Write the study of an import: the factors of its runs, in the form of a study file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import FACTORS, format_level
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import WORKLOADS

MAX_TITLE_CHARACTERS = 120


def collect_factors(levels_of_runs: Iterable[Mapping[str, Level]]) -> tuple[FactorLevels, ...]:
    """Return the factors of all runs with their levels, `unspecified` among them if some runs lack it."""
    distinct = list(dict.fromkeys(frozenset(run.items()) for run in levels_of_runs))
    names = {name for each in distinct for name, _ in each}
    ordered = [*(name for name in FACTORS if name in names), *sorted(names - FACTORS.keys())]
    return tuple(
        FactorLevels(name, _collect_levels(name, [dict(each) for each in distinct])) for name in ordered
    )


def treatment_levels(run_levels: Mapping[str, Level], factors: Sequence[FactorLevels]) -> tuple[Level, ...]:
    """Return a run's level of each factor."""
    return tuple(run_levels.get(factor.name, UNSPECIFIED) for factor in factors)


def format_study_text(
    title: str, workload: str, factors: Sequence[FactorLevels], run_count_by_metric: Counter[str]
) -> str:
    """Return the study as TOML. The deciding metric is the one that most runs report."""
    metric = max(WORKLOADS[workload].deciding_metrics, key=lambda name: run_count_by_metric[name])
    lines = [
        f"title = {_quote_for_toml(title[:MAX_TITLE_CHARACTERS])}",
        f"workload = {_quote_for_toml(workload)}",
        "\n[testbed]",
        f"lab = {_quote_for_toml(IMPORTED_LAB)}",
        "\n[factors]",
        *(
            f"{each.name} = [{', '.join(_format_level(each.name, x) for x in each.levels)}]"
            for each in factors
        ),
        "\n[precision]",
        f"metric = {_quote_for_toml(metric)}",
    ]
    return "\n".join(lines) + "\n"


def _collect_levels(name: str, levels_of_runs: Sequence[Mapping[str, Level]]) -> tuple[Level, ...]:
    """Return numbers in ascending order, then words in the order of the runs, then `unspecified`."""
    levels = list(dict.fromkeys(run[name] for run in levels_of_runs if name in run))
    numbers = sorted(level for level in levels if not isinstance(level, str))
    words = [level for level in levels if isinstance(level, str)]
    return (*numbers, *words, *((UNSPECIFIED,) if any(name not in run for run in levels_of_runs) else ()))


def _format_level(name: str, level: Level) -> str:
    return _quote_for_toml(UNSPECIFIED if level == UNSPECIFIED else format_level(name, level))


def _quote_for_toml(text: str) -> str:
    # JSON escapes are valid in TOML as long as the text is ASCII.
    return json.dumps(text.replace("\x7f", " "))
