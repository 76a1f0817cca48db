"""Evidence of the instrument: whether it kept its times and its rates, and what it took for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    median,
    percent,
    ratio,
    sum_known,
    to_number,
)
from vnetbench.estimate.evidence.metric import YES_OR_NO, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.frames import search_result
from vnetbench.results.records import EndpointRecord

_KEPT_SHARE = 0.99
"""Of what was due: a source that sends less does not keep its rate, as RFC 2544, section 26.1, wants it."""

INSTRUMENT_METRICS = (
    EvidenceMetric(
        "sampler_late_percent",
        "% of an interval",
        "latest sample",
        "by how much the latest sample of a trial came late",
        ("sampler_late_max_s",),
    ),
    EvidenceMetric(
        "sampler_cpu_percent",
        "% of one CPU",
        "samplers and bench",
        "CPU time of all agents' samplers and of the bench in the whole trial; with a search of the samplers "
        "alone",
        ("sampler_cpu_s", "bench_cpu_s"),
    ),
    EvidenceMetric(
        "samples_lost",
        "1",
        "samples lost",
        "of the whole trial, since the bench did not read in time",
        ("events_lost",),
    ),
    EvidenceMetric(
        "rate_kept_percent",
        "% of what was due",
        "rate kept",
        "share of what was due at the asked rate in the whole trial that was sent, where it is the least; "
        "absent with a search, whose answer says whether the generator was its limit",
        ("pacing.sent", "pacing.due", "pacing.unsent"),
    ),
    EvidenceMetric(
        "generator_limited",
        YES_OR_NO,
        "generator at its limit",
        f"1 where less than {100 * _KEPT_SHARE:g} % of what was due was sent, or a search, for its first "
        "accepted share, ended at what the generator can",
        ("pacing.sent", "pacing.due", "pacing.unsent", "search"),
    ),
    EvidenceMetric(
        "delay_line_full_percent",
        "% of frames",
        "lost by a delay line itself",
        "share of the frames of the whole trial that the bench's own delay line had no room for, or that its "
        "far port did not take, where it is the greatest; those that it lost on purpose are none of them",
        ("delay_lines[].overflowed", "delay_lines[].refused", "delay_lines[].frames"),
    ),
)


def instrument_evidence(case: TrialData) -> EvidenceValues:
    """The figures of INSTRUMENT_FIGURES, of the whole trial."""
    trial = case.steady_part.trial
    told = [(side, _mapping(side.totals.get("instrument"))) for side in trial.endpoints]
    own = [to_number(of_side.get("sampler_cpu_s")) for _, of_side in told]
    limits = [answer["limited_by"] for answer in search_result(trial).get("answers", ())[:1]]
    kept = [] if limits else list(_kept(trial.endpoints))
    # What the bench takes to prepare a step is most of what it takes in one that is short.
    bench = [] if limits else [to_number(side.totals.get("bench_cpu_s")) for side in trial.endpoints]
    has_limit = [*(share < _KEPT_SHARE for share in kept), *(limit == "generator" for limit in limits)]
    return {
        "sampler_late_percent": largest(
            percent(to_number(of_side.get("sampler_late_max_s")), _interval_s(side)) for side, of_side in told
        ),
        "sampler_cpu_percent": percent(sum_known(*own, *bench), trial.idle_s + trial.duration_s),
        "samples_lost": sum_known(*(to_number(of_side.get("events_lost")) for _, of_side in told)),
        "rate_kept_percent": 100 * min(kept) if kept else None,
        "generator_limited": float(any(has_limit)) if has_limit else None,
        "delay_line_full_percent": largest(_lost_in_lines(trial.endpoints)),
    }


def _lost_in_lines(sides: tuple[EndpointRecord, ...]) -> Iterator[float | None]:
    """Of each direction of each delay line the frames that it lost and should not have, in percent of all."""
    for side in sides:
        lines = side.totals.get("delay_lines")
        for line in lines if isinstance(lines, list) else ():
            for way in ("forward", "reverse"):
                counts = _mapping(_mapping(_mapping(line).get(way)).get("counts"))
                lost = sum_known(to_number(counts.get("overflowed")), to_number(counts.get("refused")))
                yield percent(lost, sum_known(lost, to_number(counts.get("frames"))))


def _interval_s(side: EndpointRecord) -> float | None:
    """As asked, nearly: a sample that comes late is longer, and the next one as much shorter."""
    return median(x.interval_s for x in side.samples)


def _kept(sides: tuple[EndpointRecord, ...]) -> Iterator[float]:
    """Of each source with a rate the share of what was due that it sent."""
    for side in sides:
        streams = side.totals.get("streams")
        holders = [side.totals.get("instrument"), *(streams if isinstance(streams, list) else ())]
        for holder in holders:
            pacing = _mapping(_mapping(holder).get("pacing"))
            due, unsent = to_number(pacing.get("due")), to_number(pacing.get("unsent"))
            sent = to_number(pacing.get("sent")) if unsent is None or due is None else due - unsent
            if (share := ratio(sent, due)) is not None:
                yield share


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
