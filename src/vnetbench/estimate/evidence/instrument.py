"""Evidence of the instrument: timing, rates, and its own CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    median,
    percent,
    ratio,
    sum_known_values,
    to_number,
)
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.frames import read_search_result
from vnetbench.quantity import CPU_SUM_UNIT
from vnetbench.results.records import EndpointRecord, mapping_or_empty

_MIN_SHARE_OF_REQUESTED_RATE = 0.99
"""A source that sends a smaller share of its rate does not keep the rate (RFC 2544, section 26.1)."""

INSTRUMENT_EVIDENCE_METRICS = (
    EvidenceMetric(
        "sampler_late_percent",
        "% of an interval",
        "largest delay of a sample",
        "time by which the most delayed sample of the trial was late, as a share of the sampling interval",
        ("sampler_lateness_max_s",),
    ),
    EvidenceMetric(
        "sampler_cpu_percent",
        CPU_SUM_UNIT,
        "CPU time of samplers and bench",
        "CPU time of all agents' samplers and of the bench while the load runs. In a trial with a search, "
        "the bench's CPU time is not counted",
        ("sampler_cpu_s", "bench_cpu_s"),
    ),
    EvidenceMetric(
        "samples_lost",
        "1",
        "lost samples",
        "number of samples in the whole trial that were lost because the bench read them too late",
        ("events_lost",),
    ),
    EvidenceMetric(
        "rate_achieved_percent",
        "% of the requested load",
        "sent share of the requested load",
        "share of the requested load that was sent in the whole trial, of the source with the lowest share. "
        "Absent with a search, whose result states whether the generator limited it",
        ("pacing.sent", "pacing.due", "pacing.unsent"),
    ),
    EvidenceMetric(
        "generator_limited",
        YES_OR_NO_UNIT,
        "generator at its limit",
        f"1 if a source sent less than {100 * _MIN_SHARE_OF_REQUESTED_RATE:g} % of its requested load, or "
        "if the "
        "generator limited the search for the first loss goal",
        ("pacing.sent", "pacing.due", "pacing.unsent", "search"),
    ),
    EvidenceMetric(
        "delay_line_drop_percent",
        "% of frames",
        "frames dropped by the delay line",
        "share of the frames of the whole trial that the bench's own delay line dropped because its buffer "
        "was full or its output port rejected them, of the direction with the largest share. Requested "
        "losses do not count",
        ("delay_lines[].queue_drops", "delay_lines[].port_drops", "delay_lines[].frames"),
    ),
)


def instrument_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of INSTRUMENT_EVIDENCE_METRICS, which cover the whole trial."""
    trial = data.steady_part.trial
    reports = [
        (endpoint, mapping_or_empty(endpoint.totals.get("instrument"))) for endpoint in trial.endpoints
    ]
    sampler_cpu_s = [to_number(report.get("sampler_cpu_s")) for _, report in reports]
    search_limits = [
        goal_result["limited_by"] for goal_result in read_search_result(trial).get("goal_results", ())[:1]
    ]
    rate_shares = [] if search_limits else list(_shares_of_requested_rate(trial.endpoints))
    # In a short step, most of the bench's CPU time is for its preparation.
    bench_cpu_s = (
        [] if search_limits else [to_number(each.totals.get("bench_cpu_s")) for each in trial.endpoints]
    )
    limited = [
        *(share < _MIN_SHARE_OF_REQUESTED_RATE for share in rate_shares),
        *(limit == "generator" for limit in search_limits),
    ]
    return {
        "sampler_late_percent": largest(
            percent(to_number(report.get("sampler_lateness_max_s")), _median_sampling_interval_s(endpoint))
            for endpoint, report in reports
        ),
        "sampler_cpu_percent": percent(
            sum_known_values(*sampler_cpu_s, *bench_cpu_s), trial.idle_s + trial.duration_s
        ),
        "samples_lost": sum_known_values(*(to_number(report.get("events_lost")) for _, report in reports)),
        "rate_achieved_percent": 100 * min(rate_shares) if rate_shares else None,
        "generator_limited": float(any(limited)) if limited else None,
        "delay_line_drop_percent": largest(_delay_line_unintended_loss_percents(trial.endpoints)),
    }


def _delay_line_unintended_loss_percents(endpoints: Sequence[EndpointRecord]) -> Iterator[float | None]:
    """Yield the unintended frame loss of each direction of each delay line, in percent of all frames."""
    for endpoint in endpoints:
        lines = endpoint.totals.get("delay_lines")
        for line in lines if isinstance(lines, list) else ():
            for direction in ("forward", "reverse"):
                counts = mapping_or_empty(
                    mapping_or_empty(mapping_or_empty(line).get(direction)).get("counts")
                )
                dropped = sum_known_values(
                    to_number(counts.get("queue_drops")), to_number(counts.get("port_drops"))
                )
                yield percent(dropped, sum_known_values(dropped, to_number(counts.get("frames"))))


def _median_sampling_interval_s(endpoint: EndpointRecord) -> float | None:
    """Return the median interval, close to the requested one: a late sample shortens the next one."""
    return median(x.interval_s for x in endpoint.samples)


def _shares_of_requested_rate(endpoints: Sequence[EndpointRecord]) -> Iterator[float]:
    """Yield the share of the requested rate that each paced source sent."""
    for endpoint in endpoints:
        streams = endpoint.totals.get("streams")
        sources = [endpoint.totals.get("instrument"), *(streams if isinstance(streams, list) else ())]
        for source in sources:
            pacing = mapping_or_empty(mapping_or_empty(source).get("pacing"))
            due, unsent = to_number(pacing.get("due")), to_number(pacing.get("unsent"))
            sent = to_number(pacing.get("sent")) if unsent is None or due is None else due - unsent
            if (share := ratio(sent, due)) is not None:
                yield share
