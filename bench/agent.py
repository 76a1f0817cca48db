"""Our own side: trials of the agent, told in the same terms as the runs of the peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.testbed import PeerTestbed
from bench.load import Answered, Asking, Carried, Datagrams, Delivered, Streams, agreed
from bench.peers.sockperf import COOLDOWN_S, WARMUP_S
from bench.programs import RunFailed
from vnetbench.agents.client import AgentError
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement, measure_trial
from vnetbench.errors import BenchError
from vnetbench.estimate.latency import merge_histograms, quantile_us
from vnetbench.lab.errors import TrialFailed
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import UDP_STREAM, TCP_RR, TCP_STREAM

TOOL = "vnetbench"
SAMPLED_EVERY_S = 0.1
_FINE_S = 0.05


def trial(
    ground: PeerTestbed,
    workload: str,
    seconds: float,
    levels: Mapping[str, Level],
    sampled_every_s: float = SAMPLED_EVERY_S,
) -> TrialMeasurement:
    """One trial; raises RunFailed."""
    try:
        load = TrialLoad(complete_levels(levels, workload), seconds, sampled_every_s, workload)
        return measure_trial(ground.testbed, ground.observer, load)
    except (BenchError, TrialFailed, AgentError) as error:
        raise RunFailed(str(error)) from error


def side(measured: TrialMeasurement, role: str) -> EndpointRecord:
    """The record of the source, the sink, or the host that observes."""
    return next(record for record in measured.endpoints if record.role == role)


def streams(ground: PeerTestbed, load: Streams, levels: Mapping[str, Level]) -> Carried:
    """TCP: what the sink had read when the time was over; what it read later is not counted."""
    asked = {"streams": load.count, "message_size": load.message_bytes or 1 << 20, **levels}
    measured, counted = ground.observe_run(lambda: trial(ground, TCP_STREAM, load.seconds, asked))
    in_time = [s for s in side(measured, "sink").samples if s.t_s <= load.seconds + _FINE_S]
    if not in_time:
        raise RunFailed("the sink has given no sample in time")
    return agreed(Carried(sum(s.bytes_received for s in in_time), in_time[-1].t_s, counted))


def asking(ground: PeerTestbed, load: Asking) -> Answered:
    """tcp_rr; what comes in the first 400 ms and the last 50 ms is left out, as sockperf does by itself."""
    asked: dict[str, Level] = {
        "request_size": load.size_bytes,
        "response_size": load.size_bytes,
        "waiting": load.waiting,
    }
    measured = trial(ground, TCP_RR, load.seconds, asked, _FINE_S)
    latest_s = load.seconds - COOLDOWN_S + _FINE_S / 2
    kept = [s for s in side(measured, "source").samples if WARMUP_S + _FINE_S / 2 < s.t_s < latest_s]
    latency = merge_histograms(sample.histograms["latency"] for sample in kept)
    p50, p99 = quantile_us(latency, 0.5), quantile_us(latency, 0.99)
    if p50 is None or p99 is None:
        raise RunFailed("too few answers")
    return Answered(p50, p99)


def datagrams(ground: PeerTestbed, load: Datagrams, segmented: str) -> Delivered:
    """udp_stream, one flow; a paced source spins until a datagram is due. `segmented`: on or off."""
    asked: dict[str, Level] = {
        "datagram_size": load.size_bytes,
        "rate": load.rate_per_s or "none",
        "udp_gso": segmented,
        "udp_gro": segmented,
    }
    measured, counted = ground.observe_run(lambda: trial(ground, UDP_STREAM, load.seconds, asked))
    source: Mapping[str, Any] = side(measured, "source").totals
    sink: Mapping[str, Any] = side(measured, "sink").totals
    seconds = float(source["duration_s"])
    if segmented == "on":  # the kernel counts a packet of many segments once
        return Delivered(_total(source, "datagrams"), _total(sink, "datagrams"), seconds)
    return Delivered(counted.datagrams_sent, counted.datagrams_received, seconds)


def _total(totals: Mapping[str, Any], count: str) -> float:
    return float(sum(stream[count] for stream in totals["streams"]))
