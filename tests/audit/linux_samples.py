"""Outputs of the audit's script for Linux, made for tests in the forms that the kernel and ethtool print."""

from __future__ import annotations

import json

FEATURES = """\
Features for {name}:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
scatter-gather: on
tcp-segmentation-offload: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off
rx-vlan-offload: on [fixed]"""
LINK = """\
Settings for {name}:
\tSupported ports: [ FIBRE ]
\tSupported link modes:   1000baseT/Full
\t                        10000baseT/Full
\tSupported pause frame use: Symmetric
\tSupports auto-negotiation: Yes
\tLink partner advertised link modes:  1000baseT/Full
\t                                     10000baseT/Full
\tLink partner advertised pause frame use: No
\tSpeed: 10000Mb/s
\tDuplex: Full
\tAuto-negotiation: on
\tLink detected: yes"""
RINGS = """\
Ring parameters for {name}:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
TX:\t\t4096
Current hardware settings:
RX:\t\t4096
RX Mini:\tn/a
TX:\t\t4096"""
CHANNELS = """\
Channel parameters for {name}:
Pre-set maximums:
RX:\t\tn/a
Combined:\t8
Current hardware settings:
RX:\t\tn/a
Combined:\t8"""
BOND = """\
Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
802.3ad info
LACP active: on
LACP rate: fast
Active Aggregator Info:
\tAggregator ID: 1
\tPartner Mac Address: 00:1c:73:00:00:01

Slave Interface: eno1
MII Status: up
Speed: 10000 Mbps
Duplex: full
Aggregator ID: 1

Slave Interface: eno2
MII Status: up
Speed: 10000 Mbps
Duplex: full
Aggregator ID: 1"""
VALUES = """\
/sys/class/dmi/id/sys_vendor:Dell Inc.
/sys/class/dmi/id/product_name:PowerEdge R650
/sys/devices/system/cpu/online:0-7
/sys/devices/system/clocksource/clocksource0/current_clocksource:tsc
/proc/sys/net/ipv4/ip_forward:1
/proc/sys/net/ipv4/tcp_window_scaling:1
/proc/sys/net/ipv4/tcp_sack:1
/proc/sys/net/ipv4/tcp_timestamps:1
/proc/sys/net/ipv4/tcp_moderate_rcvbuf:1
/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456
/proc/sys/net/ipv4/tcp_wmem:4096\t16384\t4194304
/proc/sys/net/ipv4/ip_no_pmtu_disc:0
/proc/sys/net/ipv4/neigh/default/gc_thresh3:1024
/proc/sys/net/bridge/bridge-nf-call-iptables:0
/proc/sys/net/netfilter/nf_conntrack_count:200
/proc/sys/net/netfilter/nf_conntrack_max:262144
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:performance
/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor:performance
/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver:acpi-cpufreq"""
INTERFACE = """\
/sys/class/net/{name}/mtu:{mtu}
/sys/class/net/{name}/carrier:1
/sys/class/net/{name}/duplex:full
/sys/class/net/{name}/speed:10000
/sys/class/net/{name}/flags:0x1003
/sys/class/net/{name}/statistics/rx_packets:5000000
/sys/class/net/{name}/statistics/rx_missed_errors:0
/sys/class/net/{name}/statistics/rx_fifo_errors:0
/sys/class/net/{name}/statistics/rx_crc_errors:0
/sys/class/net/{name}/queues/rx-0/rps_cpus:00
/sys/class/net/{name}/queues/rx-1/rps_cpus:00
{device}"""
DEVICE = """\
/sys/class/net/{name}/device/vendor:{vendor}
/sys/class/net/{name}/device/device:{device}
/sys/class/net/{name}/device/subsystem_vendor:{subsystem}
/sys/class/net/{name}/device:yes
/sys/class/net/{name}/device/driver:../../../bus/pci/drivers/{driver}
/proc/irq/40/effective_affinity_list:0
/proc/irq/41/effective_affinity_list:1"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian'
SOFTNET = "000f4240 00000000 00000000 00000000\n000f4240 00000000 00000001 00000000"
BASE_PROGRAMS = ("bash", "sshd", "installed:ethtool")


def make_listing(sections: dict[str, str]) -> str:
    """Return the output of the script with these sections."""
    head = {"format": "vnetbench-linux-audit 1", "identity": "web-01\n6.1.0"}
    everything = {**head, **sections, "end": ""}
    return "".join(f"\n@@ {name}\n{text}\n" for name, text in everything.items())


def interface_sections(
    name: str, mtu: int = 1500, ids: tuple[str, str, str, str] | None = None, master: str = ""
) -> dict[str, str]:
    """Return the sections of an interface; `ids` are vendor, device, subsystem vendor and driver."""
    device = ""
    if ids is not None:
        words = dict(zip(("vendor", "device", "subsystem", "driver"), ids, strict=True))
        device = DEVICE.format(name=name, **words)
    if master:
        device += f"\n/sys/class/net/{name}/master:../{master}"
    sections = {f"interface {name}": INTERFACE.format(name=name, mtu=mtu, device=device)}
    sections[f"ethtool -k {name}"] = FEATURES.format(name=name)
    if ids is not None:
        sections[f"ethtool {name}"] = LINK.format(name=name)
        sections[f"ethtool -g {name}"] = RINGS.format(name=name)
        sections[f"ethtool -l {name}"] = CHANNELS.format(name=name)
    return sections


def links(*entries: tuple[str, str, int, str]) -> str:
    """Return `ip -json -details link show` with these links: name, kind, MTU and lower interface."""
    return json.dumps(
        [
            {"ifname": name, "mtu": mtu, "linkinfo": {"info_kind": kind, "info_data": {"link": lower}}}
            for name, kind, mtu, lower in entries
        ]
    )


def ovs_table(headings: list[str], *rows: list[object]) -> str:
    """Return a table of ovs-vsctl --format=json."""
    return json.dumps({"headings": headings, "data": rows})


NIC = ("0x8086", "0x1572", "0x1028", "i40e")
HOST_SECTIONS = {
    "/etc/os-release": RELEASE,
    "/proc/net/softnet_stat": SOFTNET,
    "virtualisation": "none",
    "values": VALUES,
    "programs": "\n".join((*BASE_PROGRAMS, "installed:ovs-vsctl")),
    "ip -json -details link show": links(
        ("eno1", "", 1500, ""),
        ("bond0", "bond", 1500, ""),
        ("br0", "bridge", 1500, ""),
        ("vnet0", "tun", 1500, ""),
        ("vxlan7", "vxlan", 1450, "eno1"),
    ),
    "neighbours": "12",
    **interface_sections("eno1", ids=NIC),
    **interface_sections("br0"),
    **interface_sections("vnet0", master="br0"),
    **interface_sections("vxlan7", mtu=1450),
    "/proc/net/bonding/bond0": BOND,
    "ovs-vsctl --timeout=5 --format=json list Bridge": ovs_table(
        ["_uuid", "name", "datapath_type", "ports"], [["uuid", "b"], "ovs0", "", ["set", [["uuid", "p"]]]]
    ),
    "ovs-vsctl --timeout=5 --format=json list Port": ovs_table(
        ["_uuid", "name", "bond_mode", "lacp", "interfaces", "other_config"],
        [
            ["uuid", "p"], "bond1", "balance-tcp", "active", ["set", [["uuid", "i"], ["uuid", "j"]]],
            ["map", [["bond-rebalance-interval", "10000"]]],
        ],
    ),
    "ovs-vsctl --timeout=5 --format=json list Interface": ovs_table(
        ["_uuid", "name", "type"], [["uuid", "i"], "eno3", ""], [["uuid", "j"], "eno4", ""]
    ),
}  # fmt: skip
"""A hypervisor of its own hardware, with a bond, a bridge, a tunnel and Open vSwitch."""

VMWARE_GUEST_SECTIONS = {
    "/etc/os-release": RELEASE,
    "/proc/net/softnet_stat": SOFTNET,
    "virtualisation": "vmware",
    "values": VALUES.replace("ip_forward:1", "ip_forward:0"),
    "programs": "\n".join((*BASE_PROGRAMS, "vmtoolsd", "installed:vmware-toolbox-cmd")),
    "vmware-toolbox-cmd -v": "12.4.0.57279 (build-23259341)",
    "ip -json -details link show": links(("ens192", "", 1500, "")),
    **interface_sections("ens192", ids=("0x15ad", "0x07b0", "0x15ad", "vmxnet3")),
}
KVM_GUEST_SECTIONS = {
    "/etc/os-release": 'ID=almalinux\nID_LIKE="rhel centos fedora"',
    "virtualisation": "kvm",
    "values": VALUES.replace("ip_forward:1", "ip_forward:0").replace(":tsc", ":kvm-clock"),
    "programs": "\n".join((*BASE_PROGRAMS, "qemu-ga")),
    "ip -json -details link show": links(("eth0", "", 1500, "")),
    **interface_sections("eth0", ids=("0x1af4", "0x1000", "0x1af4", "virtio_net")),
}

HOST = make_listing(HOST_SECTIONS)
VMWARE_GUEST = make_listing(VMWARE_GUEST_SECTIONS)
KVM_GUEST = make_listing(KVM_GUEST_SECTIONS)
