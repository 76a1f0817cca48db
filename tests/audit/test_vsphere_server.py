"""The audit of a vSphere server: faults put there through its API, a clean inventory, and bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import pytest
from click.testing import CliRunner, Result

from tests.vsphere_server import (
    PASSWORD,
    VM_COUNT,
    VsphereServer,
    finish,
    list_vms,
    reconfigure,
    running_server,
)
from vnetbench.audit.files.vsphere import FIRST_ADAPTER_KEY
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.live import vsphere_api
from vnetbench.audit.rules import load_rules
from vnetbench.audit.targets import read_target
from vnetbench.cli import cli
from vnetbench.errors import BenchError
from vnetbench.lab.vsphere import session
from vnetbench.lab.vsphere.password import PASSWORD_VARIABLE

NEGOTIATED = {"pnic": [{"spec": {"linkSpeed": None}}, {"spec": {"linkSpeed": None}}]}
"""The simulator's own adapters have a speed that is set by hand."""
FAULTY_HOST = {
    "pnic": [{"linkSpeed": {"speedMb": 10000, "duplex": False}, "spec": {"linkSpeed": None}}, {}],
    "vnic": [{"spec": {"mtu": 9000}}],
}
HOST_RULES = {"uplink_half_duplex", "uplink_speed_fixed", "vmkernel_mtu_above_switch"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VsphereServer]:
    with running_server(tmp_path_factory.mktemp("vsphere"), NEGOTIATED) as running:
        with running.session() as content:
            for vm in list_vms(content):
                make_clean(vm)
        yield running


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring that ends with the test."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    keyring.set_keyring(MemoryKeyring())


def replace_adapter(vm: Any, model: str) -> None:
    """Remove the adapters of a VM and add one of a model to the same network."""
    from pyVmomi import vim

    card = vim.vm.device.VirtualEthernetCard
    old = [device for device in vm.config.hardware.device if isinstance(device, card)]
    new = getattr(vim.vm.device, model)(
        key=-1,
        backing=old[0].backing,
        connectable=vim.vm.device.VirtualDevice.ConnectInfo(
            startConnected=True, connected=True, allowGuestControl=True
        ),
        addressType="generated",
    )
    change = vim.vm.device.VirtualDeviceSpec
    changes = [change(operation="remove", device=device) for device in old]
    reconfigure(vm, vim.vm.ConfigSpec(deviceChange=[*changes, change(operation="add", device=new)]))


def make_clean(vm: Any) -> None:
    """Replace the emulated adapter, and let VMware Tools run: a new VM of the simulator has neither."""
    replace_adapter(vm, "VirtualVmxnet3")
    set_extra(vm, "SET.guest.toolsVersionStatus2", "guestToolsUnmanaged")
    set_extra(vm, "SET.guest.toolsRunningStatus", "guestToolsRunning")


def configure(vm: Any, **settings: Any) -> None:
    from pyVmomi import vim

    reconfigure(vm, vim.vm.ConfigSpec(**settings))


def limit_cpu(vm: Any) -> None:
    from pyVmomi import vim

    configure(vm, cpuAllocation=vim.ResourceAllocationInfo(limit=2000))


def limit_memory(vm: Any) -> None:
    from pyVmomi import vim

    configure(vm, memoryAllocation=vim.ResourceAllocationInfo(limit=16))


def set_latency_sensitivity(vm: Any) -> None:
    from pyVmomi import vim

    configure(vm, latencySensitivity=vim.LatencySensitivity(level="high"))


def set_extra(vm: Any, key: str, value: str) -> None:
    from pyVmomi import vim

    configure(vm, extraConfig=[vim.option.OptionValue(key=key, value=value)])


def find_adapter(vm: Any) -> Any:
    from pyVmomi import vim

    (card,) = (d for d in vm.config.hardware.device if isinstance(d, vim.vm.device.VirtualEthernetCard))
    return card


def set_invalid_coalescing(vm: Any) -> None:
    number = find_adapter(vm).key - FIRST_ADAPTER_KEY
    set_extra(vm, f"ethernet{number}.coalescingScheme", "fast")


def disconnect_adapter(vm: Any) -> None:
    from pyVmomi import vim

    card = find_adapter(vm)
    card.connectable.startConnected = False
    configure(vm, deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="edit", device=card)])


