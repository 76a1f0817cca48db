"""Read the JSON that `collect.ps1` writes on a Windows machine."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from vnetbench.audit.files.json_path import get, get_flag, get_list, get_text, get_whole
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.errors import BenchError

FORMAT_KEY = "vnetbench_windows_audit"
FORMAT_VERSION = 1
_POWER_PLANS = {
    "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c": "high",
    "e9a42b02-d5df-448d-aa00-03f14749eb61": "high",
    "381b4222-f694-41f0-9685-ff5bb260df2e": "balanced",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "saver",
}
"""Identifiers of Windows' own power plans; the second one is Ultimate Performance."""
_EMULATED = {
    "82574L": "e1000e",
    "82545EM": "e1000",
    "PRO/1000 MT": "e1000",
    "AMD PCNET": "pcnet32",
    "RTL8139": "rtl8139",
}


def windows_script() -> str:
    """Return the script that the user runs in a Windows guest."""
    return files("vnetbench.audit.windows").joinpath("collect.ps1").read_text(encoding="utf-8")


def is_windows_document(document: Any) -> bool:
    """Return whether a JSON document is the output of the script."""
    return isinstance(document, dict) and FORMAT_KEY in document


def read_windows_guest(document: Any, where: str) -> Inventory:
    """Return the inventory of a Windows machine.

    Raises:
        BenchError: The document has another version, or no adapters.
    """
    if get_whole(document, FORMAT_KEY) != FORMAT_VERSION:
        raise BenchError(
            "another version of vnetbench made this script",
            where=where,
            fix="run vnetbench audit --windows-script again",
        )
    adapters = [each for each in _as_list(get(document, "adapters")) if get_text(each, "Name")]
    if not adapters:
        raise BenchError(
            "the document has no adapter", where=where, fix="run the script on Windows 8, 2012 or newer"
        )
    inventory = Inventory(where)
    machine = _add_machine(inventory, document)
    for adapter in adapters:
        _add_interface(inventory, adapter, document, machine)
    return inventory


def _add_machine(inventory: Inventory, document: Any) -> InventoryObject:
    machine = inventory.add_object("machine", get_text(document, "computer") or "machine", "windows")
    maker, model = get_text(document, "manufacturer"), get_text(document, "model")
    hypervisor = "vmware" if "VMware" in maker else "kvm" if maker in ("QEMU", "Red Hat") else None
    if hypervisor is None and maker:
        hypervisor = "microsoft" if model == "Virtual Machine" else "none"
    machine.add("hypervisor", hypervisor, "Win32_ComputerSystem")
    machine.add("cpus", get_whole(document, "cpus"), "NUMBER_OF_PROCESSORS")
    machine.add("tools_installed", get_flag(document, "vmtools_installed"), "Get-Service VMTools")
    machine.add("tools_running", get_flag(document, "vmtools_running"), "Get-Service VMTools")
    plan = get_text(document, "power_plan").rpartition("{")[2].rstrip("}").lower()
    machine.add("power_plan", _POWER_PLANS.get(plan, "other") if plan else None, "Win32_PowerPlan")
    offload = next(iter(_as_list(get(document, "offload"))), None)
    source = "Get-NetOffloadGlobalSetting"
    machine.add("rss_global", _is_enabled(get(offload, "ReceiveSideScaling")), source)
    task_offload = _is_enabled(get(offload, "TaskOffload"))
    machine.add("task_offload_disabled", None if task_offload is None else not task_offload, source)
    tcp = next(iter(_as_list(get(document, "tcp"))), None)
    machine.add(
        "autotuning", get_text(tcp, "AutoTuningLevelLocal").lower() or None, "Get-NetTCPSetting Internet"
    )
    return machine


def _add_interface(inventory: Inventory, adapter: Any, document: Any, machine: InventoryObject) -> None:
    name = get_text(adapter, "Name")
    interface = inventory.add_object("interface", name, "windows")
    for fact in ("hypervisor", "cpus"):
        if fact in machine.facts:
            interface.facts[fact] = machine.facts[fact]
    description = get_text(adapter, "InterfaceDescription")
    interface.add("driver", description or None, "Get-NetAdapter")
    if interface.value("hypervisor") in ("vmware", "kvm"):
        models = (model for words, model in _EMULATED.items() if words in description)
        interface.add("emulated_model", next(models, "none"), "Get-NetAdapter: InterfaceDescription")
    interface.add("carrier", get_text(adapter, "Status") == "Up", "Get-NetAdapter: Status")
    interface.add("mtu", get_whole(adapter, "MtuSize"), "Get-NetAdapter: MtuSize")
    duplex = get_flag(adapter, "FullDuplex")
    interface.add(
        "duplex", None if duplex is None else "full" if duplex else "half", "Get-NetAdapter: FullDuplex"
    )
    speed = get_whole(adapter, "Speed")
    interface.add("speed_mbps", speed // 10**6 if speed else None, "Get-NetAdapter: Speed")
    for fact, table, key in (
        ("rss", "rss", "Enabled"), ("rsc", "rsc", "IPv4Enabled"), ("lso", "lso", "V2IPv4Enabled"),
    ):  # fmt: skip
        interface.add(fact, get_flag(_row(document, table, name), key), f"Get-NetAdapter{table.capitalize()}")
    checksum = get_text(_row(document, "checksum", name), "TcpIPv4Enabled")
    if checksum.endswith(("Enabled", "Disabled")):  # Disabled, RxEnabled, TxEnabled, RxTxEnabled
        interface.add("tx_checksum", "Tx" in checksum, "Get-NetAdapterChecksumOffload")
    _add_buffers(interface, document, name)


def _add_buffers(interface: InventoryObject, document: Any, name: str) -> None:
    statistics = _row(document, "statistics", name)
    packets, discards = (
        get_whole(statistics, key) for key in ("ReceivedUnicastPackets", "ReceivedDiscardedPackets")
    )
    if packets and packets >= 10_000 and discards is not None:
        interface.add("rx_lost_ppm", discards / packets * 1e6, "Get-NetAdapterStatistics")
    source = "Get-NetAdapterAdvancedProperty"
    advanced = {
        get_text(row, "RegistryKeyword").lower(): row
        for row in get_list(document, "advanced")
        if get_text(row, "Name") == name
    }
    ring = advanced.get("maxrxring1length") or advanced.get("*receivebuffers")
    interface.add("receive_buffers", get_whole(ring, "DisplayValue"), source)
    interface.add("small_buffers", get_whole(advanced.get("numrxbufferssmall"), "DisplayValue"), source)
    moderation = get_text(advanced.get("*interruptmoderation"), "DisplayValue").lower()
    if moderation in ("enabled", "disabled"):
        interface.add("interrupt_moderation", moderation == "enabled", source)


def _row(document: Any, table: str, name: str) -> Any:
    """Return the row of an adapter in a table of the document."""
    return next((row for row in _as_list(get(document, table)) if get_text(row, "Name") == name), None)


def _as_list(value: Any) -> list[Any]:
    """Return a list; ConvertTo-Json writes a list of one object as the object."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _is_enabled(value: Any) -> bool | None:
    """Return whether a setting is `Enabled`; None if it is neither that nor `Disabled`."""
    return {"Enabled": True, "Disabled": False}.get(value) if isinstance(value, str) else None
