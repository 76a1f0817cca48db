"""Controls a running Open vSwitch, and creates and reads its bonds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import registry
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.text_state import wait_for_text

APPLICATION_CONTROL = "ovs-appctl"
LACP_NEGOTIATED, LACP_WITHOUT_PARTNER = "negotiated", "configured"
"""States of LACP that `bond/show` reports: with a partner, and on without a partner."""
LACP_TIMEOUT_S = 20.0
"""Longest wait for LACP. A fast partner sends each second and expires after three (IEEE 802.1AX)."""
QUERY_TIMEOUT_S = 60
"""Limit for one answer of the switch, also on a busy machine. Whole seconds, as ovs-appctl takes them."""


@dataclass(frozen=True)
class OpenVswitch:
    """A running Open vSwitch in a namespace."""

    folder: Path
    """The folder of its database, sockets and logs."""

    @property
    def _vsctl_command(self) -> list[str]:
        """Start of each command line of `ovs-vsctl`."""
        return open_vswitch.control_command(self.folder)

    @property
    def log(self) -> Path:
        """The log of the switch."""
        return self.folder / f"{open_vswitch.SWITCH}.log"

    def change(self, *arguments: str) -> None:
        """Run `ovs-vsctl`, which waits until the switch has applied the change; raises BenchError."""
        open_vswitch.run_tool([*self._vsctl_command, *arguments], self.log)

    def query(self, *arguments: str) -> str:
        """Return the output of `ovs-appctl`; raises BenchError."""
        sockets = list(self.folder.glob(f"{open_vswitch.SWITCH}.*.ctl"))
        if len(sockets) != 1:
            raise BenchError(
                f"the switch has {len(sockets)} control sockets instead of one, so it has ended or is ending",
                where=str(self.folder),
                fix="run the study again; its log is next to the socket",
            )
        program = open_vswitch.find_program(APPLICATION_CONTROL)
        command = [program, f"--timeout={QUERY_TIMEOUT_S}", "-t", str(sockets[0]), *arguments]
        return open_vswitch.run_tool(command, self.log)

    def read_port_number(self, interface: str) -> int:
        """Return the number that the switch gives an interface of a bridge; raises BenchError."""
        return int(
            open_vswitch.run_tool([*self._vsctl_command, "get", "Interface", interface, "ofport"], self.log)
        )

    def replace_bridge(self, bridge: str) -> None:
        """Create a bridge without ports, in place of an earlier one of this name; raises BenchError."""
        self.change("--if-exists", "del-br", bridge)
        self.change("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev")

    def add_bond(self, bridge: str, members: Sequence[str], settings: Sequence[str]) -> None:
        """Add a bond to a bridge without one; `settings` are columns of its port, such as `lacp=active`.

        Remove an earlier bond in a change of its own: in one change, the switch would keep its table.
        """
        self.change("add-bond", bridge, bond_name(bridge), *members, *settings)

    def read_bond(self, bridge: str) -> str:
        """Return `ovs-appctl bond/show` of a bridge's bond; raises BenchError."""
        return self.query("bond/show", bond_name(bridge))

    def wait_for_bond(self, bridge: str, is_reached: Callable[[str], bool]) -> str:
        """Return the first `bond/show` that fulfils a condition; raises BenchError after LACP_TIMEOUT_S."""
        return wait_for_text(
            lambda: self.read_bond(bridge),
            is_reached,
            LACP_TIMEOUT_S,
            what="the bond",
            where=f"bridge {bridge}",
        )


def lacp_columns(timer: str, *, is_active: bool = True) -> tuple[str, ...]:
    """Return the columns of a port with this timer of LACP: `slow`, `fast` or `off`."""
    if timer == "off":
        return ("lacp=off",)
    return (f"lacp={'active' if is_active else 'passive'}", f"other_config:lacp-time={timer}")


def bond_name(bridge: str) -> str:
    """Return the name of a bridge's bond."""
    return f"team-{bridge}"


def start_open_vswitch(testbed_name: str, namespace: str) -> OpenVswitch:
    """Start Open vSwitch in a testbed's namespace; it ends with the testbed. Raises BenchError."""
    open_vswitch.start_daemons(testbed_name, namespace)
    return find_open_vswitch(testbed_name)


def find_open_vswitch(testbed_name: str) -> OpenVswitch:
    """Return the Open vSwitch that a testbed runs; raises BenchError if it is not installed."""
    open_vswitch.find_program(open_vswitch.CONTROL)
    return OpenVswitch(registry.ensure_testbed_folder(testbed_name))


def is_ready(bond_show: str, member_count: int, lacp_status: str | None) -> bool:
    """Return whether all members of a bond are enabled, and LACP has this status; None: any status."""
    has_status = lacp_status is None or f"lacp_status: {lacp_status}" in bond_show
    enabled = re.findall(r"^(?:member|slave) .+: enabled$", bond_show, re.MULTILINE)
    return has_status and len(enabled) == member_count


def read_lacp_timer(lacp_show: str) -> str | None:
    """Return the timer in the output of `ovs-appctl lacp/show`, `slow` or `fast`; None if it has none."""
    found = re.search(r"^\s*lacp_time: (\w+)$", lacp_show, re.MULTILINE)
    return found[1] if found else None