VM = "DC0_H0_VM0"
VM_FAULTS: list[tuple[str, Callable[[Any], None]]] = [
    ("emulated_adapter_in_vsphere", lambda vm: replace_adapter(vm, "VirtualE1000")),
    ("adapter_not_connected", disconnect_adapter),
    ("hot_add_disables_vnuma", lambda vm: configure(vm, cpuHotAddEnabled=True, numCPUs=12)),
    ("uneven_sockets", lambda vm: configure(vm, numCPUs=2, numCoresPerSocket=3)),
    ("cpu_limit_in_vsphere", limit_cpu),
    ("memory_limit_in_vsphere", limit_memory),
    ("latency_sensitivity_without_reservation", set_latency_sensitivity),
    ("invalid_coalescing", set_invalid_coalescing),
    ("tools_old_in_vsphere", lambda vm: set_extra(vm, "SET.guest.toolsVersionStatus2", "guestToolsTooOld")),
    ("tools_stopped_in_vsphere",
     lambda vm: set_extra(vm, "SET.guest.toolsRunningStatus", "guestToolsNotRunning")),
]  # fmt: skip


TEAM_FAULTS: list[tuple[str, Mapping[str, Any]]] = [
    (
        "ip_hash_with_standby",
        {"policy": "loadbalance_ip", "standby": ["vmnic1"], "active": ["vmnic0", "vmnic2"]},
    ),
    ("ip_hash_with_beacon_probing", {"policy": "loadbalance_ip", "beacon": True}),
    ("ip_hash_with_one_uplink", {"policy": "loadbalance_ip", "active": ["vmnic0"]}),
    ("promiscuous_port_group", {"promiscuous": True}),
    ("shaping_in_vsphere", {"shaped": True}),
]


def add_port_group(content: Any, name: str, changes: Mapping[str, Any]) -> None:
    """Add a port group to the host's only switch."""
    from pyVmomi import vim

    network = vim.host.NetworkPolicy
    teaming = network.NicTeamingPolicy(
        policy=changes.get("policy", "loadbalance_srcid"),
        failureCriteria=network.NicFailureCriteria(checkBeacon=changes.get("beacon", False)),
        nicOrder=network.NicOrderPolicy(
            activeNic=changes.get("active", ["vmnic0", "vmnic1"]), standbyNic=changes.get("standby", [])
        ),
    )
    policy = network(
        nicTeaming=teaming,
        security=network.SecurityPolicy(allowPromiscuous=changes.get("promiscuous", False)),
        shapingPolicy=network.TrafficShapingPolicy(enabled=changes.get("shaped", False)),
    )
    spec = vim.host.PortGroup.Specification(name=name, vlanId=0, vswitchName="vSwitch0", policy=policy)
    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True)
    view.view[0].configManager.networkSystem.AddPortGroup(spec)


def findings_of(target: str) -> set[tuple[str, str]]:
    """Return the rules that find something, and the first word of the object: the VM or the host."""
    found = list(read_target(target))
    inventories = [each for each in found if isinstance(each, Inventory)]
    assert len(inventories) == len(found) == 1
    findings = judge(inventories, list(load_rules().values())).findings
    return {(finding.rule.id, finding.object_name.partition(" ")[0]) for finding in findings}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments])


def test_a_clean_inventory_gives_no_finding(server: VsphereServer) -> None:
    assert findings_of(server.address) == set()
    (inventory,) = (each for each in read_target(server.address) if isinstance(each, Inventory))
    assert len(inventory.of_kind("vm")) == len(inventory.of_kind("adapter")) == VM_COUNT
    assert inventory.of_kind("uplink") and inventory.of_kind("team") and inventory.of_kind("vmkernel")


def test_each_fault_of_a_vm_is_found_by_its_rule_and_no_other(tmp_path: Path) -> None:
    expected = set()
    with running_server(tmp_path, NEGOTIATED) as server:
        with server.session() as content:
            vms = list_vms(content)
            for vm in vms:
                make_clean(vm)
            for (rule, plant), vm in zip(VM_FAULTS, vms[1:], strict=False):
                plant(vm)
                expected.add((rule, vm.name))
        assert len(expected) == len(VM_FAULTS) < VM_COUNT
        # The VM with hot-add has more vCPUs than the host has cores.
        (wide,) = (vm for rule, vm in expected if rule == "hot_add_disables_vnuma")
        assert findings_of(server.address) == expected | {("vm_wider_than_node", wide)}


def test_faults_of_hosts_and_port_groups_are_found(tmp_path: Path) -> None:
    with running_server(tmp_path, FAULTY_HOST) as server:
        with server.session() as content:
            for vm in list_vms(content):
                make_clean(vm)
            for rule, changes in TEAM_FAULTS:
                add_port_group(content, rule, changes)
        found = {rule for rule, _ in findings_of(server.address)}
    assert found == HOST_RULES | {rule for rule, _ in TEAM_FAULTS}


