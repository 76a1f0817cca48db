"""What a trial's figures are made of: its steady part, with streams, kernels and interfaces told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.time_series import Course
from vnetbench.estimate.evidence.flows import Flow, carrying, flows_of
from vnetbench.estimate.evidence.kernels import Kernel, kernels_of
from vnetbench.estimate.evidence.ports import Port, ports_of
from vnetbench.estimate.frame_losses import FrameLosses, frame_losses
from vnetbench.estimate.steady_state import SteadyPart


@dataclass(frozen=True)
class Case:
    """One trial."""

    part: SteadyPart
    metrics: Mapping[str, float]
    """The trial's own: some of them are evidence too."""
    course: Sequence[float]
    """Its deciding metric in each interval of the steady part."""
    flows: Sequence[Flow]
    """Both ends of all streams."""
    sending: Sequence[Flow]
    """The ends that send, or ask; beside transfers requests do not count, as they are none of the load."""
    sending_tcp: Sequence[Flow]
    """Those of them that are connections of TCP."""
    taking_tcp: Sequence[Flow]
    """Their other ends."""
    kernels: Sequence[Kernel]
    ports: Sequence[Port]
    frames: FrameLosses | None
    """Where frames were lost; None without frames."""


def case_of(
    part: SteadyPart, metrics: Mapping[str, float], course: Course, testbed: Mapping[str, Any]
) -> Case:
    """The case of a trial: `course` is that of its deciding metric, `testbed` what the file tells of it."""
    flows = flows_of(part)
    sending = carrying(flows, "source")
    return Case(
        part,
        metrics,
        course.values[part.cut :],
        flows,
        sending,
        [flow for flow in sending if flow.is_tcp],
        [flow for flow in carrying(flows, "sink") if flow.is_tcp],
        kernels_of(part),
        ports_of(part, testbed),
        frame_losses(part.trial, testbed),
    )
