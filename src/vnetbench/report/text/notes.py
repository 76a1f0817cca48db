"""The legend and the notes of a table: the meaning of its values, and missing or unusual results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from vnetbench.estimate.datagrams import SHARE_METRICS_BY_DENOMINATOR_METRIC
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_count_with_noun, format_exact_share
from vnetbench.report.tables.columns import STATES_WITHOUT_MEASUREMENT
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.wording.estimate_text import metric_noun
from vnetbench.wording.factor_text import factor_names, factor_title, level_text
from vnetbench.wording.treatment_names import treatment_name, varying_factors

_NUMBER_IGNORED_IN_MERGING = re.compile(r"\d+(\.\d+)?")
"""Notes that differ in their numbers only are merged into one."""
_FAILURE_IN_NOTE = re.compile(
    r"(?i)\breported: |\brefused\b|\breset\b|\bfailed\b|not reach|\blimited\b|\bmissing\b|\bbursts\b"
)
"""What no note may hide: the tool's own errors, and limits of the load."""
_MAX_NAMED_TREATMENTS = 2
"""A note names at most this many treatments and counts the rest."""
_METRICS_THAT_ARE_SHARES = tuple(
    dict.fromkeys(name for shares in SHARE_METRICS_BY_DENOMINATOR_METRIC.values() for name in shares)
)
_MAX_LISTED_TRIALS = 12
"""A note lists at most this many trials; the page and the JSON contain all of them."""


def table_values_legend(summary: CampaignSummary) -> str:
    """Return the sentences that explain the values of this campaign's table."""
    if summary.represented_table is not None:
        return f"Each value is {summary.represented_table.value_description}."
    share = format_exact_share(summary.required_precision.confidence)
    sentences = [f"Values are medians of the trials ± the wider side of the {share} confidence interval."]
    metric = summary.deciding_metric
    estimates = [each.metrics[metric] for each in summary.treatments if metric in each.metrics]
    all_estimates = [(name, each) for t in summary.treatments for name, each in t.metrics.items()]
    if any(each.low is None for each in estimates):
        sentences.append("± ? means too few trials for an interval.")
    if any(each.is_from_single_search for _, each in all_estimates):
        sentences.append("For a single search, ± is the interval that the search itself reports.")
    if any(point.goal_results for treatment in summary.treatments for point in treatment.points):
        sentences.append(
            'The column "One search" shows half the width of the widest interval of a single search.'
        )
    if any(name in _METRICS_THAT_ARE_SHARES and _is_zero_with_bound(each) for name, each in all_estimates):
        sentences.append(
            "0 ± x means that the share was 0 in all trials, and that shares above x are ruled out "
            f"({share})."
        )
    if any(each.modes for each in estimates):
        sentences.append("Two values with shares mean that the trials fall into two modes.")
    return " ".join((*emulation_warnings(summary), *sentences))


def _is_zero_with_bound(estimate: Estimate) -> bool:
    return estimate.value == 0 and estimate.low == 0 and bool(estimate.high)


def campaign_notes(summary: CampaignSummary) -> tuple[str, ...]:
    """Return one note per fact: refused and failed treatments, outliers, constant factors, warnings."""
    return (
        *_treatment_notes(summary),
        *_outlier_notes(summary),
        *_selected_send_mode_notes(summary),
        *_constant_factor_notes(summary),
        *((summary.proof_file_note,) if summary.proof_file_note else ()),
        *summary.warnings,
    )


def _treatment_notes(summary: CampaignSummary) -> Iterator[str]:
    names_by_failure: dict[tuple[str, str], list[str]] = {}
    for treatment in summary.treatments:
        if treatment.failures:
            state = (
                treatment.stop_reason
                if treatment.stop_reason in STATES_WITHOUT_MEASUREMENT
                else "trials failed"
            )
            reason = "; ".join(dict.fromkeys(treatment.failures))
            names_by_failure.setdefault((state, reason), []).append(treatment_name(summary, treatment))
    for (state, reason), names in names_by_failure.items():
        yield f"{_list_treatment_names_or_count(names)} ({state}): {reason}"
    notes_by_similar_text: dict[str, list[tuple[TreatmentSummary, str]]] = {}
    for treatment in summary.treatments:
        for note in _select_first_and_failure_notes(treatment.notes):
            similar = _NUMBER_IGNORED_IN_MERGING.sub("0", note)
            notes_by_similar_text.setdefault(similar, []).append((treatment, note))
    hidden_count = sum(len(treatment.notes) for treatment in summary.treatments)
    for same in notes_by_similar_text.values():
        names = list(dict.fromkeys(treatment_name(summary, treatment) for treatment, _ in same))
        hidden_count -= len(same)
        yield f"{_list_treatment_names_or_count(names)}: {same[0][1]}"
    if hidden_count:
        yield f"{format_count_with_noun(hidden_count, 'more note')} in the JSON"


def _select_first_and_failure_notes(notes: Sequence[str]) -> list[str]:
    """Return a treatment's first note, and those that say that something failed or was missed."""
    return [note for at, note in enumerate(notes) if not at or _FAILURE_IN_NOTE.search(note)]


def _list_treatment_names_or_count(names: list[str]) -> str:
    """Return the name of a single treatment; otherwise the number of treatments and the first names."""
    if len(names) == 1:
        return names[0]
    more = ", …" if len(names) > _MAX_NAMED_TREATMENTS else ""
    return f"{len(names)} treatments ({'; '.join(names[:_MAX_NAMED_TREATMENTS])}{more})"


def _outlier_notes(summary: CampaignSummary) -> Iterator[str]:
    metric = summary.deciding_metric
    measured = [each for each in summary.treatments if metric in each.metrics]
    outliers = [each.points[index].trial_id for each in measured for index in each.metrics[metric].outliers]
    if outliers:
        count = format_count_with_noun(len(outliers), "outlier")
        yield f"the estimates of {metric_noun(metric)} include {count} ({_list_trials(outliers)})"


def _list_trials(numbers: list[int]) -> str:
    listed = ", ".join(map(str, sorted(numbers)[:_MAX_LISTED_TRIALS]))
    more = f" and {len(numbers) - _MAX_LISTED_TRIALS} more" if len(numbers) > _MAX_LISTED_TRIALS else ""
    return f"trial{'' if len(numbers) == 1 else 's'} {listed}{more}"


def _selected_send_mode_notes(summary: CampaignSummary) -> Iterator[str]:
    """Yield the send modes that `send_mode = auto` selected."""
    names_by_mode: dict[str, list[str]] = {}
    for treatment in summary.treatments:
        calibration = treatment.effective.get("calibration")
        if isinstance(calibration, Mapping):
            name = treatment_name(summary, treatment)
            names_by_mode.setdefault(str(calibration["send_mode"]), []).append(name)
    for mode, names in names_by_mode.items():
        treatments = (
            "every treatment"
            if len(names) == len(summary.treatments)
            else _list_treatment_names_or_count(names)
        )
        yield f"send_mode = auto selected {mode} in {treatments}"


def _constant_factor_notes(summary: CampaignSummary) -> Iterator[str]:
    varying = factor_names(varying_factors(summary.treatments, summary.factors))
    constant = [
        f"{factor_title(factor.name)}: {level_text(factor.name, factor.levels[0])}"
        for factor in summary.factors
        if factor.name not in varying and factor.levels
    ]
    if constant and varying:
        yield f"Every treatment has the same levels of these factors ({', '.join(constant)})"
