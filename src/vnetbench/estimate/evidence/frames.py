"""Evidence of frames: where those were lost that did not arrive, and the threads that had to take them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import EvidenceValues, percent, sum_known, total_duration_s
from vnetbench.estimate.evidence.metric import YES_OR_NO, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.frame_losses import (
    AT_SWITCH,
    BEFORE_LINK,
    BEFORE_RECEIVER,
    ELSEWHERE,
    IN_BACKLOG,
)
from vnetbench.estimate.frames import FRAMES_SENT, stream_totals
from vnetbench.estimate.guests import parse_thread_name
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import Sample

OF_LOST_FRAMES = "% of lost frames"
FEWEST_LOST = 50
"""Of fewer it is not told where they were lost: a moment's trouble is no limit."""
_PLACES = {
    AT_SWITCH: (
        "lost at the switch",
        "that a virtual switch, or a guest that forwards, had no room for as they came, or took in and did "
        "not hand on",
        ("interfaces[].rx_dropped", "interfaces[].rx_packets", "interfaces[].tx_packets"),
    ),
    BEFORE_LINK: (
        "lost before a link",
        "that queueing disciplines on the way dropped",
        ("interfaces[].qdisc.drops",),
    ),
    IN_BACKLOG: (
        "lost in a CPU's backlog",
        "for which the queue of the CPU that was to take them in was full",
        ("softnet_dropped",),
    ),
    BEFORE_RECEIVER: (
        "lost before the receiver",
        "that the receivers' interfaces had no room for, as the ports that lead to them count",
        ("interfaces[].tx_dropped",),
    ),
    ELSEWHERE: (
        "lost where nothing counts",
        "that no counter on their way saw dropped",
        ("frames_sent", "frames_received", "interfaces[]"),
    ),
}
_THREADS = (
    ("switch", ("switch", "ovs-vswitchd"), "switch", "that take in what comes to the virtual switch"),
    ("sink", ("sink",), "sink", "that take in what comes to the receivers, and count frames"),
)
"""The figures' names, the kinds of threads, and how they are called."""

FRAME_EVIDENCE_METRICS = (
    EvidenceMetric(
        "frames_lost_percent",
        "% of frames",
        "frames lost",
        "share of the frames sent that did not arrive, of the whole trial; with a search of those of its "
        "steps that lost too many a little above the throughput",
        ("frames_sent", "frames_received"),
    ),
    EvidenceMetric(
        "frames_unpaced",
        YES_OR_NO,
        "sent without a rate",
        "1 where frames are sent as fast as they can be, 0 where at a rate",
        ("pacing",),
    ),
    *(
        EvidenceMetric(
            f"lost_{place}_percent",
            OF_LOST_FRAMES,
            label,
            f"share of these lost frames {meaning}; absent where fewer than {FEWEST_LOST} were lost",
            counters,
        )
        for place, (label, meaning, counters) in _PLACES.items()
    ),
    *(
        figure
        for name, _, label, what in _THREADS
        for figure in (
            EvidenceMetric(
                f"{name}_thread_busy_percent",
                "% of one CPU",
                f"{label}'s CPU",
                f"CPU time of that of the threads {what} which ran and waited the most",
                ("threads[].cpu_s",),
            ),
            EvidenceMetric(
                f"{name}_thread_waiting_percent",
                "% of time",
                f"{label}'s wait for a CPU",
                "for how much of the time this thread could have run and had no CPU",
                ("threads[].waited_s",),
            ),
            EvidenceMetric(
                f"{name}_thread_runnable_percent",
                "% of time",
                f"{label} ran or waited for a CPU",
                "both together",
                ("threads[].cpu_s", "threads[].waited_s"),
            ),
        )
    ),
)


def frame_evidence(case: TrialData) -> EvidenceValues:
    """The figures of FRAME_FIGURES."""
    losses = case.frame_losses
    if losses is None:
        return {}
    figures: EvidenceValues = {
        "frames_lost_percent": losses.lost_percent,
        "frames_unpaced": _unpaced(case.steady_part),
    }
    if losses.lost_frames >= FEWEST_LOST:
        figures |= {f"lost_{place}_percent": losses.percent_of_lost(place) for place in _PLACES}
    for name, kinds, _, _ in _THREADS:
        figures |= _of_threads(case.steady_part.host_samples, f"{name}_thread", kinds)
    return figures


def _unpaced(part: SteadyPart) -> float:
    sources = [
        stream for side, _ in part.senders for stream in stream_totals(side.totals) if FRAMES_SENT in stream
    ]
    return float(not any("pacing" in stream for stream in sources))


def _of_threads(host: Sequence[Sample], name: str, kinds: Sequence[str]) -> EvidenceValues:
    """Of the one thread of these kinds that could have run the most."""
    watched = [x for x in host if x.observation]
    ran, waited = Counter[str](), Counter[str]()
    for x in watched:
        assert x.observation
        ran.update(
            {
                thread: spent_s
                for thread, spent_s in x.observation.thread_cpu_s.items()
                if parse_thread_name(thread)[1] in kinds
            }
        )
        waited.update(
            {thread: waited_s for thread, waited_s in x.observation.thread_wait_s.items() if thread in ran}
        )
    if not ran:
        return {}
    busiest = max(ran, key=lambda thread: ran[thread] + waited[thread])
    busy = percent(ran[busiest], total_duration_s(watched))
    waiting = percent(waited[busiest], total_duration_s(watched)) if busiest in waited else None
    return {
        f"{name}_busy_percent": busy,
        f"{name}_waiting_percent": waiting,
        f"{name}_runnable_percent": sum_known(busy, waiting),
    }
