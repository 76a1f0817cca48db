"""The facts that collectors read: name, type and meaning, by kind of object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FactValue = str | int | float | bool


class FactSpec(NamedTuple):
    """Type and meaning of a fact."""

    type: type[FactValue]
    meaning: str


_MACHINE = {
    "hypervisor": FactSpec(
        str, "hypervisor that runs the machine: vmware, kvm, microsoft …; none on hardware"
    ),
    "tools_installed": FactSpec(bool, "VMware Tools or open-vm-tools is installed"),
    "tools_running": FactSpec(bool, "the service of VMware Tools runs"),
    "tools_version": FactSpec(int, "version of VMware Tools as a number: 12.1.5 is 120105"),
    "tools_install_command": FactSpec(str, "command that installs or updates open-vm-tools here"),
    "guest_agent_running": FactSpec(bool, "qemu-guest-agent runs"),
    "guest_agent_install_command": FactSpec(str, "command that installs qemu-guest-agent here"),
    "cpus": FactSpec(int, "online CPUs"),
    "clock_source": FactSpec(str, "clock source of the kernel"),
    "slowest_governor": FactSpec(
        str, "frequency governor `powersave` if any CPU has it, else that of the first CPU"
    ),
    "governor_driver": FactSpec(str, "driver of CPU frequencies"),
    "softnet_dropped_ppm": FactSpec(float, "packets dropped at full backlogs, per million processed"),
    "softnet_squeezed_ppm": FactSpec(
        float, "polls that ran out of budget or time, per million packets processed"
    ),
    "conntrack_use_percent": FactSpec(float, "entries of the connection table, in percent of its limit"),
    "neighbour_use_percent": FactSpec(float, "entries of the ARP table, in percent of gc_thresh3"),
    "tcp_window_scaling": FactSpec(int, "net.ipv4.tcp_window_scaling"),
    "tcp_sack": FactSpec(int, "net.ipv4.tcp_sack"),
    "tcp_timestamps": FactSpec(int, "net.ipv4.tcp_timestamps"),
    "tcp_moderate_rcvbuf": FactSpec(int, "net.ipv4.tcp_moderate_rcvbuf"),
    "tcp_receive_buffer_max": FactSpec(int, "third value of net.ipv4.tcp_rmem, in bytes"),
    "tcp_send_buffer_max": FactSpec(int, "third value of net.ipv4.tcp_wmem, in bytes"),
    "ip_no_pmtu_disc": FactSpec(int, "net.ipv4.ip_no_pmtu_disc"),
    "bridge_calls_iptables": FactSpec(int, "net.bridge.bridge-nf-call-iptables"),
    "bridge_count": FactSpec(int, "bridges on the machine"),
    "forwards": FactSpec(bool, "the machine forwards IPv4 packets"),
    "power_plan": FactSpec(str, "active power plan: high, balanced, saver or other"),
    "rss_global": FactSpec(bool, "receive-side scaling of the whole system"),
    "autotuning": FactSpec(str, "receive window auto-tuning level, in lower case"),
    "task_offload_disabled": FactSpec(bool, "DisableTaskOffload of TCP/IP"),
}
_INTERFACE = {
    "is_physical": FactSpec(
        bool, "the interface has a device (PCI, virtio), so it is neither a bridge nor a tunnel"
    ),
    "driver": FactSpec(str, "kernel driver or driver description"),
    "emulated_model": FactSpec(
        str, "model of an emulated adapter: e1000, e1000e, pcnet32, rtl8139; else none"
    ),
    "hypervisor": FactSpec(str, "hypervisor that runs the machine"),
    "mtu": FactSpec(int, "MTU in bytes"),
    "master_mtu": FactSpec(int, "MTU of the bridge that the interface is a port of"),
    "tunnel_room": FactSpec(int, "largest MTU that fits into the underlay: its MTU less the overhead"),
    "carrier": FactSpec(bool, "the link is up"),
    "duplex": FactSpec(str, "full or half"),
    "autonegotiation": FactSpec(bool, "the link negotiates speed and duplex"),
    "speed_mbps": FactSpec(int, "speed of the link in Mbit/s"),
    "speed_max_mbps": FactSpec(int, "highest speed that the adapter supports, in Mbit/s"),
    "partner_speed_max_mbps": FactSpec(int, "highest speed that the link partner offers, in Mbit/s"),
    "tso": FactSpec(bool, "TCP segmentation offload; missing where the driver fixes it"),
    "gso": FactSpec(bool, "generic segmentation offload"),
    "gro": FactSpec(bool, "generic receive offload"),
    "lro": FactSpec(bool, "large receive offload"),
    "scatter_gather": FactSpec(bool, "scatter-gather"),
    "tx_checksum": FactSpec(bool, "transmit checksums by the adapter"),
    "rx_checksum": FactSpec(bool, "receive checksums by the adapter"),
    "forwards": FactSpec(bool, "the interface is a port of a bridge, or the machine forwards IPv4 packets"),
    "rx_ring": FactSpec(int, "receive descriptors"),
    "rx_ring_max": FactSpec(int, "most receive descriptors"),
    "rx_lost_ppm": FactSpec(
        float, "packets that the adapter dropped for lack of descriptors, per million received"
    ),
    "rx_crc_ppm": FactSpec(float, "received frames with a wrong checksum, per million received"),
    "queues": FactSpec(int, "combined or receive channels in use"),
    "queues_useful": FactSpec(int, "channels that the adapter has, at most one for each CPU"),
    "receives_on_one_cpu": FactSpec(bool, "all interrupts of several queues reach one CPU, and RPS is off"),
    "promiscuous_without_master": FactSpec(
        bool, "promiscuous mode, without a bridge, bond or switch above it"
    ),
    "generic_xdp": FactSpec(bool, "an XDP program runs in generic mode"),
    "rss": FactSpec(bool, "receive-side scaling of the adapter"),
    "rsc": FactSpec(bool, "receive segment coalescing (IPv4) of the adapter"),
    "lso": FactSpec(bool, "large send offload (IPv4) of the adapter"),
    "cpus": FactSpec(int, "online CPUs of the machine"),
    "receive_buffers": FactSpec(int, "receive buffers or first ring's size"),
    "interrupt_moderation": FactSpec(bool, "interrupt moderation"),
    "small_buffers": FactSpec(int, "small receive buffers of vmxnet3"),
}
_BOND = {
    "mode": FactSpec(str, "mode, such as 802.3ad or balance-rr"),
    "members": FactSpec(int, "member links"),
    "members_down": FactSpec(int, "member links that are down"),
    "miimon_ms": FactSpec(int, "interval of MII monitoring in ms"),
    "arp_interval_ms": FactSpec(int, "interval of ARP monitoring in ms"),
    "hash_policy": FactSpec(str, "transmit hash policy"),
    "lacp_rate": FactSpec(str, "slow or fast"),
    "partner_missing": FactSpec(bool, "LACP has no partner (its MAC address is zero)"),
    "aggregator_count": FactSpec(int, "different aggregator ids of the members that are up"),
    "member_speed_count": FactSpec(int, "different speeds of the members that are up"),
}
_OVS_BRIDGE = {
    "datapath": FactSpec(str, "system (kernel) or netdev (userspace)"),
    "kernel_ports": FactSpec(int, "number of ports of type system, such as eth0"),
}
_OVS_BOND = {
    "mode": FactSpec(str, "balance-tcp, balance-slb or active-backup"),
    "lacp": FactSpec(str, "active, passive or off"),
    "rebalance_ms": FactSpec(int, "bond-rebalance-interval in ms"),
}
_VM = {
    "vcpus": FactSpec(int, "virtual CPUs"),
    "cores_per_socket": FactSpec(int, "cores for each virtual socket"),
    "sockets": FactSpec(int, "virtual sockets"),
    "uneven_sockets": FactSpec(bool, "the vCPUs are no multiple of the cores per socket"),
    "node_cores": FactSpec(int, "physical cores of a NUMA node of the VM's host"),
    "memory_mib": FactSpec(int, "memory in MiB"),
    "hardware_version": FactSpec(int, "virtual hardware version"),
    "cpu_hot_add": FactSpec(bool, "CPU hot-add is on"),
    "vnuma_with_hot_add": FactSpec(bool, "virtual NUMA is exposed although CPU hot-add is on (vSphere 8)"),
    "latency_sensitivity": FactSpec(str, "low, normal, medium or high"),
    "cpu_reserved": FactSpec(bool, "CPU is reserved"),
    "memory_reserved": FactSpec(bool, "all memory is reserved or locked"),
    "cpu_limited": FactSpec(bool, "a CPU limit is set"),
    "cpu_limit": FactSpec(str, "the CPU limit"),
    "memory_limited": FactSpec(bool, "the memory limit is below the VM's memory"),
    "cpu_affinity": FactSpec(str, "physical CPUs that the VM is bound to, or none"),
    "numa_affinity": FactSpec(str, "NUMA nodes that the VM is bound to, or none"),
    "passthrough_devices": FactSpec(int, "PCI devices passed through"),
    "tools_installed": FactSpec(bool, "VMware Tools is installed"),
    "tools_running": FactSpec(bool, "VMware Tools runs"),
    "tools_old": FactSpec(bool, "the hypervisor reports VMware Tools as too old"),
    "powered_on": FactSpec(bool, "the VM runs"),
    "accelerated": FactSpec(bool, "hardware virtualisation (KVM) runs the VM"),
    "cpu_model": FactSpec(str, "CPU model, such as host-passthrough or qemu64; default if none is set"),
    "emulator_shares_vcpus": FactSpec(bool, "emulator threads are pinned to a CPU that a vCPU is pinned to"),
    "guest_agent": FactSpec(bool, "the channel of the guest agent is on"),
    "numa": FactSpec(bool, "a NUMA topology is set"),
    "machine_version": FactSpec(float, "version of the machine type, such as 7.1"),
}
_ADAPTER = {
    "model": FactSpec(str, "adapter model in lower case: vmxnet3, virtio, e1000 …"),
    "hardware_version": FactSpec(int, "virtual hardware version of the VM"),
    "memory_reserved": FactSpec(bool, "all memory of the VM is reserved or locked"),
    "vcpus": FactSpec(int, "virtual CPUs of the VM"),
    "queues": FactSpec(int, "queue pairs"),
    "connected": FactSpec(bool, "the adapter is connected at power-on"),
    "mac": FactSpec(str, "MAC address"),
    "mac_shared_with": FactSpec(str, "another adapter of the inventory with the same MAC address, or none"),
    "coalescing_scheme": FactSpec(str, "coalescingScheme"),
    "coalescing_valid": FactSpec(bool, "coalescingScheme and coalescingParams are valid"),
    "coalescing_params": FactSpec(str, "coalescingParams"),
    "tx_threads": FactSpec(str, "ctxPerDev"),
    "pnic_rss": FactSpec(bool, "pnicFeatures has bit 2 (RSS)"),
    "uptv2": FactSpec(bool, "uniform passthrough (UPTv2) is on"),
    "vhost": FactSpec(bool, "the host's kernel (vhost) moves packets"),
    "backend": FactSpec(str, "network, bridge, direct, user, vhostuser, hostdev …"),
    "macvtap_mode": FactSpec(str, "vepa, bridge, private or passthrough"),
    "bandwidth_limit": FactSpec(str, "rate limit of the adapter, or none"),
    "offloads_off": FactSpec(str, "offloads that are switched off, or none"),
    "mtu": FactSpec(int, "MTU in bytes"),
    "has_bridge": FactSpec(bool, "the adapter is a port of a bridge"),
}
_DISK_CONTROLLER = {"model": FactSpec(str, "model in lower case: pvscsi, lsilogic, virtio-scsi-pci, ide …")}
_HOST = {
    "power_policy": FactSpec(str, "power policy: static (high performance), dynamic, low, custom"),
    "hardware_tso": FactSpec(int, "advanced setting Net.UseHwTSO"),
    "vmxnet3_lro": FactSpec(int, "advanced setting Net.Vmxnet3HwLRO"),
    "software_lro": FactSpec(int, "advanced setting Net.Vmxnet3SwLRO"),
}
_TEAM = {
    "policy": FactSpec(str, "load balancing: loadbalance_ip, loadbalance_srcid …"),
    "active_uplinks": FactSpec(int, "active uplinks"),
    "standby_uplinks": FactSpec(int, "standby uplinks"),
    "beacon_probing": FactSpec(bool, "failures are detected by beacon probing"),
    "uplink_speed_count": FactSpec(int, "different speeds of active uplinks that are up"),
    "active_uplinks_down": FactSpec(int, "active uplinks without link"),
    "physical_switch_count": FactSpec(int, "different physical switches (CDP or LLDP) of the active uplinks"),
    "promiscuous": FactSpec(bool, "promiscuous mode is accepted"),
    "shaped": FactSpec(bool, "traffic shaping is on"),
    "lag_mode": FactSpec(str, "active or passive"),
}
_UPLINK = {
    "link_up": FactSpec(bool, "the link is up"),
    "full_duplex": FactSpec(bool, "full duplex"),
    "speed_mbps": FactSpec(int, "speed of the link in Mbit/s"),
    "speed_max_mbps": FactSpec(int, "highest speed that the adapter supports, in Mbit/s"),
    "speed_fixed": FactSpec(bool, "speed and duplex are set by hand"),
    "switch_mtu": FactSpec(int, "MTU of the virtual switch"),
    "physical_mtu": FactSpec(int, "MTU of the physical switch port, by CDP"),
}
_VMKERNEL = {
    "mtu": FactSpec(int, "MTU in bytes"),
    "switch_mtu": FactSpec(int, "MTU of the virtual switch"),
}

FACTS: Mapping[str, Mapping[str, FactSpec]] = {
    "machine": _MACHINE,
    "interface": _INTERFACE,
    "bond": _BOND,
    "ovs_bridge": _OVS_BRIDGE,
    "ovs_bond": _OVS_BOND,
    "vm": _VM,
    "adapter": _ADAPTER,
    "disk_controller": _DISK_CONTROLLER,
    "host": _HOST,
    "team": _TEAM,
    "uplink": _UPLINK,
    "vmkernel": _VMKERNEL,
}
"""Facts by kind of object."""
