"""Runs with nothing wrong: every workload and stream count."""

from __future__ import annotations

from bench.redteam.model import NOTHING, STREAM_COUNTS, WORKLOADS, Cause, Load, udp

VSWITCHES = ("bridge", "router", "direct", "openvswitch")


def make_control(load: Load, vswitches: tuple[str, ...] = VSWITCHES) -> Cause:
    """Return the control with a load. Its three intensities are three equal runs."""
    return Cause(
        f"control-{load.id}", "controls", "nothing is wrong", "nothing is injected", (0, 0, 0),
        (NOTHING,), (load,), None, vswitches=vswitches,
    )  # fmt: skip


CAUSES = (
    *(make_control(Load(workload, count)) for workload in WORKLOADS for count in STREAM_COUNTS),
    *(make_control(udp(count)) for count in STREAM_COUNTS),
)
