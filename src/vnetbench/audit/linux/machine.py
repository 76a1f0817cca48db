"""Facts of a Linux machine: virtualisation, guest tools, CPUs, the kernel's settings and counters."""

from __future__ import annotations

import re

from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.audit.linux.sections import Sections, parse_cpu_list, parse_fields, parse_number

_SYSCTLS = {
    "tcp_window_scaling": "/proc/sys/net/ipv4/tcp_window_scaling",
    "tcp_sack": "/proc/sys/net/ipv4/tcp_sack",
    "tcp_timestamps": "/proc/sys/net/ipv4/tcp_timestamps",
    "tcp_moderate_rcvbuf": "/proc/sys/net/ipv4/tcp_moderate_rcvbuf",
    "ip_no_pmtu_disc": "/proc/sys/net/ipv4/ip_no_pmtu_disc",
    "bridge_calls_iptables": "/proc/sys/net/bridge/bridge-nf-call-iptables",
}
_HYPERVISORS_BY_DMI = {
    "vmware": "vmware", "qemu": "kvm", "kvm": "kvm", "microsoft corporation": "microsoft", "xen": "xen",
    "innotek": "oracle", "amazon ec2": "amazon", "google": "google",
}  # fmt: skip
_PACKAGE_MANAGERS = {
    "debian": "apt-get install", "ubuntu": "apt-get install", "suse": "zypper install", "rhel": "dnf install",
    "fedora": "dnf install", "centos": "dnf install", "alpine": "apk add", "arch": "pacman -S",
}  # fmt: skip
"""Command that installs packages, by `ID` or `ID_LIKE` of os-release(5)."""
_TOOLS_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def read_machine(sections: Sections, inventory: Inventory) -> InventoryObject:
    """Add the machine with its facts."""
    machine = inventory.add_object("machine", "machine", "linux")
    hypervisor = find_hypervisor(sections)
    machine.add("hypervisor", hypervisor, "systemd-detect-virt, /sys/class/dmi/id")
    machine.add("cpus", len(online_cpus(sections)) or None, "/sys/devices/system/cpu/online")
    machine.add("clock_source", sections.values.get(CLOCK_SOURCE), CLOCK_SOURCE)
    for name, path in _SYSCTLS.items():
        machine.add(name, sections.number(path), path)
    for name, path in (
        ("tcp_receive_buffer_max", "/proc/sys/net/ipv4/tcp_rmem"),
        ("tcp_send_buffer_max", "/proc/sys/net/ipv4/tcp_wmem"),
    ):
        words = sections.values.get(path, "").split()
        machine.add(name, parse_number(words[-1]) if len(words) == 3 else None, path)
    forwards = sections.number("/proc/sys/net/ipv4/ip_forward")
    machine.add("forwards", None if forwards is None else forwards == 1, "/proc/sys/net/ipv4/ip_forward")
    _add_guest_tools(sections, machine)
    _add_governor(sections, machine)
    _add_softnet(sections, machine)
    _add_table_use(sections, machine)
    return machine


def find_hypervisor(sections: Sections) -> str | None:
    """Return the hypervisor, "none" on hardware, or None if nothing says it."""
    detected = sections.text("virtualisation").strip()
    if detected == "qemu":
        return "kvm"
    if detected:
        return detected
    maker = sections.values.get("/sys/class/dmi/id/sys_vendor", "").lower()
    product = sections.values.get("/sys/class/dmi/id/product_name", "").lower()
    if not maker:
        return None
    if maker.startswith("microsoft") and product != "virtual machine":
        return "none"
    found = (name for word, name in _HYPERVISORS_BY_DMI.items() if word in maker or word == product)
    return next(found, "none")


def online_cpus(sections: Sections) -> set[int]:
    """Return the online CPUs."""
    return parse_cpu_list(sections.values.get("/sys/devices/system/cpu/online", ""))


def _add_guest_tools(sections: Sections, machine: InventoryObject) -> None:
    programs = set(sections.text("programs").splitlines())
    if not programs:
        return
    source = "/proc/*/comm"
    installed = bool({"installed:vmware-toolbox-cmd", "installed:vmtoolsd"} & programs)
    machine.add("tools_installed", installed, "command -v vmware-toolbox-cmd vmtoolsd")
    machine.add("tools_running", "vmtoolsd" in programs, source)
    machine.add("guest_agent_running", "qemu-ga" in programs, source)
    install = _find_package_manager(sections)
    machine.add("tools_install_command", f"{install} open-vm-tools", "/etc/os-release")
    machine.add("guest_agent_install_command", f"{install} qemu-guest-agent", "/etc/os-release")
    version = _TOOLS_VERSION.search(sections.text("vmware-toolbox-cmd -v"))
    if version:
        number = int(version[1]) * 10000 + int(version[2]) * 100 + int(version[3])
        machine.add("tools_version", number, "vmware-toolbox-cmd -v")


def _find_package_manager(sections: Sections) -> str:
    release = parse_fields(sections.text("/etc/os-release").replace("=", ":"))
    names = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split()
    return next(
        (_PACKAGE_MANAGERS[name] for name in names if name in _PACKAGE_MANAGERS), "install the package"
    )


def _add_governor(sections: Sections, machine: InventoryObject) -> None:
    governors = [value for path, value in sections.values.items() if path.endswith("/scaling_governor")]
    if governors:
        source = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
        machine.add("slowest_governor", "powersave" if "powersave" in governors else governors[0], source)
    driver = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"
    machine.add("governor_driver", sections.values.get(driver), driver)


def _add_softnet(sections: Sections, machine: InventoryObject) -> None:
    """Add the counters of /proc/net/softnet_stat: processed, dropped and time_squeeze, in hexadecimal."""
    rows = [line.split()[:3] for line in sections.text("/proc/net/softnet_stat").splitlines()]
    numbers = [
        [int(word, 16) for word in row]
        for row in rows
        if len(row) == 3 and all(re.fullmatch(r"[0-9a-f]{1,16}", word) for word in row)
    ]
    processed = sum(row[0] for row in numbers)
    if processed < 10_000:  # Too few packets for a share.
        return
    for index, name in ((1, "softnet_dropped_ppm"), (2, "softnet_squeezed_ppm")):
        ppm = sum(row[index] for row in numbers) / processed * 1e6
        machine.add(name, ppm, "/proc/net/softnet_stat")


def _add_table_use(sections: Sections, machine: InventoryObject) -> None:
    netfilter = "/proc/sys/net/netfilter/nf_conntrack_"
    count, limit = sections.number(f"{netfilter}count"), sections.number(f"{netfilter}max")
    if count is not None and limit:
        machine.add("conntrack_use_percent", count / limit * 100, f"{netfilter}count")
    neighbours = parse_number(sections.text("neighbours"))
    limit = sections.number("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
    if neighbours is not None and limit:
        machine.add("neighbour_use_percent", neighbours / limit * 100, "ip -4 neigh show")
