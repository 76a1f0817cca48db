"""Evidence of frames: where those were lost that did not arrive, and the threads that had to take them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import Figures, percent, plus, seconds_of
from vnetbench.estimate.evidence.metric import YES_OR_NO, Figure
from vnetbench.estimate.frame_losses import (
    AT_SWITCH,
    BEFORE_LINK,
    BEFORE_RECEIVER,
    ELSEWHERE,
    IN_BACKLOG,
)
from vnetbench.estimate.frames import SENT, streams_in
from vnetbench.estimate.guests import owner_and_kind
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

FRAME_FIGURES = (
    Figure(
        "frames_lost_percent",
        "% of frames",
        "frames lost",
        "share of the frames sent that did not arrive, of the whole trial; with a search of those of its "
        "steps that lost too many a little above the throughput",
        ("frames_sent", "frames_received"),
    ),
    Figure(
        "frames_unpaced",
        YES_OR_NO,
        "sent without a rate",
        "1 where frames are sent as fast as they can be, 0 where at a rate",
        ("pacing",),
    ),
    *(
        Figure(
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
            Figure(
                f"{name}_thread_busy_percent",
                "% of one CPU",
                f"{label}'s CPU",
                f"CPU time of that of the threads {what} which ran and waited the most",
                ("threads[].cpu_s",),
            ),
            Figure(
                f"{name}_thread_waiting_percent",
                "% of time",
                f"{label}'s wait for a CPU",
                "for how much of the time this thread could have run and had no CPU",
                ("threads[].waited_s",),
            ),
            Figure(
                f"{name}_thread_runnable_percent",
                "% of time",
                f"{label} ran or waited for a CPU",
                "both together",
                ("threads[].cpu_s", "threads[].waited_s"),
            ),
        )
    ),
)


def frame_evidence(case: Case) -> Figures:
    """The figures of FRAME_FIGURES."""
    losses = case.frames
    if losses is None:
        return {}
    figures: Figures = {"frames_lost_percent": losses.lost_percent, "frames_unpaced": _unpaced(case.part)}
    if losses.lost >= FEWEST_LOST:
        figures |= {f"lost_{place}_percent": losses.percent_of_lost(place) for place in _PLACES}
    for name, kinds, _, _ in _THREADS:
        figures |= _of_threads(case.part.host, f"{name}_thread", kinds)
    return figures


def _unpaced(part: SteadyPart) -> float:
    sources = [stream for side, _ in part.senders for stream in streams_in(side.totals) if SENT in stream]
    return float(not any("pacing" in stream for stream in sources))


def _of_threads(host: Sequence[Sample], name: str, kinds: Sequence[str]) -> Figures:
    """Of the one thread of these kinds that could have run the most."""
    watched = [x for x in host if x.watched]
    ran, waited = Counter[str](), Counter[str]()
    for x in watched:
        assert x.watched
        ran.update(
            {
                thread: spent_s
                for thread, spent_s in x.watched.threads.items()
                if owner_and_kind(thread)[1] in kinds
            }
        )
        waited.update({thread: waited_s for thread, waited_s in x.watched.waited.items() if thread in ran})
    if not ran:
        return {}
    busiest = max(ran, key=lambda thread: ran[thread] + waited[thread])
    busy = percent(ran[busiest], seconds_of(watched))
    waiting = percent(waited[busiest], seconds_of(watched)) if busiest in waited else None
    return {
        f"{name}_busy_percent": busy,
        f"{name}_waiting_percent": waiting,
        f"{name}_runnable_percent": plus(busy, waiting),
    }