def test_a_saved_export_gives_the_same_inventory_and_has_no_secret(
    server: VsphereServer, tmp_path: Path
) -> None:
    with server.session() as content:
        set_extra(list_vms(content)[0], "guestinfo.userdata", "password: hunter2")
    export = tmp_path / "export.json"
    done = run(server.address, "--save-export", str(export))
    assert done.exit_code == 0, done.output
    text = export.read_text()
    assert "hunter2" not in text and PASSWORD not in text
    (live,) = read_target(server.address)
    (stored,) = read_target(str(export))
    assert isinstance(live, Inventory) and isinstance(stored, Inventory)
    assert stored.objects == live.objects


def test_one_vm_is_read_by_its_name(server: VsphereServer) -> None:
    (inventory,) = read_target(f"{server.address}#{VM}")
    assert isinstance(inventory, Inventory)
    assert [each.name for each in inventory.of_kind("vm")] == [VM]


@pytest.mark.parametrize("fault", ["password", "user", "vm", "certificate", "thumbprint", "closed", "other"])
def test_bad_input_is_one_sentence_and_leaves_no_session(
    server: VsphereServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    address = server.address
    sentences = {
        "password": (address, "refuses the user name or the password"),
        "user": (address.replace("audit@", "nobody@"), "refuses the user name or the password"),
        "vm": (f"{address}#web-99", "has no VM named web-99"),
        "certificate": (server.unverified_address, "the certificate of the server is refused"),
        "thumbprint": (f"{server.unverified_address}?thumbprint={'0' * 64}", "shows another certificate"),
        "closed": ("vsphere://audit@127.0.0.1:1/", "cannot be reached"),
        "other": (f"{address}#{VM}", "not that of a vSphere server"),
    }
    if fault == "password":
        monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    target, sentence = sentences[fault]
    if fault == "other":
        monkeypatch.setattr(session, "API_PATH", "/about")
    done = run(target)
    assert isinstance(done.exception, BenchError)
    assert sentence in done.exception.what and done.exception.fix
    monkeypatch.undo()
    assert server.count_sessions() == 0


def test_a_vm_that_vanishes_is_an_error_and_the_others_are_read(
    server: VsphereServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(tmp_path, NEGOTIATED) as own:
        whole_list = vsphere_api._list_objects

        def list_and_destroy(content: Any, object_type: Any) -> list[Any]:
            found = whole_list(content, object_type)
            if found[0].name == VM:
                finish(found[0].reference.PowerOffVM_Task())
                finish(found[0].reference.Destroy_Task())
            return found

        monkeypatch.setattr(vsphere_api, "_list_objects", list_and_destroy)
        error, inventory = read_target(own.address)
        assert isinstance(error, BenchError) and isinstance(inventory, Inventory)
        assert error.what == "the object was removed during the audit" and VM in str(error.where)
        assert len(inventory.of_kind("vm")) == VM_COUNT - 1
        monkeypatch.undo()
        assert own.count_sessions() == 0


def test_the_certificate_can_be_verified_with_a_file(server: VsphereServer, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(server.certificate())
    (inventory,) = read_target(f"{server.unverified_address}?ca={authority}")
    assert isinstance(inventory, Inventory)


@pytest.mark.parametrize("source", ["netrc", "keyring"])
def test_the_password_comes_from_netrc_or_a_keyring(
    server: VsphereServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE)
    done = run(server.address)
    assert isinstance(done.exception, BenchError) and "there is no password" in done.exception.what
    if source == "netrc":
        (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login audit password {PASSWORD}\n")
        (tmp_path / "netrc").chmod(0o600)
    else:
        keyring.set_password("vnetbench", "audit@127.0.0.1", PASSWORD)
    (inventory,) = read_target(server.address)
    assert isinstance(inventory, Inventory)


@pytest.mark.parametrize(
    "target",
    [
        "vsphere://audit:secret@vc-01/",
        "vsphere://vc-01/",
        "vsphere://a@vc-01/?thumbprint=12",
        "vsphere://a@h:x/",
    ],
)
def test_a_wrong_address_is_refused_and_a_password_in_it_is_not_repeated(target: str) -> None:
    done = run(target)
    assert isinstance(done.exception, BenchError)
    assert "secret" not in str(done.exception)
