"""Checks of a whole study whose single values are valid: parts that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from vnetbench.published.catalog import workload_of_table
from vnetbench.quantity import format_exact_duration, format_exact_frame_rate
from vnetbench.study.factors.disruption_factors import EVENTS_BY_LAB
from vnetbench.study.factors.registry import check_factor_workload, format_level
from vnetbench.study.labs import IMPORTED_LAB, NETNS
from vnetbench.study.model import ONE_AT_A_TIME, Level, Precision, Study
from vnetbench.study.plan import generate_treatment_levels
from vnetbench.study.problems import KeyLocator, Problem, WrongValue, suggest_fix
from vnetbench.study.rules.contradictions import find_contradictions
from vnetbench.study.rules.lab_checks import check_lab
from vnetbench.study.rules.team_checks import check_teams
from vnetbench.study.workloads import FRAMES, MIXED, SEARCH_METRIC_NAMES, WORKLOADS, SearchUse

MAX_TREATMENTS = 10_000
"""Maximum treatments of a study: with six trials of one second each, they take 17 hours."""

MAX_INTERVAL_WITHOUT_DURATION_S = 0.1
"""Longest sampling interval if the bench chooses the trial length: finding a warm-up needs ten samples."""

MIN_IDLE_INTERVALS = 3

_LevelTable = Mapping[str, tuple[Level, ...]]


def check_study(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    """Yield the problems of a study whose single values are valid."""
    if study.testbed.lab == IMPORTED_LAB:
        return  # Imported results are not a plan: their runs are over.
    yield from check_lab(study, locate)
    yield from _check_workload(study, locate)
    yield from _check_search(study, locate)
    yield from _check_timing(study, locate)
    yield from _check_precision(study, locate)
    count = math.prod(len(factor.levels) for factor in study.factors)
    if study.combine == ONE_AT_A_TIME:
        count = 1 + sum(len(factor.levels) - 1 for factor in study.factors) + len(study.together)
    if count > MAX_TREATMENTS:
        yield locate("factors").make_problem(
            f"the study has {count} combinations of levels, which is too many",
            fix=f"name fewer levels or factors: a study has at most {MAX_TREATMENTS} combinations",
        )
        return
    if study.together and study.combine != ONE_AT_A_TIME:
        yield locate("together").make_problem(
            "[[together]] has no effect, because the study already makes a treatment of each combination "
            "of levels",
            fix=f'remove [[together]], or write combine = "{ONE_AT_A_TIME}" at the head of the file',
        )
    treatments = list(generate_treatment_levels(study))
    if not treatments:
        yield locate("exclude").make_problem(
            "the exclusions leave no treatment", fix="remove an exclusion, or name fewer levels in it"
        )
    yield from find_contradictions(study, treatments, locate)
    yield from check_teams(study, treatments, locate)


def check_table_levels(
    table: _LevelTable,
    heading_and_number: tuple[str, int],
    factors: Iterable[_LevelTable],
    locate: KeyLocator,
) -> Iterator[Problem]:
    """Yield the levels of an `[[exclude]]` or `[[together]]` that the study does not have.

    Args:
        table: The levels of the table.
        heading_and_number: Heading of the table and its position among those with this heading.
        factors: Levels of the file and of the `--set` arguments. The table can name either, because one
            study file is used with different `--set` arguments.
        locate: Returns the location of a key.
    """
    heading, _ = heading_and_number
    for name, levels in table.items():
        known = dict.fromkeys(level for each in factors for level in each.get(name, ()))
        if not known:
            yield locate(*heading_and_number, name).make_problem(
                f"[[{heading}]] names {name}, which is not a factor of this study",
                fix=f"add {name} to [factors], or remove it from this [[{heading}]]",
            )
            continue
        if heading == "together" and len(levels) > 1:
            yield locate(*heading_and_number, name).make_problem(
                f"{name} has {len(levels)} levels, but a [[together]] is one treatment",
                fix="name one level, and write another [[together]] for each other level",
            )
        known_texts = [format_level(name, level) for level in known]
        for level in levels:
            if level not in known:
                text = format_level(name, level)
                yield locate(*heading_and_number, name).make_problem(
                    f'{name} has no level "{text}" in this study',
                    fix=suggest_fix(
                        text,
                        known_texts,
                        otherwise=f"use one of the factor's levels: {', '.join(known_texts)}",
                    ),
                )


def _check_workload(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    for factor in study.factors:
        try:
            check_factor_workload(factor.name, study.workload)
        except WrongValue as error:
            yield locate("factors", factor.name).wrap_error(error)
    workload, metric = WORKLOADS[study.workload], study.precision.metric
    known_metrics = workload.deciding_metrics
    if metric in SEARCH_METRIC_NAMES and workload.search_use is SearchUse.OPTIONAL and study.search is None:
        yield locate("precision", "metric").make_problem(
            f"{metric} needs a search, and the study has none", fix="add the heading [search]"
        )
    if metric is not None and metric not in known_metrics:
        yield locate("precision", "metric").make_problem(
            f"the workload {workload.name} does not measure {metric}",
            fix=suggest_fix(metric, known_metrics, otherwise=f"write one of {', '.join(known_metrics)}"),
        )
    if study.published is not None and workload.name != (published := workload_of_table(study.published)):
        yield locate("published").make_problem(
            f"{study.published} has no results of the workload {workload.name}",
            fix=f'remove this key, or write workload = "{published}"',
        )
    if study.timing.idle_phase_s is not None and not workload.has_idle_phase:
        yield locate("timing", "idle").make_problem(
            f"the workload {workload.name} has no idle phase",
            fix=f'remove this key, or write workload = "{MIXED}"',
        )
    if study.search is not None and workload.search_use is SearchUse.NEVER:
        yield locate("search").make_problem(
            f"the workload {workload.name} has no search",
            fix=f'remove the section, or write workload = "{FRAMES}"',
        )
    if workload.has_network_event and study.testbed.lab not in EVENTS_BY_LAB:
        yield locate("testbed", "lab").make_problem(
            f"the workload {workload.name} makes its events only in the labs {' and '.join(EVENTS_BY_LAB)}",
            fix=f'write lab = "{NETNS}"',
        )
    if workload.needs_duration_in_study and study.timing.duration_s is None:
        yield locate("timing", "duration").make_problem(
            f"the workload {workload.name} needs a duration, and the study has none",
            fix=f'write duration = "{workload.duration_example}" under [timing]',
        )


def _check_search(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    search = study.search
    if search is None:
        return
    if search.step_s < study.timing.interval_s:
        step, interval = map(format_exact_duration, (search.step_s, study.timing.interval_s))
        yield locate("search", "trial").make_problem(
            f"a step of {step} is shorter than the sampling interval of {interval}",
            fix="make trial longer or timing.interval shorter",
        )
    if search.max_load_fps is not None and search.max_load_fps <= search.min_load_fps:
        least, most = map(format_exact_frame_rate, (search.min_load_fps, search.max_load_fps))
        yield locate("search", "max_load").make_problem(
            f"the search has no range of loads: min_load is {least} and max_load is {most}",
            fix="raise max_load, or lower min_load",
        )


def _check_timing(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    timing = study.timing
    interval = format_exact_duration(timing.interval_s)
    if timing.idle_phase_s is not None and timing.idle_phase_s < MIN_IDLE_INTERVALS * timing.interval_s:
        idle_phase = format_exact_duration(timing.idle_phase_s)
        yield locate("timing", "idle").make_problem(
            f"an idle phase of {idle_phase} is too short for samples of {interval}",
            fix=f"make the idle phase at least {MIN_IDLE_INTERVALS} intervals long, because its first and "
            "last interval "
            "do not count",
        )
    if timing.duration_s is None:
        if timing.interval_s > MAX_INTERVAL_WITHOUT_DURATION_S:
            longest = format_exact_duration(MAX_INTERVAL_WITHOUT_DURATION_S)
            yield locate("timing", "interval").make_problem(
                f"trials of a second are too short for samples of {interval}",
                fix=f'make the interval at most "{longest}", or set the duration',
            )
        return
    measured_s = timing.duration_s - (timing.warmup_s or 0)
    duration = format_exact_duration(timing.duration_s)
    if measured_s <= 0:
        yield locate("timing", "warmup").make_problem(
            f"a warm-up of {format_exact_duration(timing.warmup_s or 0)} leaves nothing of a trial of "
            f"{duration}",
            fix="make the warm-up shorter or the duration longer",
        )
    elif timing.interval_s > measured_s:
        yield locate("timing", "interval").make_problem(
            f"a trial of {duration} has no whole sample of {interval}",
            fix="make the interval shorter or the duration longer",
        )


def _check_precision(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    fewest, most = study.precision.min_trials, study.precision.max_trials
    if fewest > most:
        # The file may name only one of the two keys: the problem belongs to that one.
        key = "min_trials" if most == Precision().max_trials else "max_trials"
        yield locate("precision", key).make_problem(
            f"min_trials is {fewest}, which is more than max_trials, {most}",
            fix=f"raise max_trials to {fewest}, or lower min_trials to {most}",
        )
