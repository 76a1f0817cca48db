"""Two campaigns compared: differences between their environments and the ratio of each treatment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from vnetbench.estimate.imported_trials import describe_logs_by_tool
from vnetbench.estimate.matching import MatchedTreatments, all_levels, match_treatments
from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.report.environment import FactDifference, find_differences
from vnetbench.report.setting_differences import SettingsComparison, compare_settings
from vnetbench.report.tables.columns import STATES_WITHOUT_MEASUREMENT
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import find_metric
from vnetbench.wording.factor_text import factor_names


@dataclass(frozen=True)
class MetricChange:
    """One metric of one treatment in both campaigns."""

    factors: Mapping[str, Level]
    metric: str
    before: Estimate
    after: Estimate
    ratio: Ratio
    """after / before. The p value is adjusted over all changes of the comparison."""

    @property
    def is_significant_and_excludes_1(self) -> bool:
        """Whether the interval excludes 1 and the adjusted p value agrees."""
        ratio = self.ratio
        if ratio.low is None or ratio.high is None:
            return False
        return not ratio.low <= 1 <= ratio.high and ratio.has_significant_p_value

    @property
    def relative_worsening(self) -> float:
        """The share by which the metric got worse: 0.1 for a goodput ratio of 0.9, negative if better."""
        if find_metric(self.metric).better == "higher":
            return 1 - self.ratio.value
        return self.ratio.value - 1 if find_metric(self.metric).better == "lower" else 0.0


class UnmeasuredTreatment(NamedTuple):
    """A treatment of both campaigns that at least one of them did not measure."""

    levels: Mapping[str, Level]
    reason: str
    """The campaigns that did not measure it, each with its state: `after: refused`."""


@dataclass(frozen=True)
class CampaignComparison:
    """The treatments that two campaigns share, with their changes, and what the campaigns do not share."""

    before_path: str
    after_path: str
    """Paths of the results files."""
    factors_of_either: tuple[FactorLevels, ...]
    campaigns_with_emulated_guests: tuple[str, ...]
    """`before` and `after` if their guests ran under TCG."""
    imported_log_notes: tuple[str, ...]
    """Each imported campaign with the tools and logs that it comes from."""
    settings: SettingsComparison
    """What the audits of both campaigns found to differ."""
    environment_differences: tuple[FactDifference, ...]
    published_table_conditions: tuple[str, ...]
    """The conditions of each published table, which has no environment."""
    changes: tuple[MetricChange, ...]
    only_before: tuple[Mapping[str, Level], ...]
    only_after: tuple[Mapping[str, Level], ...]
    unmeasured_in_either: tuple[UnmeasuredTreatment, ...]
    """Shared treatments that at least one campaign did not measure."""
    measured_before_but_refused_or_failed_after: tuple[Mapping[str, Level], ...] = ()
    """Treatments that were measured before and are refused or failed now."""
    unmatched_published_count: int = 0
    """Number of published values without a matching treatment."""


def compare_campaigns(
    before: CampaignSummary, after: CampaignSummary, metrics: Sequence[str] = ()
) -> CampaignComparison:
    """Compare the treatments that two campaigns share.

    Args:
        before: The first campaign.
        after: The second campaign.
        metrics: The metrics to compare. By default, only the deciding metric of `after`.

    Returns:
        The comparison, at the lower confidence of the two campaigns.
    """
    matches = match_treatments(before, after)
    campaigns = {"before": before, "after": after}
    only_before = _levels_of_unmatched_treatments(before, [match.before for match in matches])
    only_after = _levels_of_unmatched_treatments(after, [match.after for match in matches])
    unmatched_published = (only_before if before.represented_table else ()) + (
        only_after if after.represented_table else ()
    )
    return CampaignComparison(
        before_path=before.path,
        after_path=after.path,
        factors_of_either=_merge_factors(before, after),
        campaigns_with_emulated_guests=tuple(
            name for name, each in campaigns.items() if emulation_warnings(each)
        ),
        imported_log_notes=tuple(
            f"{name}: imported from {'; '.join(_tools_and_logs(each))}"
            for name, each in campaigns.items()
            if each.is_imported
        ),
        settings=compare_settings(before, after),
        environment_differences=find_differences(before, after),
        published_table_conditions=tuple(
            f"{name}: {each.represented_table.conditions}"
            for name, each in campaigns.items()
            if each.represented_table
        ),
        changes=_metric_changes(before, after, matches, metrics or (after.deciding_metric,)),
        only_before=() if before.represented_table else only_before,
        only_after=() if after.represented_table else only_after,
        unmeasured_in_either=tuple(_find_unmeasured_in_either(matches)),
        measured_before_but_refused_or_failed_after=tuple(
            match.levels
            for match in matches
            if match.before.metrics
            and not match.after.metrics
            and match.after.stop_reason in STATES_WITHOUT_MEASUREMENT
        ),
        unmatched_published_count=len(unmatched_published),
    )


def find_worsened_metrics(comparison: CampaignComparison, share: float) -> list[MetricChange]:
    """Return the significant changes for the worse by more than `share` (0.05 is 5 %)."""
    changes = comparison.changes
    return [
        each for each in changes if each.is_significant_and_excludes_1 and each.relative_worsening > share
    ]


def _metric_changes(
    before: CampaignSummary,
    after: CampaignSummary,
    matches: Sequence[MatchedTreatments],
    metrics: Sequence[str],
) -> tuple[MetricChange, ...]:
    confidence = min(before.required_precision.confidence, after.required_precision.confidence)
    candidates = (_metric_change(match, metric, confidence) for metric in metrics for match in matches)
    changes = [change for change in candidates if change is not None]
    ratios = adjust_p_values([change.ratio for change in changes])
    return tuple(replace(change, ratio=ratio) for change, ratio in zip(changes, ratios, strict=True))


def _metric_change(match: MatchedTreatments, metric: str, confidence: float) -> MetricChange | None:
    """Return the change of the metric; None if it is missing or has no ratio."""
    if metric not in match.before.metrics or metric not in match.after.metrics:
        return None
    before, after = match.before.metrics[metric], match.after.metrics[metric]
    if before.is_published or after.is_published:
        if not before.value:
            return None
        ratio = Ratio(after.value / before.value, None, None, confidence, None)
        return MetricChange(match.levels, metric, before, after, ratio)
    values_before, values_after = (
        match.before.values_of_trials_with_metric(metric),
        match.after.values_of_trials_with_metric(metric),
    )
    if any(value < 0 for value in (*values_before, *values_after)):
        return None  # A metric that is a difference can be negative and then has no ratio.
    ratio = estimate_rank_ratio(values_before, values_after, confidence)
    return MetricChange(match.levels, metric, before, after, ratio)


def _tools_and_logs(summary: CampaignSummary) -> tuple[str, ...]:
    return tuple(
        describe_logs_by_tool([point for treatment in summary.treatments for point in treatment.points])
    )


def _levels_of_unmatched_treatments(
    summary: CampaignSummary, matched: Sequence[TreatmentSummary]
) -> tuple[Mapping[str, Level], ...]:
    indices = {treatment.index for treatment in matched}
    unmatched = (treatment for treatment in summary.treatments if treatment.index not in indices)
    return tuple(all_levels(summary, treatment) for treatment in unmatched)


def _merge_factors(before: CampaignSummary, after: CampaignSummary) -> tuple[FactorLevels, ...]:
    names = factor_names(before.factors)
    return (*before.factors, *(factor for factor in after.factors if factor.name not in names))


def _find_unmeasured_in_either(
    matches: Sequence[MatchedTreatments],
) -> Iterator[UnmeasuredTreatment]:
    for match in matches:
        pair = (("before", match.before), ("after", match.after))
        unmeasured = [f"{name}: {each.stop_reason}" for name, each in pair if not each.metrics]
        if unmeasured:
            yield UnmeasuredTreatment(match.levels, ", ".join(unmeasured))
