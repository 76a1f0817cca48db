"""Evidence of frames: where lost frames were lost, and the threads that receive frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    limit_waiting_to_time_not_busy_percent,
    percent_at_most_100,
    sum_known_values,
    total_duration_s,
)
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.frame_losses import (
    AT_SWITCH,
    BEFORE_LINK,
    BEFORE_RECEIVER,
    ELSEWHERE,
    IN_BACKLOG,
)
from vnetbench.estimate.frames import FRAMES_SENT, final_stream_counts
from vnetbench.estimate.guests import split_owner_and_thread_kind
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import Sample

PERCENT_OF_LOST_FRAMES = "% of lost frames"
MIN_LOST_FRAMES_FOR_LOCATION = 50
"""Fewer losses are not located: a momentary disturbance is not a limit."""
_LABEL_MEANING_COUNTERS_BY_DROP_LOCATION = {
    AT_SWITCH: (
        "frames lost at the switch",
        "share of the lost frames that a virtual switch or a forwarding guest dropped on arrival, or "
        "received and did not forward",
        ("interfaces[].rx_dropped", "interfaces[].rx_packets", "interfaces[].tx_packets"),
    ),
    BEFORE_LINK: (
        "frames lost in queueing disciplines",
        "share of the lost frames that queueing disciplines on the path dropped",
        ("interfaces[].qdisc.drops",),
    ),
    IN_BACKLOG: (
        "frames lost in a CPU's backlog",
        "share of the lost frames that were dropped because the backlog queue of the receiving CPU was full",
        ("softnet_dropped",),
    ),
    BEFORE_RECEIVER: (
        "frames lost before the receiver",
        "share of the lost frames that the receivers' interfaces did not accept, as counted by the ports "
        "that lead to these interfaces",
        ("interfaces[].tx_dropped",),
    ),
    ELSEWHERE: (
        "frames lost at an unknown location",
        "share of the lost frames that no counter on the path shows as dropped",
        ("frames_sent", "frames_received", "interfaces[]"),
    ),
}
"""Drop location to label, meaning and counters."""
_METRIC_PREFIXES_THREAD_KINDS_AND_TEXTS = (
    ("switch", ("switch", "ovs-vswitchd"), "thread that receives frames for the virtual switch"),
    ("sink", ("sink",), "thread that receives and counts frames for the receivers"),
)
"""Prefix of the metrics' names, which is also their label, the kinds of threads, and their description."""

FRAME_EVIDENCE_METRICS = (
    EvidenceMetric(
        "frames_lost_percent",
        "% of frames",
        "lost frames",
        "share of the sent frames that did not arrive in the whole trial. With a search, the share in the "
        "steps that exceeded the loss goal at a load slightly above the throughput",
        ("frames_sent", "frames_received"),
    ),
    EvidenceMetric(
        "frames_unpaced",
        YES_OR_NO_UNIT,
        "frames sent as fast as possible",
        "1 if the sources send frames as fast as possible, 0 if they send at a rate",
        ("pacing",),
    ),
    *(
        EvidenceMetric(
            f"lost_{location}_percent",
            PERCENT_OF_LOST_FRAMES,
            label,
            f"{meaning}. Absent for fewer than {MIN_LOST_FRAMES_FOR_LOCATION} lost frames",
            counters,
        )
        for location, (label, meaning, counters) in _LABEL_MEANING_COUNTERS_BY_DROP_LOCATION.items()
    ),
    *(
        metric
        for prefix, _, thread in _METRIC_PREFIXES_THREAD_KINDS_AND_TEXTS
        for metric in (
            EvidenceMetric(
                f"{prefix}_thread_busy_percent",
                "% of one CPU",
                f"{prefix} thread's CPU",
                f"CPU time of the busiest {thread}: the one with the most running and waiting time",
                ("threads[].cpu_s",),
            ),
            EvidenceMetric(
                f"{prefix}_thread_waiting_percent",
                "% of time",
                f"{prefix} thread's time waiting for a CPU",
                f"share of the time in which the busiest {thread} was runnable and had no CPU",
                ("threads[].waited_s",),
            ),
            EvidenceMetric(
                f"{prefix}_thread_runnable_percent",
                "% of time",
                f"{prefix} thread's time on a CPU or waiting for one",
                f"share of the time in which the busiest {thread} ran or waited for a CPU",
                ("threads[].cpu_s", "threads[].waited_s"),
            ),
        )
    ),
)


def frame_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of FRAME_EVIDENCE_METRICS; none without frames."""
    losses = data.frame_losses
    if losses is None:
        return {}
    values: EvidenceValues = {
        "frames_lost_percent": losses.lost_percent,
        "frames_unpaced": _one_if_unpaced(data.steady_part),
    }
    if losses.lost_frames >= MIN_LOST_FRAMES_FOR_LOCATION:
        values |= {
            f"lost_{location}_percent": losses.percent_of_lost(location)
            for location in _LABEL_MEANING_COUNTERS_BY_DROP_LOCATION
        }
    for prefix, kinds, _ in _METRIC_PREFIXES_THREAD_KINDS_AND_TEXTS:
        values |= _busiest_thread_values(data.steady_part.host_samples, f"{prefix}_thread", kinds)
    return values


def _one_if_unpaced(part: SteadyPart) -> float:
    sources = [
        stream
        for endpoint, _ in part.senders
        for stream in final_stream_counts(endpoint.totals)
        if FRAMES_SENT in stream
    ]
    return float(not any("pacing" in stream for stream in sources))


def _busiest_thread_values(
    host_samples: Sequence[Sample], prefix: str, kinds: Sequence[str]
) -> EvidenceValues:
    """Return the values of the thread of these kinds with the most running and waiting time."""
    observed = [x for x in host_samples if x.observation]
    cpu_s, wait_s = Counter[str](), Counter[str]()
    for x in observed:
        assert x.observation
        cpu_s.update(
            {
                thread: time_s
                for thread, time_s in x.observation.thread_cpu_s.items()
                if split_owner_and_thread_kind(thread)[1] in kinds
            }
        )
        wait_s.update(
            {thread: time_s for thread, time_s in x.observation.thread_wait_s.items() if thread in cpu_s}
        )
    if not cpu_s:
        return {}
    busiest = max(cpu_s, key=lambda thread: cpu_s[thread] + wait_s[thread])
    duration_s = total_duration_s(observed)
    busy = percent_at_most_100(cpu_s[busiest], duration_s)
    waiting = percent_at_most_100(wait_s[busiest], duration_s) if busiest in wait_s else None
    waiting = limit_waiting_to_time_not_busy_percent(waiting, busy)
    return {
        f"{prefix}_busy_percent": busy,
        f"{prefix}_waiting_percent": waiting,
        f"{prefix}_runnable_percent": sum_known_values(busy, waiting),
    }
