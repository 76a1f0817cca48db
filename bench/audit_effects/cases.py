"""The faults whose effects are measured, and the load and path of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NAMESPACES, GUESTS = "network namespaces", "QEMU guests with KVM"
XDP_OBJECT = "{xdp_object}"
"""Stands in a command for the compiled XDP program."""
LONG_PATH = """\
link_rate = "200 Mbit/s"
link_delay = "20 ms"
link_queue = "40 ms"
"""
_ONE_STREAM = "one stream"
_LONG_PATH_TEXT = "one stream over 200 Mbit/s with a round trip of 40 ms"
_BOTH_VMS = ("a1", "b1")

Command = tuple[str, str]
"""Where it runs (`a1` sends, `b1` receives, `sw` is the bridge between them), and the command."""


@dataclass(frozen=True)
class LevelFault:
    """A fault that is a level of a factor. One campaign has both levels in each of its blocks."""

    factor: str
    without: str
    with_fault: str


@dataclass(frozen=True)
class CommandFault:
    """A fault that commands make in a new testbed. Each block has a campaign with it and one without it."""

    commands: tuple[Command, ...]
    preparation: tuple[Command, ...] = ()
    """Commands for both campaigns."""


@dataclass(frozen=True)
class EffectCase:
    """A fault that a rule finds, and the study that shows its effect."""

    rule: str
    fault_text: str
    load_text: str
    fault: LevelFault | CommandFault
    factors: str = ""
    """Lines of the study's section [factors], which are the same with and without the fault."""
    testbed: str = ""
    """Lines of the study's section [testbed]."""
    lab: Literal["netns", "qemu"] = "netns"
    trial_s: int = 2
    blocks: int = 10

    @property
    def testbed_text(self) -> str:
        """What the endpoints are."""
        return NAMESPACES if self.lab == "netns" else GUESTS


def _sysctl(settings: str) -> tuple[Command, ...]:
    return tuple((vm, f"sysctl -q -w {settings}") for vm in _BOTH_VMS)


def _long_path_case(rule: str, fault_text: str, settings: str) -> EffectCase:
    return EffectCase(
        rule, fault_text, _LONG_PATH_TEXT, CommandFault(_sysctl(settings)), LONG_PATH, trial_s=3, blocks=6
    )


def _segments_case(rule: str, fault_text: str, offload: str) -> EffectCase:
    """Return a case whose packets are single segments, so that the CPU decides; its trials differ more."""
    fault = LevelFault(offload, "on", "off")
    return EffectCase(rule, fault_text, "one stream, TSO off", fault, 'tso = "off"\n', trial_s=1, blocks=30)


CASES = (
    EffectCase("tso_off", "TSO off", _ONE_STREAM, LevelFault("tso", "on", "off")),
    _segments_case("gso_off", "GSO off", "gso"),
    _segments_case("gro_off", "GRO off", "gro"),
    _segments_case("tx_checksum_off", "checksum offload off", "checksum_offload"),
    EffectCase(
        "cpu_limit_in_kvm",
        "CPU quota of 10 % of one CPU for each endpoint",
        "one stream, else a quota of two CPUs",
        # Both levels put the endpoints into control groups, which get the same share of a busy CPU.
        LevelFault("cpu_quota", "200 %", "10 %"),
        trial_s=3,
    ),
    EffectCase(
        "damaged_frames",
        "0.1 % of the packets lost",
        _LONG_PATH_TEXT,
        LevelFault("link_loss", "0 %", "0.1 %"),
        LONG_PATH,
        trial_s=3,
    ),
    EffectCase(
        "bond_layer2_hash",
        "the team hashes MAC addresses only",
        "eight streams over two links of 100 Mbit/s, else layer3+4",
        LevelFault("team_policy", "layer3+4", "layer2"),
        'streams = 8\nsource_ports = "spread"\n',
        '[[testbed.team]]\nlinks = 2\nspeed = "100 Mbit/s"\n',
    ),
    EffectCase(
        "scatter_gather_off",
        "scatter-gather off at the sender",
        _ONE_STREAM,
        CommandFault((("a1", "ethtool -K eth0 sg off"),)),
        blocks=6,
    ),
    EffectCase(
        "generic_xdp",
        "an XDP program that passes all packets, in generic mode at the receiver",
        _ONE_STREAM,
        CommandFault((("b1", f"ip link set dev eth0 xdpgeneric obj {XDP_OBJECT} sec xdp"),)),
        blocks=6,
    ),
    _long_path_case("window_scaling_off", "tcp_window_scaling = 0", "net.ipv4.tcp_window_scaling=0"),
    _long_path_case(
        "receive_buffer_small",
        "tcp_rmem = 4096 131072 262144",
        "'net.ipv4.tcp_rmem=4096 131072 262144'",
    ),
    _long_path_case(
        "send_buffer_small", "tcp_wmem = 4096 16384 262144", "'net.ipv4.tcp_wmem=4096 16384 262144'"
    ),
    _long_path_case("receive_buffer_fixed", "tcp_moderate_rcvbuf = 0", "net.ipv4.tcp_moderate_rcvbuf=0"),
    EffectCase(
        "selective_acknowledgements_off",
        "tcp_sack = 0",
        f"{_LONG_PATH_TEXT}, with a queue of 5 ms",
        CommandFault(_sysctl("net.ipv4.tcp_sack=0")),
        LONG_PATH.replace("40 ms", "5 ms"),
        trial_s=3,
        blocks=6,
    ),
    EffectCase(
        "bridged_frames_pass_iptables",
        "bridge-nf-call-iptables = 1",
        "one stream, TSO off; the bridge's machine tracks connections",
        CommandFault(
            (("sw", "sysctl -q -w net.bridge.bridge-nf-call-iptables=1"),),
            (
                ("sw", "sysctl -q -w net.bridge.bridge-nf-call-iptables=0"),
                ("sw", "iptables -w -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
            ),
        ),
        'tso = "off"\n',
        blocks=6,
    ),
    EffectCase(
        "emulated_adapter_in_kvm_guest",
        "e1000 instead of virtio-net",
        _ONE_STREAM,
        LevelFault("adapter", "virtio-net", "e1000"),
        lab="qemu",
        trial_s=4,
        blocks=6,
    ),
    EffectCase(
        "emulated_adapter_in_vmware_guest",
        "e1000e instead of vmxnet3, both by QEMU",
        _ONE_STREAM,
        LevelFault("adapter", "vmxnet3", "e1000e"),
        lab="qemu",
        trial_s=4,
        blocks=6,
    ),
)
