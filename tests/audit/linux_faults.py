"""Faults of Linux machines: the rule that must find each, and what is replaced in a clean sample."""

from __future__ import annotations

from tests.audit.linux_samples import HOST, KVM_GUEST, VMWARE_GUEST
from tests.audit.planting import TextFault

LOSSES = ("ens192/statistics/rx_missed_errors:0", "ens192/statistics/rx_missed_errors:5000")
IPV4 = "/proc/sys/net/ipv4/"

LINUX_INTERFACE_FAULTS: list[TextFault] = [
    (
        "emulated_adapter_in_vmware_guest",
        "linux",
        VMWARE_GUEST,
        (("device/vendor:0x15ad", "device/vendor:0x8086"), ("device/device:0x07b0", "device/device:0x10d3")),
    ),
    (
        "emulated_adapter_in_kvm_guest",
        "linux",
        KVM_GUEST,
        (("device/vendor:0x1af4", "device/vendor:0x8086"), ("device/device:0x1000", "device/device:0x100e")),
    ),
    ("half_duplex", "linux", VMWARE_GUEST, (("duplex:full", "duplex:half"),)),
    (
        "negotiation_off",
        "linux",
        VMWARE_GUEST,
        (
            ("/speed:10000", "/speed:1000"),
            ("Auto-negotiation: on", "Auto-negotiation: off"),
            ("\t                        10000baseT/Full\n", ""),
        ),
    ),
    ("link_below_its_speed", "linux", VMWARE_GUEST, (("/speed:10000", "/speed:1000"),)),
    (
        "rx_ring_below_maximum",
        "linux",
        VMWARE_GUEST,
        (LOSSES, ("hardware settings:\nRX:\t\t4096", "hardware settings:\nRX:\t\t256")),
    ),
    ("receive_losses_with_full_ring", "linux", VMWARE_GUEST, (LOSSES,)),
    ("damaged_frames", "linux", VMWARE_GUEST, (("rx_crc_errors:0", "rx_crc_errors:900"),)),
    (
        "lro_with_forwarding",
        "linux",
        HOST,
        (("Features for eno1:", "Features for eno1:\nlarge-receive-offload: on"),),
    ),
    ("tso_off", "linux", VMWARE_GUEST, (("tcp-segmentation-offload: on", "tcp-segmentation-offload: off"),)),
    (
        "gso_off",
        "linux",
        VMWARE_GUEST,
        (("generic-segmentation-offload: on", "generic-segmentation-offload: off"),),
    ),
    ("gro_off", "linux", VMWARE_GUEST, (("generic-receive-offload: on", "generic-receive-offload: off"),)),
    ("tx_checksum_off", "linux", VMWARE_GUEST, (("tx-checksumming: on", "tx-checksumming: off"),)),
    ("rx_checksum_off", "linux", VMWARE_GUEST, (("rx-checksumming: on", "rx-checksumming: off"),)),
    ("scatter_gather_off", "linux", VMWARE_GUEST, (("scatter-gather: on", "scatter-gather: off"),)),
    (
        "one_cpu_receives",
        "linux",
        VMWARE_GUEST,
        (("irq/41/effective_affinity_list:1", "irq/41/effective_affinity_list:0"),),
    ),
    (
        "queues_unused",
        "linux",
        VMWARE_GUEST,
        (("hardware settings:\nRX:\t\tn/a\nCombined:\t8", "hardware settings:\nRX:\t\tn/a\nCombined:\t1"),),
    ),
    ("port_mtu_above_bridge", "linux", HOST, (("vnet0/mtu:1500", "vnet0/mtu:9000"),)),
    ("tunnel_mtu_too_large", "linux", HOST, (("vxlan7/mtu:1450", "vxlan7/mtu:1500"),)),
    ("promiscuous_mode", "linux", VMWARE_GUEST, (("flags:0x1003", "flags:0x1103"),)),
    (
        "generic_xdp",
        "linux",
        VMWARE_GUEST,
        (('{"ifname": "ens192"', '{"xdp": {"mode": 2}, "ifname": "ens192"'),),
    ),
]

