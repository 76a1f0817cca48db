"""How factors, levels and reasons to stop are called in front of a person."""

from __future__ import annotations

from vnetbench.study.model import Level

_FACTORS = {
    "mtu": "MTU",
    "tso": "TSO",
    "gso": "GSO",
    "gro": "GRO",
    "cpus": "VM's CPUs",
    "irq_cpus": "Receive processing on",
    "vswitch": "vSwitch",
    "pairs": "Pairs of VMs",
}


def factor_label(name: str) -> str:
    """A factor's name as a title: `mtu` is `MTU`, `message_size` is `Message size`."""
    return _FACTORS.get(name) or name.replace("_", " ").capitalize()


def level_text(name: str, level: Level) -> str:
    """One level as it is read: `8192` of `socket_buffer` is `8 KiB`."""
    return str(level)


_STOPPED = {
    "precision": "precise enough",
    "most trials": "most trials reached, not precise enough",
    "time limit": "time limit reached, not precise enough",
    "interrupted": "interrupted",
    "running": "still running",
    "refused": "refused",
    "failed": "failed",
}


def stop_text(stopped_by: str) -> str:
    """Why the bench stopped repeating a treatment, as a phrase."""
    return _STOPPED.get(stopped_by, stopped_by)
