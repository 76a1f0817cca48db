"""What is wrong with a study as a whole though each line can be read: parts that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from vnetbench.published.catalog import table_workload
from vnetbench.quantity import format_exact_duration, format_exact_frame_rate
from vnetbench.study.factors.registry import check_factor_workload, format_level
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import ONE_AT_A_TIME, Level, Precision, Study
from vnetbench.study.plan import level_combinations
from vnetbench.study.problems import Problem, StudyLocation, WrongValue, suggest
from vnetbench.study.rules.contradictions import find_contradictions
from vnetbench.study.rules.lab_checks import check_lab
from vnetbench.study.workloads import DECIDING_METRICS, FRAME_WORKLOADS, FRAMES, MIXED, SEARCH_METRICS, SOAK

MAX_TREATMENTS = 10_000
"""Combinations of levels in one study; at a second a trial and six trials each, these take 17 hours."""

LONGEST_INTERVAL_S = 0.1
"""Of a sample, where the bench chooses how long trials are: a warm-up is found from ten samples on."""

FEWEST_IDLE_INTERVALS = 3

_PlaceOf = Callable[..., StudyLocation]
_Levels = Mapping[str, tuple[Level, ...]]


def check_study(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    """The problems of a study whose every value is sound by itself; `place` tells where a key stands."""
    if study.testbed.lab == IMPORTED:
        return  # it is no plan, but what was told of runs that are over
    yield from check_lab(study, place)
    yield from _workload(study, place)
    yield from _timing(study, place)
    yield from _precision(study, place)
    count = math.prod(len(factor.levels) for factor in study.factors)
    if study.combine == ONE_AT_A_TIME:
        count = 1 + sum(len(factor.levels) - 1 for factor in study.factors) + len(study.together)
    if count > MAX_TREATMENTS:
        wrong = WrongValue(
            f"{count} combinations of levels are too many",
            fix=f"name fewer levels or factors: {MAX_TREATMENTS} combinations at most",
        )
        yield place("factors").make_problem(wrong)
        return
    if study.together and study.combine != ONE_AT_A_TIME:
        wrong = WrongValue(
            "[[together]] adds nothing: all levels are combined anyway",
            fix=f'take it away, or write combine = "{ONE_AT_A_TIME}" at the head of the file',
        )
        yield place("together").make_problem(wrong)
    treatments = list(level_combinations(study))
    if not treatments:
        wrong = WrongValue("the exclusions leave no treatment", fix="take one of them away")
        yield place("exclude").make_problem(wrong)
    yield from find_contradictions(study, treatments, place)


def check_table_levels(
    table: _Levels, at: tuple[str, int], factors: Iterable[_Levels], place: _PlaceOf
) -> Iterator[Problem]:
    """The levels of an `[[exclude]]` or a `[[together]]` that the study does not know.

    `at` is its heading and its place among them. `factors` are the file's own levels and those of the
    `--set` arguments: it may speak of either, since the same file serves other levels.
    """
    heading, _ = at
    for name, levels in table.items():
        known = dict.fromkeys(level for each in factors for level in each.get(name, ()))
        if not known:
            wrong = WrongValue(
                f"{name} stands below [[{heading}]], but is no factor of this study",
                fix=f"name it under [factors], or take it out of this [[{heading}]]",
            )
            yield place(*at, name).make_problem(wrong)
            continue
        if heading == "together" and len(levels) > 1:
            wrong = WrongValue(
                f"{name} has {len(levels)} levels, and a [[together]] is one treatment",
                fix="name one of them; write [[together]] again for another",
            )
            yield place(*at, name).make_problem(wrong)
        spelled = [format_level(name, level) for level in known]
        for level in levels:
            if level not in known:
                word = format_level(name, level)
                wrong = WrongValue(
                    f'{name} has no level "{word}" here',
                    fix=suggest(word, spelled, otherwise=f"its levels are {', '.join(spelled)}"),
                )
                yield place(*at, name).make_problem(wrong)


def _workload(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    for factor in study.factors:
        try:
            check_factor_workload(factor.name, study.workload)
        except WrongValue as error:
            yield place("factors", factor.name).make_problem(error)
    metric, known = study.precision.metric, DECIDING_METRICS[study.workload]
    if metric in SEARCH_METRICS and study.workload == FRAMES and study.search is None:
        wrong = WrongValue(f"{metric} is found by a search", fix="write [search] on a line of its own")
        yield place("precision", "metric").make_problem(wrong)
    if metric is not None and metric not in known:
        fix = suggest(metric, known, otherwise=f"write one of {', '.join(known)}")
        wrong = WrongValue(f"{metric} is not measured by the workload {study.workload}", fix=fix)
        yield place("precision", "metric").make_problem(wrong)
    if study.published is not None and study.workload != (its := table_workload(study.published)):
        wrong = WrongValue(
            f"{study.published} has no figures of the workload {study.workload}",
            fix=f'take it out, or write workload = "{its}"',
        )
        yield place("published").make_problem(wrong)
    if study.timing.idle_s is not None and study.workload != MIXED:
        wrong = WrongValue(
            f"the workload {study.workload} has no idle phase",
            fix=f'take it out, or write workload = "{MIXED}"',
        )
        yield place("timing", "idle").make_problem(wrong)
    if study.search is not None and study.workload not in FRAME_WORKLOADS:
        wrong = WrongValue(
            f"the workload {study.workload} has no search", fix=f'take it out, or write workload = "{FRAMES}"'
        )
        yield place("search").make_problem(wrong)
    if study.workload == SOAK and study.timing.duration_s is None:
        wrong = WrongValue(
            f"{SOAK} holds its load for as long as it is told, and no duration is",
            fix='write duration = "1 h" under [timing]',
        )
        yield place("timing", "duration").make_problem(wrong)
    yield from _search(study, place)


def _search(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    search, interval_s = study.search, study.timing.interval_s
    if search is None:
        return
    if search.step_s < interval_s:
        wrong = WrongValue(
            f"a step of {format_exact_duration(search.step_s)} has no whole sample of {format_exact_duration(interval_s)}",
            fix="make trial longer or timing.interval shorter",
        )
        yield place("search", "trial").make_problem(wrong)
    if search.most_load_fps is not None and search.most_load_fps <= search.least_load_fps:
        least, most = map(format_exact_frame_rate, (search.least_load_fps, search.most_load_fps))
        wrong = WrongValue(
            f"loads from {least} to {most} leave nothing to search",
            fix="raise most_load, or lower least_load",
        )
        yield place("search", "most_load").make_problem(wrong)


def _timing(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    timing = study.timing
    if timing.idle_s is not None and timing.idle_s < FEWEST_IDLE_INTERVALS * timing.interval_s:
        wrong = WrongValue(
            f"an idle phase of {format_exact_duration(timing.idle_s)} is too short for samples of "
            f"{format_exact_duration(timing.interval_s)}",
            fix=f"its first and its last are not counted: make it {FEWEST_IDLE_INTERVALS} of them or more",
        )
        yield place("timing", "idle").make_problem(wrong)
    if timing.duration_s is None:
        if timing.interval_s > LONGEST_INTERVAL_S:
            wrong = WrongValue(
                f"trials of a second are too short for samples of {format_exact_duration(timing.interval_s)}",
                fix=f'make the interval "{format_exact_duration(LONGEST_INTERVAL_S)}" at most, or set the duration',
            )
            yield place("timing", "interval").make_problem(wrong)
        return
    rest_s = timing.duration_s - (timing.warmup_s or 0)
    duration = format_exact_duration(timing.duration_s)
    if rest_s <= 0:
        wrong = WrongValue(
            f"a warm-up of {format_exact_duration(timing.warmup_s or 0)} leaves nothing of a trial of {duration}",
            fix="make the warm-up shorter or the duration longer",
        )
        yield place("timing", "warmup").make_problem(wrong)
    elif timing.interval_s > rest_s:
        wrong = WrongValue(
            f"a trial of {duration} has no whole sample of {format_exact_duration(timing.interval_s)}",
            fix="make the interval shorter or the duration longer",
        )
        yield place("timing", "interval").make_problem(wrong)


def _precision(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    fewest, most = study.precision.fewest_trials, study.precision.most_trials
    if fewest > most:
        wrong = WrongValue(
            f"at least {fewest} and at most {most} trials cannot both be",
            fix=f"raise most_trials to {fewest}, or lower fewest_trials to {most}",
        )
        # Either may be the one that stands in the file.
        key = "fewest_trials" if most == Precision().most_trials else "most_trials"
        yield place("precision", key).make_problem(wrong)
