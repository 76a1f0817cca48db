"""Collect the settings of a Linux machine: this one, or one over SSH. It only reads."""

from __future__ import annotations

import os
from importlib.resources import files

from vnetbench.audit.inventory import Inventory
from vnetbench.audit.linux.interfaces import read_interfaces
from vnetbench.audit.linux.machine import read_machine
from vnetbench.audit.linux.sections import Sections, parse_sections
from vnetbench.audit.linux.teams import read_bonds, read_open_vswitch
from vnetbench.errors import BenchError


def linux_script() -> str:
    """Return the script that prints what the audit reads."""
    return files("vnetbench.audit.linux").joinpath("collect.sh").read_text(encoding="utf-8")


def collect_local() -> Inventory:
    """Return the inventory of this machine."""
    from vnetbench.lab.hosts.ssh import local_machine

    machine = local_machine("local", _connection_label())
    return read_linux_listing(machine.run(linux_script()).output, "local")


def collect_over_ssh(destination: str) -> Inventory:
    """Return the inventory of a machine that the user's OpenSSH client reaches.

    Raises:
        HostUnreachable: with the reason and the fix.
        BenchError: the machine is no Linux machine.
    """
    from vnetbench.lab.hosts.ssh import connect

    host = connect(destination, destination, _connection_label())
    try:
        output = host.run(linux_script()).output
    finally:
        host.close()
    return read_linux_listing(output, destination)


def read_linux_listing(text: str, target: str) -> Inventory:
    """Return the inventory of a machine from the output of the script.

    Raises:
        BenchError: the output is incomplete, or the machine does not run Linux.
    """
    try:
        sections = parse_sections(text)
    except BenchError as error:
        raise BenchError(error.what, where=target, fix=error.fix) from None
    if not any(name.startswith("/proc/") for name in (*sections.texts, *sections.values)):
        raise BenchError(
            "the machine has no /proc, so it is no Linux machine",
            where=target,
            fix="on Windows use vnetbench audit --windows-script",
        )
    return _build_inventory(sections, target)


def _build_inventory(sections: Sections, target: str) -> Inventory:
    inventory = Inventory(target)
    machine = read_machine(sections, inventory)
    read_interfaces(sections, inventory, machine)
    read_bonds(sections, inventory)
    read_open_vswitch(sections, inventory)
    if "installed:ethtool" not in sections.text("programs"):
        inventory.notes.append(f"{target}: install ethtool there to judge offloads, rings and speeds.")
    return inventory


def _connection_label() -> str:
    return f"audit-{os.getpid()}"
