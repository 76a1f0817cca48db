"""Synthetic campaigns of frame workloads: searches and steps of simulated devices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.report.campaigns import campaign, estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.results.records import BURST_STEP, LOSS_CURVE_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import SearchParameters, SearchStep
from vnetbench.search.methods import run_search
from vnetbench.study.factors.frame_sizes import compute_mean_frame_bytes
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import BACK_TO_BACK, FRAME_LOSS, FRAMES, SOAK, THROUGHPUT_METRIC_NAMES

GOALS = (0.0, 1e-4, 5e-3)
_SIZES: tuple[Level, ...] = (64, 128, 256, 512, 1024, 1280, 1518, "imix")
_LIMITS_FPS = {"bridge": 1.9e6, "router": 1.2e6, "openvswitch": 2.4e5}


def searched(
    index: int,
    factors: Mapping[str, Level],
    limit_fps: float,
    trials: int = 3,
    goals: Sequence[float] = GOALS,
) -> TreatmentSummary:
    """Return a treatment whose trials each search the throughput of a device with about this limit."""
    direction_count = 2 if factors.get("direction") == "both" else 1
    points = []
    for block in range(trials):
        random = np.random.default_rng([index, block])
        physics = DeviceModel(
            limit_fps / direction_count * float(np.exp(random.normal(0, 0.02))), noise=0.004, early_from=0.8,
            early_ratio=2e-4,
        )  # fmt: skip
        parameters = SearchParameters(tuple(goals), 0.01, 1000.0, 4e6, 1.0)
        found = run_search("rfc2544", SimulatedDevice(physics, index + 100 * block), parameters, block)
        values = {
            name: direction_count * answer.throughput_fps
            for name, answer in zip(THROUGHPUT_METRIC_NAMES, found.goal_results, strict=False)
        }
        answers = [answer.to_json() for answer in found.goal_results]
        search = {
            "parameters": asdict(parameters),
            "goal_results": answers,
            "direction_count": direction_count,
        }
        points.append(
            _point(index, block, values, _records(SEARCH_STEP, found.steps, direction_count), search)
        )
    return _treatment(index, factors, points)


def throughput_campaign() -> CampaignSummary:
    """Return three virtual switches × eight frame sizes × two directions, with three searches each."""
    factors = [
        FactorLevels("vswitch", tuple(_LIMITS_FPS)),
        FactorLevels("frame_size", _SIZES),
        FactorLevels("direction", ("forward", "both")),
    ]
    treatments = []
    for index, levels in enumerate(itertools.product(*(factor.levels for factor in factors))):
        treated = dict(zip((factor.name for factor in factors), levels, strict=True))
        # Each frame and each byte has a cost.
        limit = 1 / (
            1 / _LIMITS_FPS[str(treated["vswitch"])] + compute_mean_frame_bytes(treated["frame_size"]) / 2e9
        )
        treatments.append(searched(index, treated, limit))
    found = campaign("Throughput of virtual switches", "Which forwards most?", factors, treatments)
    return replace(found, workload=FRAMES, deciding_metric="throughput_fps")


def forwarding_campaign() -> CampaignSummary:
    """Return routing guests: two adapters × two placements × two directions, with a published table."""
    factors = [
        FactorLevels("adapter", ("virtio-net", "e1000")),
        FactorLevels("vcpu_pin", ("0", "1")),
        FactorLevels("direction", ("forward", "both")),
    ]
    limits = {"virtio-net": 5e4, "e1000": 2e4}
    treatments = []
    for index, levels in enumerate(itertools.product(*(factor.levels for factor in factors))):
        treated = dict(zip((factor.name for factor in factors), levels, strict=True))
        limit = limits[str(treated["adapter"])] * (0.6 if treated["vcpu_pin"] == "0" else 1.0)
        treatments.append(searched(index, {**treated, "frame_size": 64}, limit, goals=(1e-4,)))
    found = campaign("Packet forwarding", "What does a guest forward?", factors, treatments)
    return replace(
        found,
        workload=FRAMES,
        deciding_metric="throughput_fps",
        published_table_named_by_study="packet-forwarding-2011",
    )


def loss_campaign() -> CampaignSummary:
    """Return the frame loss of two virtual switches at tenths of their highest load, in two trials."""
    factors = [FactorLevels("vswitch", ("bridge", "router"))]
    treatments = []
    for index, name in enumerate(("bridge", "router")):
        points = []
        for block in range(2):
            device = SimulatedDevice(DeviceModel(_LIMITS_FPS[name], noise=0.01), block)
            steps = [_measured(device, tenth * 2.5e5, 1.0) for tenth in range(10, 1, -1)]
            values = {"max_forwarding_rate_fps": max(step.received / step.duration_s for step in steps)}
            points.append(_point(index, block, values, _records(LOSS_CURVE_STEP, steps, 1)))
        treatments.append(_treatment(index, {"vswitch": name}, points))
    found = campaign("Frame loss", "What is lost at which load?", factors, treatments)
    return replace(found, workload=FRAME_LOSS, deciding_metric="max_forwarding_rate_fps")


def bursts_campaign() -> CampaignSummary:
    """Return bursts at a device with a buffer of 10 ms."""
    device = SimulatedDevice(DeviceModel(1e6, buffer_s=0.01), 1)
    steps = [_measured(device, 4e6, 0.0005 * 2**power) for power in range(8)]
    values = {"back_to_back_frames": float(max(step.sent for step in steps if not step.loss_ratio))}
    treatment = _treatment(0, {"frame_size": 64}, [_point(0, 0, values, _records(BURST_STEP, steps, 1))])
    found = campaign("Bursts", "How long a burst passes?", [FactorLevels("frame_size", (64,))], [treatment])
    return replace(found, workload=BACK_TO_BACK, deciding_metric="back_to_back_frames")


def soak_campaign() -> CampaignSummary:
    """Return ten minutes at one load of a device that stalls now and then."""
    device = SimulatedDevice(DeviceModel(1e6, stalls_per_s=0.02, stall_s=0.02), 3)
    seconds = [_measured(device, 5e5, 1.0) for _ in range(600)]
    lost = tuple(itertools.accumulate(step.sent - step.received for step in seconds))
    values = {"forwarding_rate_fps": sum(step.received for step in seconds) / len(seconds)}
    point = replace(_point(0, 0, values, ()), duration_s=600.0, outstanding_frames_at_interval_ends=lost)
    treatment = _treatment(0, {"frame_load": 5e5}, [point])
    found = campaign("Soak", "Is anything lost?", [FactorLevels("frame_load", (5e5,))], [treatment])
    return replace(found, workload=SOAK, deciding_metric="forwarding_rate_fps")


def _measured(device: SimulatedDevice, load_fps: float, duration_s: float) -> SearchStep:
    counted = device.measure(load_fps, duration_s)
    return SearchStep(load_fps, duration_s, counted.sent, counted.received)


def _records(purpose: str, steps: Sequence[SearchStep], direction_count: int) -> tuple[StepRecord, ...]:
    """Return the steps as records of a trial."""
    details = {"direction_count": direction_count}
    return tuple(
        StepRecord(
            number,
            purpose,
            step.load_fps,
            step.sent if purpose == BURST_STEP else None,
            step.duration_s,
            0.0,
            step.duration_s + 0.1,
            step.sent,
            step.received,
            details,
        )
        for number, step in enumerate(steps)
    )


def _point(
    index: int,
    block: int,
    values: Mapping[str, float],
    steps: tuple[StepRecord, ...],
    search: Mapping[str, object] | None = None,
) -> TrialPoint:
    return TrialPoint(
        trial_id=1 + index + 100 * block,
        block=block,
        since_campaign_start_s=60.0 * (index + 50 * block),
        duration_s=1.0,
        warmup_s=0.0,
        has_steady_state=True,
        values=values,
        steps=steps,
        search_result=search or {},
    )


def _treatment(index: int, factors: Mapping[str, Level], points: Sequence[TrialPoint]) -> TreatmentSummary:
    metrics = {name: estimate([point.values[name] for point in points]) for name in points[0].values}
    return TreatmentSummary(index, factors, {}, "trial limit", metrics, tuple(points))
