"""What a bench can leave behind: processes, namespaces, testbeds, interfaces, mounts and files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import netlink, registry
from vnetbench.lab.registry import NAMESPACE_PREFIX

BENCH_PROGRAM_NAMES = ("vnetbench-agent", "qemu-system-", "ovs-vswitchd", "ovsdb-server")
"""Starts of the names of a bench's programs, which the kernel cuts off after 15 characters."""
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_SYSTEM_SETTINGS = ("net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/core/rmem_default", "net/core/rmem_max")


@dataclass(frozen=True)
class MachineState:
    """Everything on the machine that a bench creates or changes, by kind."""

    items: Mapping[str, frozenset[str]]

    def added_since(self, earlier: MachineState) -> list[str]:
        """Return what exists now and did not exist earlier, as `kind: name`."""
        return [
            f"{kind}: {name}"
            for kind, names in self.items.items()
            for name in sorted(names - earlier.items[kind])
        ]


def read_machine_state(label: str, temporary_folder: Path) -> MachineState:
    """Return the present state.

    Args:
        label: `NAME=VALUE` in the environment of this test's processes. Other benches of the machine have
            another one.
        temporary_folder: Folder of their temporary files.
    """
    return MachineState(
        {
            "process": frozenset(_labelled_processes(label)),
            "namespace": frozenset(netlink.list_namespaces()),
            "testbed": frozenset(each.name for each in registry.list_registered_and_leftover_testbeds()),
            "interface": _names(Path("/sys/class/net")),
            "mount": frozenset(line.split()[4] for line in _lines("/proc/self/mountinfo")),
            "control group": frozenset(_control_groups()),
            "temporary file": _names(temporary_folder),
            "setting": frozenset(f"{name} = {_lines(f'/proc/sys/{name}')}" for name in _SYSTEM_SETTINGS),
        }
    )


def _labelled_processes(label: str) -> list[str]:
    """Return the programs of a bench with this label, without their process ids."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and label.encode() in (entry / "environ").read_bytes().split(b"\0"):
                name = (entry / "comm").read_text().strip()
                if name.startswith(BENCH_PROGRAM_NAMES) or b"vnetbench" in (entry / "cmdline").read_bytes():
                    found.append(f"{name} ({entry.name})")
    return found


def _names(folder: Path) -> frozenset[str]:
    return frozenset(entry.name for entry in folder.iterdir())


def _control_groups() -> list[str]:
    return [str(path) for path in _CONTROL_GROUPS.glob(f"**/{NAMESPACE_PREFIX}*") if path.is_dir()]


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text().splitlines()
    return []
