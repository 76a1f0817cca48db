"""Kernel settings (sysctl) of a testbed's namespaces or of the whole machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab import netlink

_SYSCTL_FOLDER = Path("/proc/sys")
BACKUP_FILE = Path(tempfile.gettempdir()) / "vnetbench-corpus-settings.json"
"""Original values of the machine's settings while a run changes them."""


def endpoint_sysctls(sides: str, values: Mapping[str, str]) -> Disturbance:
    """Set these values, by path below /proc/sys, in the namespaces of all endpoints on these sides."""
    return _namespace_sysctls(
        lambda target: [end.namespace for end in target.vms if end.side in sides], values
    )


def switch_sysctls(values: Mapping[str, str]) -> Disturbance:
    """Set these values in the namespace of the virtual switches."""
    return _namespace_sysctls(lambda target: [target.switch_namespace], values)


def _namespace_sysctls(
    select_namespaces: Callable[[DisturbanceTarget], list[str]], values: Mapping[str, str]
) -> Disturbance:
    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        namespaces = select_namespaces(target)
        original_values = {
            name: netlink.run_in_namespace(name, partial(write_sysctls, values)) for name in namespaces
        }
        try:
            yield
        finally:
            for name, originals in original_values.items():
                netlink.run_in_namespace(name, partial(write_sysctls, originals))

    return disturb


def machine_sysctls(values: Mapping[str, str]) -> Disturbance:
    """Set values of the whole machine. BACKUP_FILE holds the original values until they are restored."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        original_values = {name: (_SYSCTL_FOLDER / name).read_text().strip() for name in values}
        BACKUP_FILE.write_text(json.dumps({"boot": read_boot_id(), "before": original_values}))
        try:
            write_sysctls(values)
            yield
        finally:
            write_sysctls(original_values)
            BACKUP_FILE.unlink()

    return disturb


def restore_leftover_sysctls() -> dict[str, str]:
    """Restore and return the original values that a killed process left in BACKUP_FILE."""
    try:
        backup = json.loads(BACKUP_FILE.read_text())
    except (FileNotFoundError, ValueError):  # an incomplete backup precedes any change
        BACKUP_FILE.unlink(missing_ok=True)
        return {}
    original_values: dict[str, str] = backup["before"] if backup["boot"] == read_boot_id() else {}
    write_sysctls(original_values)
    BACKUP_FILE.unlink()
    return original_values


def read_boot_id() -> str:
    """Return the ID of the machine's current boot. A reboot resets all settings."""
    return (_SYSCTL_FOLDER / "kernel/random/boot_id").read_text().strip()


def write_sysctls(values: Mapping[str, str]) -> dict[str, str]:
    """Write these values and return the original ones."""
    original_values = {}
    for name, value in values.items():
        path = _SYSCTL_FOLDER / name
        original_values[name] = path.read_text().strip()
        path.write_text(value)
    return original_values