LINUX_MACHINE_FAULTS: list[TextFault] = [
    (
        "tools_missing_in_guest",
        "linux",
        VMWARE_GUEST,
        (("vmtoolsd\ninstalled:vmware-toolbox-cmd", ""), ("12.4.0.57279 (build-23259341)", "")),
    ),
    ("tools_stopped_in_guest", "linux", VMWARE_GUEST, (("vmtoolsd\n", ""),)),
    ("tools_old_in_guest", "linux", VMWARE_GUEST, (("12.4.0.57279", "11.3.5.31214"),)),
    ("guest_agent_missing", "linux", KVM_GUEST, (("qemu-ga", ""),)),
    ("slow_clock_source", "linux", VMWARE_GUEST, (("clocksource:tsc", "clocksource:acpi_pm"),)),
    (
        "powersave_governor",
        "linux",
        HOST,
        (("cpu1/cpufreq/scaling_governor:performance", "cpu1/cpufreq/scaling_governor:powersave"),),
    ),
    ("softnet_drops", "linux", HOST, (("000f4240 00000000 00000001", "000f4240 00001000 00000001"),)),
    ("softnet_squeezed", "linux", HOST, (("000f4240 00000000 00000001", "000f4240 00000000 00010000"),)),
    ("connection_table_full", "linux", HOST, (("nf_conntrack_count:200", "nf_conntrack_count:262000"),)),
    ("neighbour_table_full", "linux", HOST, (("@@ neighbours\n12", "@@ neighbours\n1020"),)),
    (
        "window_scaling_off",
        "linux",
        VMWARE_GUEST,
        ((f"{IPV4}tcp_window_scaling:1", f"{IPV4}tcp_window_scaling:0"),),
    ),
    ("selective_acknowledgements_off", "linux", VMWARE_GUEST, ((f"{IPV4}tcp_sack:1", f"{IPV4}tcp_sack:0"),)),
    ("timestamps_off", "linux", VMWARE_GUEST, ((f"{IPV4}tcp_timestamps:1", f"{IPV4}tcp_timestamps:0"),)),
    ("receive_buffer_fixed", "linux", VMWARE_GUEST, (("tcp_moderate_rcvbuf:1", "tcp_moderate_rcvbuf:0"),)),
    ("receive_buffer_small", "linux", VMWARE_GUEST, (("131072\t6291456", "131072\t262144"),)),
    ("send_buffer_small", "linux", VMWARE_GUEST, (("16384\t4194304", "16384\t131072"),)),
    ("path_mtu_discovery_off", "linux", VMWARE_GUEST, (("ip_no_pmtu_disc:0", "ip_no_pmtu_disc:1"),)),
    (
        "bridged_frames_pass_iptables",
        "linux",
        HOST,
        (("bridge-nf-call-iptables:0", "bridge-nf-call-iptables:1"),),
    ),
]

LINUX_TEAM_FAULTS: list[TextFault] = [
    ("bond_without_monitoring", "linux", HOST, (("Polling Interval (ms): 100", "Polling Interval (ms): 0"),)),
    ("lacp_partner_missing", "linux", HOST, (("00:1c:73:00:00:01", "00:00:00:00:00:00"),)),
    (
        "lacp_aggregators_differ",
        "linux",
        HOST,
        (("Duplex: full\nAggregator ID: 1\n\nSlave", "Duplex: full\nAggregator ID: 2\n\nSlave"),),
    ),
    (
        "bond_speeds_differ",
        "linux",
        HOST,
        (
            (
                "Slave Interface: eno2\nMII Status: up\nSpeed: 10000",
                "Slave Interface: eno2\nMII Status: up\nSpeed: 1000",
            ),
        ),
    ),
    (
        "bond_link_down",
        "linux",
        HOST,
        (("Slave Interface: eno2\nMII Status: up", "Slave Interface: eno2\nMII Status: down"),),
    ),
    ("bond_layer2_hash", "linux", HOST, (("layer3+4 (1)", "layer2 (0)"),)),
    (
        "bond_round_robin",
        "linux",
        HOST,
        (("IEEE 802.3ad Dynamic link aggregation", "load balancing (round-robin)"),),
    ),
    ("lacp_slow", "linux", HOST, (("LACP rate: fast", "LACP rate: slow"),)),
    (
        "bond_of_one_link",
        "linux",
        HOST,
        (("\nSlave Interface: eno2\nMII Status: up\nSpeed: 10000 Mbps\nDuplex: full\nAggregator ID: 1", ""),),
    ),
    ("ovs_balance_tcp_without_lacp", "linux", HOST, (('"balance-tcp", "active"', '"balance-tcp", "off"'),)),
    (
        "ovs_rebalance_off",
        "linux",
        HOST,
        (('"bond-rebalance-interval", "10000"', '"bond-rebalance-interval", "0"'),),
    ),
    ("ovs_userspace_with_kernel_ports", "linux", HOST, (('"ovs0", ""', '"ovs0", "netdev"'),)),
]


LINUX_FAULTS = [*LINUX_INTERFACE_FAULTS, *LINUX_MACHINE_FAULTS, *LINUX_TEAM_FAULTS]
