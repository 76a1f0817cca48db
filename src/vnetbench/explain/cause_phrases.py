"""Descriptions of causes with the figures of the treatments that they limit.

A cause's description in `causes/` is general. The builders here put in what was measured, such as the number
of CPUs and threads. A builder returns None if the treatments lack its evidence or differ in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.explain.model import Cause
from vnetbench.explain.phrases import format_metric
from vnetbench.quantity import format_count_with_noun

_MIN_IDLE_CPUS_ELSEWHERE = 0.5
"""From this number of idle CPUs on, the load's CPUs are not all CPUs of the machine."""


@dataclass(frozen=True)
class CausePhrase:
    """The description of a cause in some treatments."""

    short: str
    """A clause for the answer: "both CPUs are full"."""
    full: str
    """The clause with its figures: "both CPUs are full, shared by 8 threads; more streams cannot help"."""


def describe_cause(cause: Cause, treatments: Sequence[TreatmentSummary]) -> CausePhrase:
    """Return the description of a cause with the figures of these treatments."""
    builder = _PHRASE_BUILDER_BY_CAUSE.get(cause.name)
    phrase = builder(_EvidenceMedians(treatments)) if builder else None
    return phrase or CausePhrase(cause.description, cause.description)


def replace_description(cause: Cause, phrase: CausePhrase) -> Cause:
    """Return the cause with the full phrase as its description."""
    return replace(cause, description=phrase.full)


class _EvidenceMedians:
    """The medians of evidence metrics, one for each treatment that has them."""

    def __init__(self, treatments: Sequence[TreatmentSummary]) -> None:
        self._treatments = treatments

    def medians_if_all_treatments_have(self, metric: str) -> list[float]:
        """Return one median for each treatment; empty if a treatment lacks the metric."""
        values = [each.evidence_values(metric) for each in self._treatments]
        return [median(each) for each in values] if values and all(values) else []

    def median_over_treatments(self, metric: str) -> float | None:
        """Return the median of all treatments; None if one lacks the metric."""
        medians = self.medians_if_all_treatments_have(metric)
        return median(medians) if medians else None

    def counts(self, metric: str) -> list[int]:
        """Return a count of each treatment; empty if one lacks it."""
        return [round(each) for each in self.medians_if_all_treatments_have(metric)]

    def common_count(self, metric: str) -> int | None:
        """Return the count that all treatments share; None if unknown or different."""
        counts = set(self.counts(metric))
        return counts.pop() if len(counts) == 1 else None

    @property
    def cpu_count(self) -> int | None:
        """Number of CPUs that the load may use; None if unknown or different."""
        return self.common_count("load_cpus")

    @property
    def load_thread_count_of_each_treatment(self) -> list[int]:
        """Number of the load's threads in each treatment; empty if unknown."""
        pairs = zip(
            self.medians_if_all_treatments_have("load_cpus"),
            self.medians_if_all_treatments_have("threads_per_load_cpu"),
            strict=False,
        )
        return [round(cpus * threads) for cpus, threads in pairs]


def _full_cpus_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    count, threads = evidence.cpu_count, evidence.load_thread_count_of_each_treatment
    if not count:
        return None
    idle = evidence.median_over_treatments("idle_cpus_elsewhere") or 0.0
    allowed = " that the load may use" if idle >= _MIN_IDLE_CPUS_ELSEWHERE else ""
    subject = {1: "the only CPU", 2: "both CPUs"}.get(count, f"all {count} CPUs")
    short = f"{subject}{allowed} {'is' if count == 1 else 'are'} full"
    if not threads or max(threads) <= count:
        return CausePhrase(short, short)
    return CausePhrase(
        short, f"{short}, shared by {_count_range_text(threads)} threads; more streams cannot help"
    )


def _count_range_text(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _other_programs_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    count, percent = evidence.cpu_count, evidence.median_over_treatments("load_cpus_programs_percent")
    if not count or not percent:
        return None
    if count == 1:
        text = f"other programs take {percent:.0f} % of the only CPU that the load may use"
    else:
        cpus = format_count_with_noun(count, "CPU")
        text = f"other programs take {count * percent / 100:.2g} of the {cpus} that the load may use"
    return CausePhrase(text, text)


def _full_link_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    delay_us = evidence.median_over_treatments("backlog_delay_us")
    short = "a link or shaper on the path is full"
    if not delay_us:
        return CausePhrase(short, short)
    return CausePhrase(
        short, f"{short}: packets wait {format_metric('backlog_delay_us', delay_us)} in its queue"
    )


def _one_uplink_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    links, flows = evidence.common_count("team_links"), evidence.counts("team_flows")
    if links is None or not flows:
        return None
    short = f"one of {links} links carries all {_count_range_text(flows)} flows"
    if min(flows) < max(flows):
        short = f"one of {links} links carries all flows"
    distinct = evidence.counts("team_distinct_flows")
    if not distinct or distinct == flows:
        return CausePhrase(short, short)
    return CausePhrase(
        short, f"{short}; the team's policy can distinguish {_count_range_text(distinct)} of them"
    )


def _one_flow_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    links = evidence.common_count("team_links")
    if links is None:
        return None
    short = f"the load is one flow, which takes one of {links} links"
    return CausePhrase(short, f"{short}, and that link is full")


def _idle_links_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    return _used_links_phrase(evidence, "the hash of the team")


def _parity_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    return _used_links_phrase(evidence, "the parity of the source ports, all even or all odd,")


def _used_links_phrase(evidence: _EvidenceMedians, reason: str) -> CausePhrase | None:
    """Return how many links carry the flows, and what leaves the others idle."""
    links, used = evidence.common_count("team_links"), evidence.common_count("team_used_links")
    flows = evidence.counts("team_flows")
    if links is None or used is None or not flows:
        return None
    verb = "carries" if used == 1 else "carry"
    text = f"{reason} leaves {links - used} of {links} links idle"
    return CausePhrase(text, f"{text}: {used} {verb} all {_count_range_text(flows)} flows")


def _lacp_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    links, without = evidence.common_count("team_links"), evidence.common_count("team_links_without_lacp")
    if links is None or without is None:
        return None
    if links == without:
        text = f"none of the team's {links} links has negotiated LACP"
    else:
        text = f"{without} of the team's {links} links are left out by LACP"
    return CausePhrase(text, text)


def _silent_link_phrase(evidence: _EvidenceMedians) -> CausePhrase | None:
    links, silent = evidence.common_count("team_links"), evidence.common_count("team_silent_links")
    if links is None or silent is None:
        return None
    verb, its = ("is", "its") if silent == 1 else ("are", "their")
    text = f"{silent} of {links} links {verb} up and {'loses' if silent == 1 else 'lose'} all packets"
    return CausePhrase(text, f"{text} of {its} flows")


_PHRASE_BUILDER_BY_CAUSE: Mapping[str, Callable[[_EvidenceMedians], CausePhrase | None]] = {
    "cpus_full": _full_cpus_phrase,
    "other_programs": _other_programs_phrase,
    "link_full": _full_link_phrase,
    "one_uplink": _one_uplink_phrase,
    "one_flow_one_link": _one_flow_phrase,
    "idle_team_links": _idle_links_phrase,
    "even_source_ports": _parity_phrase,
    "lacp_not_negotiated": _lacp_phrase,
    "silent_member": _silent_link_phrase,
}
