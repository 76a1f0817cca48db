"""VMs of vSphere that a study changes, and what is left of it: against the simulator, without load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import vsphere_vms
from tests.vsphere_server import PASSWORD, VsphereServer, finish, list_vms, running_server
from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import list_domain_records
from vnetbench.lab.domains.restore import restore_left_domain
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.vsphere import vm_power
from vnetbench.lab.vsphere.password import PASSWORD_VARIABLE
from vnetbench.lab.vsphere.session import import_vim
from vnetbench.lab.vsphere.settings import VmSettings, requested_settings
from vnetbench.lab.vsphere.testbed import VsphereLab
from vnetbench.lab.vsphere.vms import VsphereVms
from vnetbench.study.model import ExistingEndpointSpec, TestbedSpec

pytest.importorskip("pyVmomi")

MACS = {"web-01": "00:50:56:aa:00:01", "web-02": "00:50:56:aa:00:02"}
REQUESTED = VmSettings("e1000", "high", (("coalescingScheme", "disabled"), ("ctxPerDev", "3")))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VsphereServer]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(vm_power, "SHUTDOWN_TIME_LIMIT_S", 1.0)
    with running_server(tmp_path) as running:
        with running.session() as content:
            for vm, (name, mac) in zip(list_vms(content), MACS.items(), strict=False):
                vsphere_vms.prepare_vm(vm, name, mac)
        yield running


def host(name: str, mac: str | None = None) -> ExistingEndpointSpec:
    return ExistingEndpointSpec(name, ssh_destination=name, domain=name, adapter_mac=mac)


def add_vms(server: VsphereServer) -> VsphereVms:
    vms = VsphereVms(server.address)
    vms.add([host(name) for name in MACS], "a testbed", "a test")
    return vms


def describe(server: VsphereServer) -> dict[str, Any]:
    return {name: vsphere_vms.describe_vm(server, name) for name in MACS}


def test_vms_get_the_requested_settings_and_are_restored(server: VsphereServer) -> None:
    vsphere_vms.power_off(server, "web-02")
    before = describe(server)
    assert before["web-01"]["adapter"]["addressType"] == "assigned"
    vms = add_vms(server)
    assert vms.change(REQUESTED)
    for name, mac in MACS.items():
        found = vsphere_vms.describe_vm(server, name)
        same = ("key", "unitNumber", "controllerKey", "backing")
        assert {key: found["adapter"][key] for key in same} == {
            key: before[name]["adapter"][key] for key in same
        }
        assert (found["adapter"]["macAddress"], found["adapter"]["addressType"]) == (mac, "manual")
        assert found["power"] == "poweredOn"
    expected = {"adapter": "e1000", "latency_sensitivity": "high", "ethernet0.coalescingScheme": "disabled"}
    assert all(expected.items() <= found.items() for found in vms.read_settings().values())
    assert not vms.change(REQUESTED), "a VM restarted without need"
    # A treatment that names only the adapter gets the original value of everything else.
    assert vms.change(VmSettings("e1000e"))
    assert vms.read_settings()["web-01"]["latency_sensitivity"] == "normal"
    vms.restore()
    assert describe(server) == before
    assert list_domain_records() == []
    assert server.count_sessions() == 0


def test_a_slot_that_changes_restarts_no_vm_and_returns_with_the_original_adapter(
    server: VsphereServer,
) -> None:
    vsphere_vms.set_slot(server, "web-01", "")
    before = describe(server)
    vms = add_vms(server)
    assert not vms.change(VmSettings())
    vsphere_vms.set_slot(server, "web-01", "224")  # ESXi does so when it starts the VM.
    assert not vms.change(VmSettings()), "a VM restarted because of its slot"
    assert vms.read_settings()["web-01"]["ethernet0.pciSlotNumber"] == "224"
    assert vms.change(VmSettings("e1000"))
    vsphere_vms.set_slot(server, "web-02", "33")
    assert not vms.change(VmSettings("e1000")), "a VM restarted because of its slot"
    assert vms.change(VmSettings("vmxnet3"))
    assert vms.read_settings()["web-02"]["ethernet0.pciSlotNumber"] == "192"
    vms.restore()
    assert describe(server) == before


def test_the_journal_is_complete_before_the_first_change_and_has_no_secret(
    server: VsphereServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = describe(server)
    texts: list[str] = []

    def stop(*_: object) -> None:
        texts.extend(path.read_text() for path in (tmp_path / "state").rglob("*.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr(vm_power, "shut_down", stop)
    vms = add_vms(server)
    with pytest.raises(KeyboardInterrupt):
        vms.change(REQUESTED)
    assert describe(server) == before
    assert any(MACS["web-01"] in text and "VirtualVmxnet3" in text for text in texts)
    assert not any(PASSWORD in text or "a secret" in text for text in texts)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda vm: finish(vm.Destroy_Task()), "the server has no such VM"),
        (lambda vm: vm.MarkAsTemplate(), "this is a template"),
        (lambda vm: None, "Tools do not run"),
        (lambda vm: finish(vm.SuspendVM_Task()), "suspended"),
    ],
)
def test_a_vm_that_cannot_be_used_gives_one_sentence_and_no_journal(
    server: VsphereServer, spoil: Any, message: str
) -> None:
    with server.session() as content:
        vm = vsphere_vms.find_vm(content, "web-02")
        if "Tools" in message:
            option = import_vim("").option.OptionValue(
                key="SET.guest.toolsRunningStatus", value="guestToolsNotRunning"
            )
            finish(vm.ReconfigVM_Task(import_vim("").vm.ConfigSpec(extraConfig=[option])))
        elif "suspended" not in message:
            finish(vm.PowerOffVM_Task())
        spoil(vm)
    spec = TestbedSpec(
        lab="vsphere", connection=server.address, existing_endpoints=(host("web-01"), host("web-02"))
    )
    with pytest.raises(BenchError, match=message) as caught:
        VsphereLab(spec, "a test").check_hosts()
    assert caught.value.fix and caught.value.where == "web-02"
    with pytest.raises(BenchError, match=message):
        VsphereLab(spec, "a test").create_testbed("a", REQUESTED)
    assert list_domain_records() == []


def test_a_wrong_password_and_a_wrong_adapter_change_nothing(
    server: VsphereServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BenchError, match="no adapter 00:50:56:00:00:00") as caught:
        VsphereVms(server.address).add([host("web-01", "00:50:56:00:00:00")], "a", "a test")
    assert MACS["web-01"] in str(caught.value.fix)
    address = server.address
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    with pytest.raises(BenchError, match="refuses the user name or the password"):
        VsphereVms(address).add([host("web-01")], "a", "a test")
    assert list_domain_records() == []


def test_a_change_that_fails_refuses_the_treatment_and_the_vm_is_restored(
    server: VsphereServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyVmomi import vim

    before = describe(server)
    vms = add_vms(server)

    def raising(fault: Exception) -> Any:
        def start(*_: object) -> None:
            raise fault

        return start

    # The simulator starts every VM for every user.
    with monkeypatch.context() as patch:
        patch.setattr(vm_power, "start", raising(vim.fault.InsufficientResourcesFault(msg="memory")))
        with pytest.raises(TreatmentRefused, match=r"the VM cannot have adapter=e1000 .*: memory"):
            vms.change(REQUESTED)
        denied = vim.fault.NoPermission(privilegeId="VirtualMachine.Interact.PowerOn")
        patch.setattr(vm_power, "start", raising(denied))
        with pytest.raises(BenchError, match=r"lacks the privilege VirtualMachine\.Interact\.PowerOn"):
            vms.change(REQUESTED)
    vms.restore()
    assert describe(server) == before
    assert list_domain_records() == []


def test_what_a_vm_needs_is_kept_if_it_vanishes_during_the_campaign(
    server: VsphereServer,
) -> None:
    vms = add_vms(server)
    vms.change(REQUESTED)
    with server.session() as content:
        vm = vsphere_vms.find_vm(content, "web-02")
        finish(vm.PowerOffVM_Task())
        finish(vm.Destroy_Task())
    with pytest.raises(BenchError, match="no such VM"):
        vms.change(VmSettings("e1000e"))
    with pytest.raises(BenchError, match="no such VM") as caught:
        vms.restore()
    (record,) = list_domain_records()
    assert not isinstance(record, BenchError) and record.domain == "web-02"
    assert "if the VM is deleted, delete " in str(caught.value.fix)
    assert vsphere_vms.adapter_level(server, "web-01") == "vmxnet3"
    assert not restore_left_domain(record), "this process still owns it"


@pytest.mark.pure
def test_vsphere_has_no_virtio_adapter() -> None:
    with pytest.raises(TreatmentRefused, match="vSphere has no adapter virtio-net"):
        requested_settings({"adapter": "virtio-net"})
