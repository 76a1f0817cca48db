"""A synthetic explanation with every type of finding."""

from __future__ import annotations

from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.model import (
    MEASURED_SERIES_NAME,
    CandidateCause,
    Cause,
    EvidenceChart,
    EvidenceItem,
    ExperimentResult,
    Explanation,
    Finding,
)

COMMAND = (
    "vnetbench run studies/jumbo-frames.toml --set streams=4 --set mtu=1500 --set thread_cpus=0-3,4-7 "
    "--set precision.max_trials=9 -o proof.vnb"
)

RECEIVER = Cause(
    name="receiver_cpu",
    family="cpu",
    description="the receiving thread's CPU is full",
    advice="more receiving threads, larger segments, or a faster CPU",
    experiment_levels={"streams": 4},
    source="Cai et al., SIGCOMM 2021",
    is_fault=False,
)
QUOTA = Cause(
    name="cpu_quota",
    family="cpu",
    description="a cgroup's CPU quota is used up",
    advice="raise or remove the quota",
    experiment_levels={},
    source="Linux, Documentation/scheduler/sched-bwc.rst",
)

TRIED = Experiment(
    results_path="out/jumbo.proof.vnb",
    base_levels={"streams": 1, "direction": "forward", "mtu": 1500},
    changed_levels={"streams": 4},
    metric="goodput_bps",
    ratio=Ratio(1.02, 0.97, 1.08, 0.95, 0.4),
    shared_block_count=8,
)

LIMIT = Finding(
    kind="limit",
    text="1 stream, forward, MTU 1500 is very likely limited by its receiving thread: its CPU is full.",
    treatment_indices=(0,),
    candidates=(
        CandidateCause(
            RECEIVER,
            0.93,
            "very likely",
            (
                EvidenceItem("receiver_thread_busy_percent", 99.1, 98.7, 99.4, 95.0),
                EvidenceItem("receive_queue_percent", 71.25, 60.0, 82.0, 50.0),
                EvidenceItem("rwnd_limited_percent", 62.4, 50.0, 74.0, 50.0, role="contradicts"),
                EvidenceItem("goodput_bps", 18.25e9, 17.9e9, 18.6e9, None),
            ),
            COMMAND,
            ExperimentResult("inconclusive", TRIED),
        ),
        CandidateCause(
            QUOTA, 0.2, "possible", (EvidenceItem("receiver_throttled_percent", 1.5, 1.5, 1.5, 1.0),)
        ),
    ),
)
MODES = Finding(
    kind="unstable",
    text="16 streams, forward, MTU 9000 falls into two modes, and receive_cpus separates them.",
    treatment_indices=(15,),
    chart=EvidenceChart(
        chart_type="modes",
        title="Goodput by the number of receiving CPUs",
        x_label="CPUs that receive",
        y_label="Goodput (Gbit/s)",
        rows=tuple(
            {"x": cpus, "y": goodput, "series": "upper mode" if cpus > 1 else "lower mode"}
            for cpus, goodput in ((1, 43.0), (1, 44.1), (2, 64.2), (2, 63.7), (2, 64.9))
        ),
    ),
)
FACTORS = Finding(
    kind="factors",
    text="streams matters most, then mtu; they do not depend on each other.",
    chart=EvidenceChart(
        chart_type="effects",
        title="What each factor multiplies goodput by",
        x_label="",
        y_label="Times goodput",
        rows=(
            {"x": "8 streams instead of 1", "y": 2.4, "low": 2.3, "high": 2.5},
            {"x": "MTU 9000 instead of 1500", "y": 1.41, "low": 1.40, "high": 1.43},
        ),
    ),
    details={"interactions": ({"factors": ("streams", "mtu"), "ratio": 1.01},)},
)


def _law(streams: int) -> float:
    return 19.0 * streams / (1 + 0.23 * (streams - 1))


def _measured(streams: int) -> dict[str, str | float]:
    goodput = 1.02 * _law(streams)
    return {
        "x": streams,
        "y": goodput,
        "low": 0.97 * goodput,
        "high": 1.03 * goodput,
        "series": MEASURED_SERIES_NAME,
    }


def _fitted(streams: int) -> dict[str, str | float]:
    return {"x": streams, "y": _law(streams), "series": "scalability law"}


KNEE = Finding(
    kind="knee",
    text="Goodput stops growing at 8 streams.",
    chart=EvidenceChart(
        chart_type="curve",
        title="Goodput over streams",
        x_label="Streams",
        y_label="Goodput (Gbit/s)",
        rows=(*map(_measured, (1, 2, 4, 8, 16)), *map(_fitted, range(1, 17))),
        threshold=50.0,
    ),
)
COURSE = Finding(
    kind="unstable",
    text="Goodput drifted while it was measured.",
    chart=EvidenceChart(
        chart_type="time_series",
        title="Goodput over the blocks of the campaign",
        x_label="block",
        y_label="Goodput against its treatments' medians (%)",
        rows=tuple(
            {"x": block, "y": 90.0 + 2 * block + each, "series": f"side {each}"}
            for each in (1, 2)
            for block in range(10)
        ),
        threshold=100.0,
    ),
)
BARS = Finding(
    kind="limit",
    text="One uplink of the team carries all.",
    chart=EvidenceChart(
        chart_type="bars",
        title="Bytes by uplink",
        x_label="",
        y_label="% of all",
        rows=({"x": "uplink 1", "y": 97.0, "low": 96.0, "high": 98.0}, {"x": "uplink 2", "y": 3.0}),
    ),
)
UNEXPLAINED = Finding("not explained", "Why 2 streams, reverse, MTU 1500 are slower is not explained.", (3,))

EXPLANATION = Explanation(
    answer=(
        "Jumbo frames make TCP faster by 41 %, because the receiver's CPU is the limit.",
        "Nothing is broken: a faster CPU would make it faster still.",
    ),
    findings=(LIMIT, MODES, FACTORS, KNEE, COURSE, BARS, UNEXPLAINED),
)
