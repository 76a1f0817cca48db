"""What a bench can leave behind: processes, namespaces, testbeds, interfaces, mounts and files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import control_groups, netlink, registry

BENCH_PROGRAM_NAMES = ("vnetbench-agent", "qemu-system-", "ovs-vswitchd", "ovsdb-server")
"""Starts of the names of a bench's programs, which the kernel cuts off after 15 characters."""
_SYSTEM_SETTINGS = ("net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem")
"""Settings of this network namespace. Other programs may change those of the whole machine meanwhile."""


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


def read_machine_state(label: str, temporary_folder: Path, bench_pids: Collection[int] = ()) -> MachineState:
    """Return the present state.

    Args:
        label: `NAME=VALUE` in the environment of this test's processes. Other benches of the machine have
            another one.
        temporary_folder: Folder of their temporary files.
        bench_pids: Process ids of this test's benches, which own control groups. All benches of the machine
            share that hierarchy.
    """
    return MachineState(
        {
            "process": frozenset(_labelled_processes(label)),
            "namespace": frozenset(netlink.list_namespaces()),
            "testbed": frozenset(path.stem for path in registry.REGISTRY_FOLDER.glob("*.json")),
            "interface": _names(Path("/sys/class/net")),
            "mount": frozenset(line.split()[4] for line in _lines("/proc/self/mountinfo")),
            "control group": frozenset(_control_groups(bench_pids)),
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


def _control_groups(bench_pids: Collection[int]) -> list[str]:
    hierarchy = control_groups.find_cpu_hierarchy()
    return [
        str(group)
        for group in (control_groups.find_groups(hierarchy, "*", "*.[0-9]*") if hierarchy else ())
        if control_groups.owner_pid(group) in bench_pids
    ]


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text().splitlines()
    return []
