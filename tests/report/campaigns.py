"""Synthetic campaign summaries with everything that a report can contain."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import binom

from tests import fixtures
from vnetbench.estimate.model import Estimate, Mode
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.study.model import FactorLevels, Level, Precision, Timing

GBIT = 1e9
HOST_FACTS: Mapping[str, object] = {
    "kernel": {"release": "6.18.1-amd64", "version": "#1 SMP", "machine": "x86_64"},
    "hostname": "bench-7",
    "cpu": {"model": "AMD EPYC 7763", "count": 4, "online": "0-3", "mhz": 2450.0},
    "memory_bytes": 25_000_000_000,
    "tcp": {"congestion_control": "cubic", "rmem": "4096 131072 33554432", "wmem": "4096 16384 33554432"},
    "perf": {
        "process_cycles": "hardware",
        "system_cycles": "estimated",
        "reason": "perf_event_paranoid is 2",
    },
    "pid": 4711,
}
STUDY_TEXT = 'title = "Do jumbo frames help?"\n\n[factors]\nstreams = "1, 2, 4 .. 16"\nmtu = [1500, 9000]\n'


def estimate(
    values: Sequence[float], modes: tuple[Mode, ...] = (), outliers: tuple[int, ...] = ()
) -> Estimate:
    """Return the median with its order-statistic interval; fewer than six values have none."""
    ordered = sorted(values)
    n = len(ordered)
    rank = int(binom.ppf(0.025, n, 0.5))
    enough = n >= 6
    modality = "two" if modes else "one" if n >= 20 else "unknown"
    return Estimate(
        value=float(np.median(ordered)),
        low=ordered[rank - 1 if rank else 0] if enough else None,
        high=ordered[n - rank if rank else n - 1] if enough else None,
        confidence=0.95,
        trial_count=n,
        modality=modality,
        modes=modes,
        outliers=outliers,
    )


def trial_values(goodput_bps: float, segment_bytes: float) -> dict[str, float]:
    """Return the metrics of a trial with this goodput: CPU usage grows with packets and bytes."""
    packets = goodput_bps / 8 / segment_bytes
    receiver = 100 * (packets * 0.35e-6 + goodput_bps / 8 * 0.11e-9)
    sender = receiver * 0.8
    return {
        "goodput_bps": goodput_bps,
        "sender_cpu_percent": sender,
        "receiver_cpu_percent": receiver,
        "host_cpu_percent": (sender + receiver) / 4,
        "cycles_per_byte": (sender + receiver) / 100 * 2.45e9 / (goodput_bps / 8),
        "packets_per_s": packets,
        "mean_segment_bytes": segment_bytes,
        "interrupts_per_s": 900 + packets / 400,
        "retransmits_per_s": 0.0,
        "rtt_us": 40 + goodput_bps / 1e9,
    }


def course(rng: np.random.Generator, goodput_bps: float, warmup_s: float) -> tuple[float, ...]:
    """Return a second of 50 ms samples that rise through the warm-up and then vary around the goodput."""
    ends = np.arange(1, 21) * 0.05
    rise = np.minimum(1.0, 0.4 + 0.6 * ends / (warmup_s + 0.05)) if warmup_s else np.ones(20)
    return tuple((goodput_bps * rise * np.exp(rng.normal(0, 0.02, 20))).tolist())


def treatment(
    rng: np.random.Generator,
    index: int,
    factors: Mapping[str, Level],
    goodput_bps: float,
    *,
    trials: int = 9,
    spread: float = 0.02,
    segment_bytes: float = 30_000.0,
    stopped_by: str = "precision",
    second_mode: float | None = None,
    order: int = 20,
) -> TreatmentSummary:
    """Return a treatment with `trials` points, a third of them at `second_mode` times the goodput."""
    levels = np.full(trials, goodput_bps)
    if second_mode is not None:
        levels[rng.permutation(trials)[: trials // 3]] *= second_mode
    goodputs = levels * np.exp(rng.normal(0, spread, trials))
    points = []
    for position, goodput in enumerate(goodputs):
        warmup = float(np.round(rng.choice([0.0, 0.1, 0.15, 0.3]), 2))
        points.append(
            TrialPoint(
                trial_id=1 + index + position * order,
                block=position,
                since_campaign_start_s=(position * order + float(rng.permutation(order)[0])) * 1.6,
                duration_s=1.0,
                warmup_s=warmup,
                has_steady_state=bool(rng.random() > 0.03),
                time_series=course(rng, float(goodput), warmup),
                values=trial_values(float(goodput), segment_bytes * float(np.exp(rng.normal(0, 0.01)))),
                notes=("the sender's sampler was 12 ms late",) if index == 3 and position == 2 else (),
            )
        )
    modes: tuple[Mode, ...] = ()
    if second_mode is not None:
        share = (trials // 3) / trials
        both = (Mode(goodput_bps * second_mode, share), Mode(goodput_bps, 1 - share))
        modes = tuple(sorted(both, key=lambda mode: mode.value))
    metrics = {}
    for name in points[0].values if points else ():
        series = [point.values[name] for point in points]
        metrics[name] = estimate(series, modes if name == "goodput_bps" else ())
    return TreatmentSummary(
        index=index,
        factors=factors,
        effective={
            "congestion_control": "cubic",
            "mtu": {"vm1": factors.get("mtu", 1500), "vm2": factors.get("mtu", 1500)},
        },
        stop_reason=stopped_by,
        metrics=metrics,
        points=tuple(points),
    )


def unmeasured(index: int, factors: Mapping[str, Level], stopped_by: str, reason: str) -> TreatmentSummary:
    """Return a treatment without trials."""
    return TreatmentSummary(index, factors, {}, stopped_by, {}, (), failures=(reason,))


def campaign(
    title: str,
    question: str,
    factors: Sequence[FactorLevels],
    treatments: Sequence[TreatmentSummary],
    *,
    status: str = "finished",
    warnings: tuple[str, ...] = (),
) -> CampaignSummary:
    """Return a campaign summary with these treatments."""
    return CampaignSummary(
        path="jumbo.vnb",
        title=title,
        question=question,
        workload="tcp_stream",
        study_text=STUDY_TEXT,
        overrides=("streams=1,2,4..16",),
        seed=20170321,
        status=status,
        started_at="2026-03-21T09:30:00Z",
        elapsed_s=412.5,
        required_precision=Precision(campaign_time_limit_s=600.0),
        timing=Timing(),
        factors=tuple(factors),
        treatments=tuple(treatments),
        testbed={"lab": "netns", "endpoints": ["vm1", "vm2"], "vswitch": "bridge"},
        facts={
            "host": dict(HOST_FACTS),
            "vm1": {"driver": "veth", "agent_version": "0.1.0"},
            "vm2": {"driver": "veth"},
        },
        warnings=warnings,
    )


def jumbo_campaign(seed: int = 1, faster: float = 1.0) -> CampaignSummary:
    """Return 20 treatments of streams × direction × MTU; some bimodal, refused, failed or out of time."""
    rng = np.random.default_rng(seed)
    factors = [
        FactorLevels("streams", (1, 2, 4, 8, 16)),
        FactorLevels("direction", ("forward", "reverse")),
        FactorLevels("mtu", (1500, 9000)),
        FactorLevels("congestion_control", ("cubic",)),
        FactorLevels("vswitch", ("bridge",)),
    ]
    scale = {1: 1.0, 2: 1.7, 4: 2.6, 8: 2.75, 16: 2.5}
    treatments = []
    product = itertools.product((1, 2, 4, 8, 16), ("forward", "reverse"), (1500, 9000))
    for index, (streams, direction, mtu) in enumerate(product):
        levels: dict[str, Level] = {
            "streams": streams, "direction": direction, "mtu": mtu,
            "congestion_control": "cubic", "vswitch": "bridge",
        }  # fmt: skip
        mean = (
            17.0
            * GBIT
            * scale[streams]
            * (1.42 if mtu == 9000 else 1.0)
            * (0.93 if direction == "reverse" else 1.0)
        )
        size = 44_000.0 if mtu == 9000 else 24_000.0
        if (streams, direction, mtu) == (16, "reverse", 1500):
            treatments.append(
                unmeasured(index, levels, "failed", "vm2: the agent's connection closed in trial 97")
            )
        elif (streams, direction, mtu) == (2, "reverse", 9000):
            reason = "the path carries 1500 bytes, not 9000: port vsw0-p2 of the vSwitch; set its MTU to 9000"
            treatments.append(unmeasured(index, levels, "refused", reason))
        elif (streams, direction, mtu) == (8, "reverse", 9000):
            treatments.append(
                treatment(rng, index, levels, 64 * GBIT * faster, trials=30, second_mode=0.68,
                          segment_bytes=size, stopped_by="trial limit")
            )  # fmt: skip
        else:
            late = index in (12, 14)
            treatments.append(
                treatment(rng, index, levels, mean * faster, trials=4 if index == 14 else 6 if late else 9,
                          segment_bytes=size, spread=0.06 if late else 0.015,
                          stopped_by="time limit" if late else "precision")
            )  # fmt: skip
    return campaign(
        "Do jumbo frames help?",
        "Is TCP faster with an MTU of 9000 than with 1500, and with how many streams?",
        factors,
        treatments,
        warnings=("cycles of the host are estimated: perf_event_paranoid is 2",),
    )


def surface_campaign() -> CampaignSummary:
    """Return 64 treatments of socket buffer × message size, for a heat map."""
    rng = np.random.default_rng(3)
    buffers: tuple[Level, ...] = (*(8192 * 2**step for step in range(7)), "auto")
    messages: tuple[Level, ...] = (64, 256, 1024, 2048, 4096, 8192, 16384, 65536)
    treatments = []
    for index, (buffer, message) in enumerate(itertools.product(buffers, messages)):
        window = 1e8 if buffer == "auto" else float(buffer)
        calls = float(message) * 8 * 900_000
        bound = min(window * 8 / 60e-6, calls, 32 * GBIT)
        treatments.append(
            treatment(rng, index, {"socket_buffer": buffer, "message_size": message}, bound, trials=6,
                      segment_bytes=1448 + 20 * float(message) ** 0.7, order=64)
        )  # fmt: skip
    factors = [FactorLevels("socket_buffer", buffers), FactorLevels("message_size", messages)]
    return campaign(
        "Socket buffer and message size", "Which buffer and message size are enough?", factors, treatments
    )


def placement_campaign() -> CampaignSummary:
    """Return six treatments of categorical factors."""
    rng = np.random.default_rng(4)
    factors = [
        FactorLevels("irq_cpus", ("own", "other", "spread")),
        FactorLevels("cpus", ("0", "0-1")),
    ]
    treatments = []
    for index, (irq, cpus) in enumerate(itertools.product(*(factor.levels for factor in factors))):
        mean = {"own": 18.0, "other": 24.0, "spread": 26.0}[str(irq)] * (1.1 if cpus == "0-1" else 1.0) * GBIT
        treatments.append(treatment(rng, index, {"irq_cpus": irq, "cpus": cpus}, mean, trials=9, order=6))
    return campaign("Where should interrupts be served?", "Does placement matter?", factors, treatments)


def single_campaign() -> CampaignSummary:
    """Return a single treatment."""
    rng = np.random.default_rng(5)
    only = treatment(rng, 0, {"streams": 1, "mtu": 1500}, 17.2 * GBIT, trials=9, order=1)
    factors = [FactorLevels("streams", (1,)), FactorLevels("mtu", (1500,))]
    return campaign("One stream", "How fast is one stream?", factors, [only])


def empty_campaign() -> CampaignSummary:
    """Return a campaign that was interrupted before the end of its first trial."""
    factors = [FactorLevels("streams", (1, 4))]
    treatments = [
        TreatmentSummary(index, {"streams": streams}, {}, "interrupted", {}, ())
        for index, streams in enumerate((1, 4))
    ]
    return campaign("Stopped at once", "", factors, treatments, status="interrupted")


def requests_campaign() -> CampaignSummary:
    """Return six treatments of requests with the 99th percentile as the deciding metric."""
    rng = np.random.default_rng(6)
    factors = [
        FactorLevels("request_size", (1, 1024, 65536)),
        FactorLevels("waiting", ("block", "spin")),
    ]
    treatments = []
    for index, (size, waiting) in enumerate(itertools.product(*(factor.levels for factor in factors))):
        median = (60.0 if waiting == "block" else 9.0) * (2.0 if size == 65536 else 1.0)
        points = []
        for block in range(9):
            p50 = median * float(np.exp(rng.normal(0, 0.02)))
            values = {
                "transactions_per_s": 1e6 / p50, "latency_p50_us": p50, "latency_p99_us": 3 * p50,
                "cycles_per_transaction": 900 * p50,
            }  # fmt: skip
            points.append(TrialPoint(1 + index + 6 * block, block, 1.6 * block, 1.0, 0.0, True, values))
        metrics = {name: estimate([p.values[name] for p in points]) for name in points[0].values}
        latencies = tuple(
            (round(1000 * median * factor), count)
            for factor, count in ((1, 50_000), (1.5, 40_000), (3, 9_000), (8, 900), (40, 99), (200, 1))
        )
        levels: dict[str, Level] = {"request_size": size, "waiting": waiting}
        treatments.append(
            TreatmentSummary(
                index, levels, {}, "precision", metrics, tuple(points), latency_histogram=latencies
            )
        )  # fmt: skip
    found = campaign("How long does an answer take?", "Does spinning help?", factors, treatments)
    return replace(found, workload="tcp_rr", deciding_metric="latency_p99_us")


def mixed_campaign(folder: Path) -> CampaignSummary:
    """Return six treatments of latency under load; cubic fills their queues and bbr half of them."""
    study = fixtures.make_study(
        'title = "Made up"\nworkload = "mixed"\n[factors]\nlink_rate = "1 Gbit/s"\n'
        'link_queue = "4 ms, 16 ms, 64 ms"\ncongestion_control = ["cubic", "bbr"]\n'
    )
    file, plan = fixtures.create_results_file(folder / "r.vnb", study)
    for treatment in plan.treatments:
        share = 0.9 if treatment.factors["congestion_control"] == "cubic" else 0.5
        increase_us = 1e6 * float(treatment.factors["link_queue"]) * share
        for block in range(6):
            trial = fixtures.make_mixed_trial(treatment.index, block, increase_us=increase_us, filling=3)
            file.add_trial(trial, 1.0)
    try:
        return summarize(file)
    finally:
        file.close("finished")
