"""Evidence of the instrument: whether it kept its times and its rates, and what it took for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import Figures, middle, most, number, over, percent, plus
from vnetbench.estimate.evidence.metric import YES_OR_NO, Figure
from vnetbench.estimate.frames import search_of
from vnetbench.results.records import SideRecord

_KEPT_SHARE = 0.99
"""Of what was due: a source that sends less does not keep its rate, as RFC 2544, section 26.1, wants it."""

INSTRUMENT_FIGURES = (
    Figure(
        "sampler_late_percent",
        "% of an interval",
        "latest sample",
        "by how much the latest sample of a trial came late",
        ("sampler_late_max_s",),
    ),
    Figure(
        "sampler_cpu_percent",
        "% of one CPU",
        "samplers and bench",
        "CPU time of all agents' samplers and of the bench in the whole trial; with a search of the samplers "
        "alone",
        ("sampler_cpu_s", "bench_cpu_s"),
    ),
    Figure(
        "samples_lost",
        "1",
        "samples lost",
        "of the whole trial, since the bench did not read in time",
        ("events_lost",),
    ),
    Figure(
        "rate_kept_percent",
        "% of what was due",
        "rate kept",
        "share of what was due at the asked rate in the whole trial that was sent, where it is the least; "
        "absent with a search, whose answer says whether the generator was its limit",
        ("pacing.sent", "pacing.due", "pacing.unsent"),
    ),
    Figure(
        "generator_limited",
        YES_OR_NO,
        "generator at its limit",
        f"1 where less than {100 * _KEPT_SHARE:g} % of what was due was sent, or a search, for its first "
        "accepted share, ended at what the generator can",
        ("pacing.sent", "pacing.due", "pacing.unsent", "search"),
    ),
    Figure(
        "delay_line_full_percent",
        "% of frames",
        "lost by a delay line itself",
        "share of the frames of the whole trial that the bench's own delay line had no room for, or that its "
        "far port did not take, where it is the greatest; those that it lost on purpose are none of them",
        ("delay_lines[].overflowed", "delay_lines[].refused", "delay_lines[].frames"),
    ),
)


def instrument_evidence(case: Case) -> Figures:
    """The figures of INSTRUMENT_FIGURES, of the whole trial."""
    trial = case.part.trial
    told = [(side, _mapping(side.totals.get("instrument"))) for side in trial.sides]
    own = [number(of_side.get("sampler_cpu_s")) for _, of_side in told]
    limits = [answer["limited_by"] for answer in search_of(trial).get("answers", ())[:1]]
    kept = [] if limits else list(_kept(trial.sides))
    # What the bench takes to prepare a step is most of what it takes in one that is short.
    bench = [] if limits else [number(side.totals.get("bench_cpu_s")) for side in trial.sides]
    has_limit = [*(share < _KEPT_SHARE for share in kept), *(limit == "generator" for limit in limits)]
    return {
        "sampler_late_percent": most(
            percent(number(of_side.get("sampler_late_max_s")), _interval_s(side)) for side, of_side in told
        ),
        "sampler_cpu_percent": percent(plus(*own, *bench), trial.idle_s + trial.duration_s),
        "samples_lost": plus(*(number(of_side.get("events_lost")) for _, of_side in told)),
        "rate_kept_percent": 100 * min(kept) if kept else None,
        "generator_limited": float(any(has_limit)) if has_limit else None,
        "delay_line_full_percent": most(_lost_in_lines(trial.sides)),
    }


def _lost_in_lines(sides: tuple[SideRecord, ...]) -> Iterator[float | None]:
    """Of each direction of each delay line the frames that it lost and should not have, in percent of all."""
    for side in sides:
        lines = side.totals.get("delay_lines")
        for line in lines if isinstance(lines, list) else ():
            for way in ("forward", "reverse"):
                counts = _mapping(_mapping(_mapping(line).get(way)).get("counts"))
                lost = plus(number(counts.get("overflowed")), number(counts.get("refused")))
                yield percent(lost, plus(lost, number(counts.get("frames"))))


def _interval_s(side: SideRecord) -> float | None:
    """As asked, nearly: a sample that comes late is longer, and the next one as much shorter."""
    return middle(x.interval_s for x in side.samples)


def _kept(sides: tuple[SideRecord, ...]) -> Iterator[float]:
    """Of each source with a rate the share of what was due that it sent."""
    for side in sides:
        streams = side.totals.get("streams")
        holders = [side.totals.get("instrument"), *(streams if isinstance(streams, list) else ())]
        for holder in holders:
            pacing = _mapping(_mapping(holder).get("pacing"))
            due, unsent = number(pacing.get("due")), number(pacing.get("unsent"))
            sent = number(pacing.get("sent")) if unsent is None or due is None else due - unsent
            if (share := over(sent, due)) is not None:
                yield share


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
