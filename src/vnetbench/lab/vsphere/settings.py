"""Settings that a treatment requests of a VM of vSphere, and what a VM has of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.guest_factors import ADAPTER
from vnetbench.study.factors.vsphere_factors import (
    COALESCING_SCHEME,
    CTX_PER_DEV,
    LATENCY_SENSITIVITY,
    PNIC_FEATURES,
)
from vnetbench.study.model import Level

_TYPE_NAME_BY_ADAPTER = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}
"""vSphere's type by level of the factor `adapter`."""
_ENTRY_BY_FACTOR = {
    COALESCING_SCHEME.name: "coalescingScheme", CTX_PER_DEV.name: "ctxPerDev",
    PNIC_FEATURES.name: "pnicFeatures",
}  # fmt: skip
"""Entries of the adapter in the VM's extra configuration, after `ethernetX.`."""
SLOT_ENTRY = "pciSlotNumber"
"""The adapter's PCI slot, after which guests name their interface."""
_FIRST_ADAPTER_KEY = 4000
"""Key of ethernet0; the others follow (vSphere Web Services API, VirtualDevice.key)."""


@dataclass(frozen=True)
class VmSettings:
    """What a treatment requests of each VM; empty values leave the VM's own."""

    adapter: str = ""
    """Level of the factor `adapter`."""
    latency_sensitivity: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    """Entries of the adapter in the extra configuration, after `ethernetX.`, with their values."""

    def __str__(self) -> str:
        values = {**asdict(self), **dict(self.entries)}
        del values["entries"]
        return " ".join(f"{name}={value}" for name, value in values.items() if value) or "unchanged settings"


def requested_settings(factors: Mapping[str, Level]) -> VmSettings:
    """Return the settings that a treatment requests.

    Raises:
        TreatmentRefused: vSphere has no such adapter.
    """
    adapter = str(ADAPTER.read_level(factors)) if ADAPTER.is_present_in(factors) else ""
    if adapter and adapter not in _TYPE_NAME_BY_ADAPTER:
        raise TreatmentRefused(
            f"vSphere has no adapter {adapter}",
            fix=f"use {', '.join(_TYPE_NAME_BY_ADAPTER)}",
            factor=ADAPTER.name,
        )
    latency = str(factors.get(LATENCY_SENSITIVITY.name, ""))
    entries = tuple(
        (entry, str(factors[name])) for name, entry in _ENTRY_BY_FACTOR.items() if name in factors
    )
    return VmSettings(adapter, latency, entries)


def adapter_type(level: str, vim: Any) -> Any:
    """Return pyvmomi's type for a level of the factor `adapter`."""
    return getattr(vim.vm.device, _TYPE_NAME_BY_ADAPTER[level])


def adapter_level(adapter: Any) -> str:
    """Return the level of the factor `adapter`, or vSphere's own name if there is no such level."""
    name = type(adapter).__name__.rpartition(".")[2]
    return next((level for level, known in _TYPE_NAME_BY_ADAPTER.items() if known == name), name)


def find_adapter(config: Any, mac: str, where: str, vim: Any) -> Any:
    """Return the network adapter with a MAC address; without an address, the only one.

    Raises:
        BenchError: there is no such adapter, or the choice is open.
    """
    adapters = list(list_adapters(config, vim))
    found = [each for each in adapters if not mac or read_mac(each) == mac.lower()]
    if len(found) == 1:
        return found[0]
    known = ", ".join(map(read_mac, adapters)) or "none"
    if mac:
        raise BenchError(
            f"the VM has no adapter {mac}", where=where, fix=f"name one of its adapters: {known}"
        )
    raise BenchError(
        f"the VM has {len(adapters)} adapters, so the study must name one",
        where=where,
        fix=f'write adapter_mac = "…" under its [[testbed.host]]. Its adapters: {known}',
    )


def list_adapters(config: Any, vim: Any) -> Iterator[Any]:
    """Yield the network adapters of a VM's configuration."""
    for device in config.hardware.device:
        if isinstance(device, vim.vm.device.VirtualEthernetCard):
            yield device


def read_mac(adapter: Any) -> str:
    """Return the MAC address of an adapter."""
    return str(adapter.macAddress or "").lower()


def entry_key(adapter: Any, entry: str) -> str:
    """Return the key of an adapter's entry in the extra configuration, such as `ethernet0.ctxPerDev`."""
    return f"ethernet{adapter.key - _FIRST_ADAPTER_KEY}.{entry}"


def read_entries(config: Any, adapter: Any) -> dict[str, str]:
    """Return the adapter's entries that a study can change, and its slot; an empty text is no entry."""
    values = {option.key.lower(): str(option.value) for option in config.extraConfig}
    return {
        entry: values.get(entry_key(adapter, entry).lower(), "")
        for entry in (*_ENTRY_BY_FACTOR.values(), SLOT_ENTRY)
    }


def read_latency_sensitivity(config: Any) -> str:
    """Return the latency sensitivity of a VM."""
    return "normal" if config.latencySensitivity is None else str(config.latencySensitivity.level)


def read_settings(config: Any, adapter: Any) -> dict[str, str]:
    """Return all settings that a study can change, by name, without those that are not set."""
    entries = {entry_key(adapter, name): value for name, value in read_entries(config, adapter).items()}
    values = {
        "adapter": adapter_level(adapter),
        "latency_sensitivity": read_latency_sensitivity(config),
        **entries,
    }
    return {name: value for name, value in values.items() if value}
