"""Exports as JSON: vSphere's inventory in govc's form, and the output of the script for Windows.

They are made for tests. The Windows sample follows the properties that Microsoft documents for
`Get-NetAdapter`, `Get-NetAdapterRss` and the other cmdlets; it was not recorded on a Windows machine.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]


def make_vm() -> JsonObject:
    """Return a VM without a fault, as `govc vm.info -json` writes it."""
    return {
        "name": "web-01",
        "config": {
            "name": "web-01",
            "version": "vmx-19",
            "cpuHotAddEnabled": False,
            "latencySensitivity": {"level": "normal"},
            "cpuAllocation": {"reservation": 0, "limit": -1},
            "memoryAllocation": {"reservation": 0, "limit": -1},
            "memoryReservationLockedToMax": False,
            "extraConfig": [{"key": "svga.autodetect", "value": "TRUE"}],
            "hardware": {
                "numCPU": 4,
                "numCoresPerSocket": 4,
                "memoryMB": 8192,
                "device": [
                    {
                        "_typeName": "ParaVirtualSCSIController",
                        "key": 1000,
                        "deviceInfo": {"label": "SCSI controller 0"},
                    },
                    {
                        "_typeName": "VirtualVmxnet3",
                        "key": 4000,
                        "deviceInfo": {"label": "Network adapter 1"},
                        "macAddress": "00:50:56:aa:00:01",
                        "connectable": {"startConnected": True},
                    },
                ],
            },
        },
        "runtime": {"powerState": "poweredOn", "host": {"type": "HostSystem", "value": "host-9"}},
        "guest": {
            "toolsVersionStatus2": "guestToolsUnmanaged",
            "toolsRunningStatus": "guestToolsRunning",
        },
    }


def make_host() -> JsonObject:
    """Return a host without a fault, as `govc host.info -json` writes it."""
    policy = {
        "nicTeaming": {
            "policy": "loadbalance_srcid",
            "failureCriteria": {"checkBeacon": False},
            "nicOrder": {"activeNic": ["vmnic0", "vmnic1"], "standbyNic": []},
        },
        "security": {"allowPromiscuous": False},
        "shapingPolicy": {"enabled": False},
    }
    nics = [
        {
            "key": f"key-vim.host.PhysicalNic-vmnic{number}",
            "device": f"vmnic{number}",
            "linkSpeed": {"speedMb": 10000, "duplex": True},
            "spec": {},
            "validLinkSpecification": [{"speedMb": 10000, "duplex": True}],
        }
        for number in range(2)
    ]
    return {
        "self": {"type": "HostSystem", "value": "host-9"},
        "name": "esx-07",
        "hardware": {"cpuInfo": {"numCpuCores": 32}, "numaInfo": {"numNodes": 2}},
        "config": {
            "powerSystemInfo": {"currentPolicy": {"shortName": "static"}},
            "option": [
                {"key": "Net.UseHwTSO", "value": 1},
                {"key": "Net.Vmxnet3HwLRO", "value": 1},
                {"key": "Net.Vmxnet3SwLRO", "value": 1},
            ],
            "network": {
                "pnic": nics,
                "vswitch": [
                    {
                        "name": "vSwitch0",
                        "mtu": 9000,
                        "pnic": [nic["key"] for nic in nics],
                        "spec": {"policy": policy},
                    }
                ],
                "portgroup": [{"spec": {"name": "vMotion", "vswitchName": "vSwitch0", "policy": {}}}],
                "vnic": [{"device": "vmk1", "portgroup": "vMotion", "spec": {"mtu": 9000}}],
            },
        },
        "networkHints": [
            {"device": nic["device"], "connectedSwitchPort": {"devId": "switch-1", "mtu": 9216}}
            for nic in nics
        ],
    }


def make_distributed_switch() -> JsonObject:
    """Return a distributed switch with a link aggregation group."""
    return {"name": "dvs-1", "config": {"lacpGroupConfig": [{"name": "lag1", "mode": "active"}]}}


def make_export() -> JsonObject:
    """Return an export without a fault."""
    return {
        "virtualMachines": [make_vm()],
        "hostSystems": [make_host()],
        "switches": [make_distributed_switch()],
    }


def make_windows_guest() -> JsonObject:
    """Return a Windows guest without a fault."""
    name = "Ethernet0"
    return {
        "vnetbench_windows_audit": 1,
        "computer": "WEB-01",
        "manufacturer": "VMware, Inc.",
        "model": "VMware7,1",
        "cpus": 4,
        "power_plan": "Microsoft:PowerPlan\\{8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c}",
        "vmtools_installed": True,
        "vmtools_running": True,
        "adapters": [
            {
                "Name": name, "InterfaceDescription": "vmxnet3 Ethernet Adapter", "DriverVersion": "1.9.17.0",
                "Status": "Up", "MtuSize": 1500, "FullDuplex": True, "Speed": 10_000_000_000,
            }
        ],
        "rss": [{"Name": name, "Enabled": True, "NumberOfReceiveQueues": 4}],
        "rsc": [{"Name": name, "IPv4Enabled": True}],
        "lso": [{"Name": name, "V2IPv4Enabled": True}],
        "checksum": [{"Name": name, "TcpIPv4Enabled": "RxTxEnabled"}],
        "statistics": [{"Name": name, "ReceivedUnicastPackets": 1_000_000, "ReceivedDiscardedPackets": 0}],
        "advanced": [
            {"Name": name, "RegistryKeyword": "MaxRxRing1Length", "DisplayValue": "4096"},
            {"Name": name, "RegistryKeyword": "NumRxBuffersSmall", "DisplayValue": "8192"},
            {"Name": name, "RegistryKeyword": "*InterruptModeration", "DisplayValue": "Enabled"},
        ],
        "offload": [{"ReceiveSideScaling": "Enabled", "TaskOffload": "Enabled"}],
        "tcp": [{"SettingName": "Internet", "AutoTuningLevelLocal": "Normal"}],
    }  # fmt: skip


def change(document: JsonObject, changes: Mapping[str, Any]) -> JsonObject:
    """Return a copy with other values, by their path: `config.hardware.device.1._typeName`."""
    changed = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = path.split(".")
        target: Any = changed
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        target[int(last) if isinstance(target, list) else last] = value
    return changed
