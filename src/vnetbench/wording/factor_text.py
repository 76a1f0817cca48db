"""How factors, levels and reasons to stop are called in front of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.results.records import INTERRUPTED, RUNNING
from vnetbench.study.factors.guest_factors import ADAPTERS
from vnetbench.study.factors.imported_factors import LABEL_PREFIX, UNSPECIFIED
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels, Level

CHANGE_FACTOR = "changed"
"""Stands for all factors of a study of one change at a time (`changes.py`)."""

TREATMENT_FACTOR = "treatment"
"""Stands for all factors of imported runs that differ in many ways at once (`changes.py`)."""

_LABELS = {
    "ip_version": "IP version",
    "mtu": "MTU",
    "tso": "TSO",
    "gso": "GSO",
    "uso": "USO",
    "gro": "GRO",
    "udp_gso": "UDP GSO",
    "udp_gro": "UDP GRO",
    "cpus": "VM's CPUs",
    "cpu_quota": "VM's CPU quota",
    "thread_cpus": "Threads on",
    "irq_cpus": "Receive processing on",
    "vswitch": "vSwitch",
    "pairs": "Pairs of VMs",
    "guests": "Pairs of guests",
    "vcpus": "vCPUs",
    "vcpu_pin": "Placement of vCPUs",
    "emulator_pin": "Placement of QEMU's threads",
    "irq_pin": "Placement of interrupts",
    "rx_ring": "Receive ring",
    "tx_ring": "Transmit ring",
    "coalesce": "Coalescing",
    "lro": "LRO",
    "vlan_tags": "VLAN tags",
    "device_cpus": "Device's CPUs",
    "label_ip_pairs": "IP pairs",
    "label_receiver_cpus": "Receiver CPUs",
}
_COUNTED = {
    "streams": "stream",
    "connections": "connection",
    "pairs": "pair",
    "guests": "pair",
    "vcpus": "vCPU",
    "queues": "queue",
    "threads": "thread",
    "flows": "flow",
    "generators": "generator",
    "vlan_tags": "VLAN tag",
}
_PHRASES = {
    CHANGE_FACTOR: "{}",
    TREATMENT_FACTOR: "{}",
    "direction": "{}",
    "ip_version": "IPv{}",
    "mtu": "MTU {}",
    "message_size": "{} messages",
    "request_size": "{} requests",
    "response_size": "{} answers",
    "datagram_size": "{} datagrams",
    "bit_rate": "rate {}",
    "rate": "rate {}",
    "waiting": "waiting: {}",
    "send_mode": "sent by {}",
    "send_batch": "{} messages a call",
    "receive_mode": "received by {}",
    "socket_buffer": "{} socket buffer",
    "congestion_control": "{}",
    "link_rate": "link rate {}",
    "link_queue": "queue {}",
    "link_delay": "delay {}",
    "link_jitter": "jitter {}",
    "link_loss": "loss {}",
    "link_reordering": "reordering {}",
    "transport": "over {}",
    "pacing_rate": "paced to {}",
    "cpus": "CPUs {}",
    "cpu_quota": "CPU quota {}",
    "irq_cpus": "receive processing {}",
    "thread_cpus": "threads on {}",
    "vswitch": "{}",
    "adapter": "{}",
    "role": "{}",
    "vcpu_pin": "vCPUs: {}",
    "emulator_pin": "QEMU's threads: {}",
    "irq_pin": "interrupts: {}",
    "rx_ring": "receive ring {}",
    "tx_ring": "transmit ring {}",
    "coalesce": "coalescing {}",
    "frame_size": "frames of {}",
    "frame_load": "load {}",
    "device_cpus": "device on CPUs {}",
}
_STOPPED = {
    "precision": "precise enough",
    "most trials": "most trials reached, not precise enough",
    "time limit": "time limit reached, not precise enough",
    INTERRUPTED: "interrupted",
    RUNNING: "still running",
    "refused": "refused",
    "failed": "failed",
    IMPORTED: "all that were imported",
}


def capitalize_sentence(sentence: str) -> str:
    """With a capital, unless it begins with a name of hardware: `vmxnet3`, `virtio-net`, `vCPUs`."""
    word = sentence.partition(" ")[0].rstrip(":,")
    is_word = word.replace("-", "").isalpha() and word.islower() and word not in ADAPTERS
    return sentence[:1].upper() + sentence[1:] if is_word else sentence


def factor_label(name: str) -> str:
    """A factor's name as a title: `mtu` is `MTU`, `message_size` is `Message size`."""
    if name in _LABELS:
        return _LABELS[name]
    words = name.removeprefix(LABEL_PREFIX).replace("_", " ")
    return words[:1].upper() + words[1:]


def factor_noun(name: str) -> str:
    """The same within a sentence: `message size`, `MTU`, `vCPUs`."""
    label = factor_label(name)
    return label if any(map(str.isupper, label.split()[0][1:])) else label[:1].lower() + label[1:]


def level_text(name: str, level: Level) -> str:
    """One level as it is read: `8192` of `socket_buffer` is `8 KiB`; of an unknown factor as it stands."""
    return FACTORS[name].value_type.format(level) if name in FACTORS else str(level)


def level_phrase(name: str, level: Level) -> str:
    """One level so that it can be read without a heading: `4 streams`, `MTU 9000`, `TSO off`."""
    if level == UNSPECIFIED:
        return f"{factor_noun(name)} {UNSPECIFIED}"
    if name in _COUNTED:
        return f"{level} {_COUNTED[name]}{'' if level == 1 else 's'}"
    return _PHRASES.get(name, f"{factor_label(name)} {{}}").format(level_text(name, level))


def treatment_phrase(factors: Mapping[str, Level], names: Sequence[str]) -> str:
    """A treatment by its levels of the named factors: `4 streams, forward, MTU 9000`; without untold ones."""
    levels = [(name, factors[name]) for name in names if name in factors]
    phrases = [level_phrase(name, level) for name, level in levels if level != UNSPECIFIED]
    return ", ".join(phrases) or ("nothing told" if levels else "the only treatment")


def factor_names(factors: Sequence[FactorLevels]) -> tuple[str, ...]:
    """The factors' names, in their order."""
    return tuple(factor.name for factor in factors)


def stop_reason_text(stopped_by: str) -> str:
    """Why the bench stopped repeating a treatment, as a phrase."""
    return _STOPPED.get(stopped_by, stopped_by)


def pluralize(count: int, noun: str) -> str:
    """`1 trial`, `4 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
