"""Systems without a fault, in the shapes of real ones: no rule finds anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit.export_samples import (
    change,
    make_distributed_switch,
    make_export,
    make_host,
    make_vm,
    make_windows_guest,
)
from tests.audit.linux_samples import (
    BOND,
    HOST,
    HOST_SECTIONS,
    KVM_GUEST,
    KVM_GUEST_SECTIONS,
    VMWARE_GUEST,
    VMWARE_GUEST_SECTIONS,
    links,
    make_listing,
)
from tests.audit.planting import plant
from tests.audit.reading import audit_sample
from tests.audit.vm_samples import DOMAIN, QM_CONFIG, VMX

pytestmark = pytest.mark.pure

ACTIVE_BACKUP = BOND.replace(
    "IEEE 802.3ad Dynamic link aggregation", "fault-tolerance (active-backup)"
).replace("Transmit Hash Policy: layer3+4 (1)\n", "")
FIXED_OFFLOADS = VMWARE_GUEST.replace("generic-receive-offload: on", "generic-receive-offload: off [fixed]")
JUMBO = {"interface vnet0": HOST_SECTIONS["interface vnet0"].replace("mtu:1500", "mtu:9000")}
JUMBO_LINKS = links(("br0", "bridge", 9000, ""), ("vnet0", "tun", 9000, ""), ("vxlan7", "vxlan", 1450, "br0"))
IP_HASH = {"config.network.vswitch.0.spec.policy.nicTeaming.policy": "loadbalance_ip"}
NARROW = {"config.cpuHotAddEnabled": True, "config.hardware.numCPU": 8}
EXPOSED = {**NARROW, "config.hardware.numCPU": 12, "config.numaInfo": {"vnumaOnCpuHotaddExposed": True}}
LOW_LATENCY = {"config.cpuAllocation.reservation": 10000, "config.latencySensitivity.level": "low"}
PASSTHROUGH = 'pciPassthru0.present = "TRUE"\nsched.mem.pin = "TRUE"'

CLEAN_SYSTEMS: dict[str, tuple[str, Any]] = {
    "hypervisor with a bond, a bridge, a tunnel and Open vSwitch": ("linux", HOST),
    "virtual interface without GRO": (
        "linux",
        plant(HOST, (("Features for vnet0:", "Features for vnet0:\ngeneric-receive-offload: off"),)),
    ),
    "vSphere guest": ("linux", VMWARE_GUEST),
    "KVM guest": ("linux", KVM_GUEST),
    "bond with active-backup": (
        "linux",
        make_listing({**HOST_SECTIONS, "/proc/net/bonding/bond0": ACTIVE_BACKUP}),
    ),
    "bond with ARP monitoring": (
        "linux",
        plant(
            HOST,
            (
                (
                    "MII Polling Interval (ms): 100",
                    "MII Polling Interval (ms): 0\nARP Polling Interval (ms): 1000",
                ),
            ),
        ),
    ),
    "jumbo frames on a bridge and its port": (
        "linux",
        make_listing({**HOST_SECTIONS, **JUMBO, "ip -json -details link show": JUMBO_LINKS}),
    ),
    "offloads that the driver fixes": ("linux", FIXED_OFFLOADS),
    "LRO on a guest that does not forward": (
        "linux",
        plant(VMWARE_GUEST, (("large-receive-offload: off", "large-receive-offload: on"),)),
    ),
    "few losses": ("linux", plant(VMWARE_GUEST, (("rx_missed_errors:0", "rx_missed_errors:20"),))),
    "losses of a machine that has just booted": (
        "linux",
        plant(
            VMWARE_GUEST,
            (("rx_packets:5000000", "rx_packets:900"), ("rx_missed_errors:0", "rx_missed_errors:20")),
        ),
    ),
    "powersave of intel_pstate": (
        "linux",
        plant(
            HOST,
            (
                ("cpu0/cpufreq/scaling_governor:performance", "cpu0/cpufreq/scaling_governor:powersave"),
                ("acpi-cpufreq", "intel_pstate"),
            ),
        ),
    ),
    "containers whose bridges need iptables, without a bridge": (
        "linux",
        plant(KVM_GUEST, (("bridge-nf-call-iptables:0", "bridge-nf-call-iptables:1"),)),
    ),
    "real e1000e adapter in a server": ("linux", plant(HOST, (("0x1572", "0x10d3"),))),
    "Hyper-V guest": (
        "linux",
        make_listing(
            {**VMWARE_GUEST_SECTIONS, "virtualisation": "microsoft", "programs": "bash\ninstalled:ethtool"}
        ),
    ),
    "link that is down": (
        "linux",
        plant(VMWARE_GUEST, (("carrier:1", "carrier:0"), ("duplex:full", "duplex:half"))),
    ),
    "machine without ethtool": (
        "linux",
        make_listing(
            {
                name: text
                for name, text in {**KVM_GUEST_SECTIONS, "programs": "bash\nqemu-ga"}.items()
                if not name.startswith("ethtool")
            }
        ),
    ),
    "Open vSwitch with active-backup": (
        "linux",
        plant(HOST, (('"balance-tcp", "active"', '"active-backup", "off"'),)),
    ),
    "VM as .vmx": ("vmx", VMX),
    ".vmx without quotes and with comments": (
        "vmx",
        plant(VMX, (('config.version = "8"', "# made by hand\nconfig.version=8"),)),
    ),
    ".vmx with a passed-through device and locked memory": (
        "vmx",
        plant(VMX, (('sched.mem.pin = "FALSE"', PASSTHROUGH),)),
    ),
    ".vmx with a narrow VM and CPU hot-add": (
        "vmx",
        plant(
            VMX, (('vcpu.hotadd = "FALSE"', 'vcpu.hotadd = "TRUE"'), ('numvcpus = "12"', 'numvcpus = "6"'))
        ),
    ),
    ".vmx with memory hot-add": (
        "vmx",
        plant(VMX, (('memSize = "8192"', 'memSize = "8192"\nmem.hotadd = "TRUE"'),)),
    ),
    "domain": ("libvirt", DOMAIN),
    "domain with a passed-through adapter": (
        "libvirt",
        plant(DOMAIN, (("<interface type='direct'>", "<interface type='hostdev'>"),)),
    ),
    "domain without pinning": ("libvirt", plant(DOMAIN, (("<emulatorpin cpuset='0-1'/>", ""),))),
    "VM of Proxmox VE": ("proxmox", QM_CONFIG),
    "VM of Proxmox VE with jumbo frames": (
        "proxmox",
        plant(QM_CONFIG, (("bridge=vmbr1", "bridge=vmbr1,mtu=9000"),)),
    ),
    "VM of Proxmox VE with two sockets and NUMA": (
        "proxmox",
        plant(QM_CONFIG, (("sockets: 1", "sockets: 2"), ("cores: 4", "cores: 2"), ("numa: 0", "numa: 1"))),
    ),
    "vSphere inventory": ("vsphere", make_export()),
    "vSphere host with IP hash": ("vsphere", change(make_host(), IP_HASH)),
    "vSphere VM with hot-add and few vCPUs": ("vsphere", change(make_vm(), NARROW)),
    "vSphere VM with hot-add and exposed NUMA": ("vsphere", change(make_vm(), EXPOSED)),
    "vSphere VM with low latency sensitivity": ("vsphere", change(make_vm(), LOW_LATENCY)),
    "distributed switch": ("vsphere", make_distributed_switch()),
    "powered-off VM": (
        "vsphere",
        change(
            make_vm(),
            {"runtime.powerState": "poweredOff", "guest.toolsRunningStatus": "guestToolsNotRunning"},
        ),
    ),
    "Windows guest": ("windows", make_windows_guest()),
    "Windows guest with one CPU and no RSS": (
        "windows",
        change(make_windows_guest(), {"cpus": 1, "rss.0.Enabled": False}),
    ),
    "Windows guest on Hyper-V": (
        "windows",
        change(
            make_windows_guest(),
            {
                "manufacturer": "Microsoft Corporation",
                "model": "Virtual Machine",
                "vmtools_installed": False,
                "adapters.0.InterfaceDescription": "Microsoft Hyper-V Network Adapter",
            },
        ),
    ),
    "Windows guest with a table of one row": (
        "windows",
        change(make_windows_guest(), {"rss": {"Name": "Ethernet0", "Enabled": True}}),
    ),
}


@pytest.mark.parametrize("name", CLEAN_SYSTEMS)
def test_no_rule_finds_anything_in_a_clean_system(name: str) -> None:
    form, sample = CLEAN_SYSTEMS[name]
    result = audit_sample(form, sample)
    assert [(finding.rule.id, finding.found) for finding in result.findings] == []
    assert result.applied_rule_count > 0


def test_there_are_thirty_clean_systems() -> None:
    assert len(CLEAN_SYSTEMS) >= 30
