"""The uses of time that a trial is divided into, with their wording."""

from __future__ import annotations

from dataclasses import dataclass

SENDER, RECEIVER = "sender", "receiver"
RUNNING = "running"
STOPPED = "stopped"
WAIT_REASONS = ("load", "programs", "packets", "quota", "hypervisor", STOPPED)
"""Reasons why a thread that has work does not run."""

_WAIT_TEXTS = {
    "load": ("waits for a CPU that the load uses", "other threads of the load use its CPUs"),
    "programs": ("waits for a CPU that other programs use", "programs other than the load use its CPUs"),
    "packets": (
        "waits for a CPU that packet processing uses",
        "the kernel processes packets on its CPUs, outside of the load's threads",
    ),
    "quota": ("stopped by a CPU quota", "its control group, or that of its VM, has used up its CPU quota"),
    "hypervisor": (
        "waits for a CPU that the hypervisor uses",
        "the hypervisor runs other work on its CPUs (steal)",
    ),
}


@dataclass(frozen=True)
class TimeUse:
    """One use of the time of a stream or request."""

    name: str
    """Key in `TrialPoint.time_shares`."""
    part: str
    """`sender`, `receiver`, `network` or `load`."""
    label: str
    """Short name in charts: "sender runs"."""
    meaning: str


def _thread_time_uses(part: str) -> tuple[TimeUse, ...]:
    running = TimeUse(
        f"{part}_{RUNNING}", part, f"{part} runs",
        f"a thread of the {part} runs, including the kernel's packet processing in its context",
    )  # fmt: skip
    waiting = (
        TimeUse(
            f"{part}_{reason}", part, f"{part} {label}", f"a thread of the {part} is ready, but {meaning}"
        )
        for reason, (label, meaning) in _WAIT_TEXTS.items()
    )
    stopped = TimeUse(
        f"{part}_{STOPPED}", part, f"{part} is stopped",
        f"a signal, a debugger or a frozen control group stops the {part}'s process. It is a lower bound, "
        "from the delay of the agent's samples",
    )  # fmt: skip
    return (running, *waiting, stopped)


TIME_USE_BY_NAME: dict[str, TimeUse] = {
    use.name: use
    for use in (
        *_thread_time_uses(SENDER),
        *_thread_time_uses(RECEIVER),
        TimeUse(
            "packet_processing", "network", "packet processing",
            "a CPU that processes packets outside of the load's threads has no idle time",
        ),
        TimeUse(
            "virtual_switch", "network", "virtual switch or emulator",
            "a thread of the hypervisor or of the virtual switch between the endpoints has no idle time",
        ),
        TimeUse(
            "link_queue", "network", "queue of a shaped link", "data waits in the queue of a shaped link"
        ),
        TimeUse(
            "loss_recovery", "network", "recovery from loss",
            "TCP retransmits lost segments, or waits until it may do so",
        ),
        TimeUse("receive_window", "network", "receive window", "the receive window is full"),
        TimeUse("send_buffer", "network", "send buffer", "the sender's socket buffer is full"),
        TimeUse("pacing", "network", "pacing", "TCP holds data back to keep its pacing rate"),
        TimeUse(
            "queueing", "network", "other queues",
            "data waits in a queue that is not a shaped link: the round trip is longer than its minimum",
        ),
        TimeUse("round_trip", "network", "round trip", "data or its acknowledgement is on its way"),
        TimeUse("load_pause", "load", "pause of the load", "the load has nothing to send at its rate"),
    )
}  # fmt: skip
"""All uses of time by name, in the order of charts."""
