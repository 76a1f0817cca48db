"""Audits of libvirt URIs: the test driver, and real QEMU domains of a daemon that the test starts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.reading import read_sample
from tests.audit.vm_samples import DOMAIN
from tests.faults import bench_process as bench
from tests.free_ports import take_free_port
from tests.libvirt_daemon import LibvirtDaemon, needs_libvirt, run_daemon
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.live import libvirt_host, time_limit
from vnetbench.commands.exit_codes import AUDIT_FOUND, BAD_INPUT, INPUT_PARTLY_READ
from vnetbench.errors import BenchError

libvirt = pytest.importorskip("libvirt")

CLEAN = """\
<domain type='{driver}'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <vcpu>{vcpus}</vcpu>
  <os><type arch='x86_64' machine='{machine}'>hvm</type></os>
  {cpu}
  <devices>
    <interface type='{backend}'>
      <mac address='{mac}'/>
      <model type='{model}'/>
    </interface>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
  </devices>
</domain>
"""
USER = "<cpu mode='custom'><model>Nehalem</model></cpu>"


def describe(name: str, **changes: str) -> str:
    values = {
        "driver": "qemu", "name": name, "vcpus": "1", "machine": "q35", "cpu": USER, "backend": "ethernet",
        "mac": f"52:54:00:00:01:{len(name):02x}", "model": "virtio",
    }  # fmt: skip
    return CLEAN.format(**{**values, **changes})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtDaemon]:
    with run_daemon(tmp_path_factory.mktemp("libvirt")) as daemon:
        yield daemon


@pytest.fixture
def domains(daemon: LibvirtDaemon) -> Iterator[Any]:
    """Yield a connection, and remove all domains after the test."""
    with daemon.connection() as connection:
        yield connection
        for domain in connection.listAllDomains():
            if domain.isActive():
                domain.destroy()
            domain.undefine()


def rules_by_object(output: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in json.loads(output)["findings"]:
        found.setdefault(finding["object"], set()).add(finding["rule"])
    return found


def write_test_driver(folder: Path, *domains: str) -> str:
    """Return the URI of a host of libvirt's test driver with these domains."""
    path = folder / "node.xml"
    path.write_text(f"<node>{''.join(domains)}</node>")
    return f"test://{path}"


def test_the_test_driver_gives_the_same_facts_as_the_file(tmp_path: Path) -> None:
    document = DOMAIN.partition("?>\n")[2].replace("type='kvm'", "type='test'", 1)
    (inventory,) = libvirt_host.read_libvirt_uri(write_test_driver(tmp_path, document))
    assert isinstance(inventory, Inventory)
    expected = read_sample("libvirt", document)
    # libvirt writes no default that the domain does not have.
    assert [(each.kind, each.name, each.facts) for each in inventory.objects] == [
        (each.kind, each.name, each.facts) for each in expected.objects
    ]
    assert {each.kind for each in inventory.objects} == {"vm", "adapter", "disk_controller"}


def test_faults_in_the_test_driver_are_found(tmp_path: Path) -> None:
    uri = write_test_driver(
        tmp_path,
        describe("clean", driver="test"),
        describe("emulated", driver="test", model="e1000"),
        describe("no-bridge", driver="test", backend="user"),
        describe("copied", driver="test", mac="52:54:00:00:01:05"),
    )
    code, output = bench.run("audit", "--json", uri)
    assert code == AUDIT_FOUND
    assert rules_by_object(output) == {
        "emulated interface 0": {"emulated_adapter_in_kvm"},
        "no-bridge interface 0": {"user_network"},
        "copied interface 0": {"duplicate_mac_address"},
    }
    assert bench.run("audit", f"{uri}#clean")[0] == 0
    assert bench.run("audit", "test:///default")[0] == AUDIT_FOUND


@needs_libvirt
def test_running_and_defined_qemu_domains_are_judged_and_not_changed(
    daemon: LibvirtDaemon, domains: Any
) -> None:
    running = domains.defineXML(describe("web-01", backend="user", model="e1000"))
    running.create()
    domains.defineXML(describe("db-1"))
    before = [domain.XMLDesc(0) for domain in domains.listAllDomains()]
    code, output = bench.run("audit", "--json", daemon.read_only_uri)
    assert code == AUDIT_FOUND
    emulation = {"no_hardware_virtualisation"}
    assert rules_by_object(output) == {
        "web-01": emulation,
        "db-1": emulation,
        "web-01 interface 0": {"emulated_adapter_in_kvm", "user_network"},
    }
    assert [domain.XMLDesc(0) for domain in domains.listAllDomains()] == before and running.isActive()


@needs_libvirt
def test_the_audit_needs_only_the_read_only_socket(daemon: LibvirtDaemon, domains: Any) -> None:
    domains.defineXML(describe("db-01"))
    (inventory,) = libvirt_host.read_libvirt_uri(f"{daemon.read_only_uri}#db-01")
    assert isinstance(inventory, Inventory) and inventory.of_kind("vm")[0].name == "db-01"


@needs_libvirt
def test_a_domain_that_vanishes_is_reported_and_the_others_are_read(
    daemon: LibvirtDaemon, domains: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    domains.defineXML(describe("a-stays"))
    domains.defineXML(describe("b-goes"))
    original = libvirt.virConnect.listAllDomains

    def list_then_remove(connection: Any, flags: int = 0) -> Any:
        found = original(connection, flags)
        domains.lookupByName("b-goes").undefine()
        return found

    monkeypatch.setattr(libvirt.virConnect, "listAllDomains", list_then_remove)
    error, inventory = libvirt_host.read_libvirt_uri(daemon.read_only_uri)
    monkeypatch.undo()
    assert isinstance(error, BenchError) and isinstance(inventory, Inventory)
    assert error.where == f"{daemon.read_only_uri}#b-goes" and "was removed during the audit" in error.what
    assert [vm.name for vm in inventory.of_kind("vm")] == ["a-stays"]


@needs_libvirt
def test_a_host_without_domains_and_an_unknown_domain_give_one_sentence(daemon: LibvirtDaemon) -> None:
    for target, message in (("", "the connection has no domain"), ("#web-01", "there is no such domain")):
        code, output = bench.run("audit", f"{daemon.read_only_uri}{target}")
        assert code == BAD_INPUT and message in output and output.count("\n") == 2


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("qemu:///system?socket=/nowhere/sock", "libvirt refuses the connection: Failed to connect socket"),
        ("qemu+tcp://127.0.0.1:{port}/system", "Connection refused"),
        ("qemu+ssh://nobody@host.invalid/system", "Could not resolve hostname host.invalid"),
        ("qemu+carrier://host/system", "transport in URL not recognised"),
        ("qemu+ssh://root:secret@host/system", "the URI contains a password"),
    ],
)
def test_a_connection_that_fails_gives_one_sentence(uri: str, message: str) -> None:
    code, output = bench.run("audit", uri.format(port=take_free_port()))
    assert code == BAD_INPUT and message in output and "secret" not in output
    first, second = output.splitlines()
    assert first.startswith("vnetbench: ") and second.startswith("  fix: ")


def test_a_target_that_can_be_read_is_shown_although_another_cannot(tmp_path: Path) -> None:
    uri = write_test_driver(tmp_path, describe("clean", driver="test"))
    code, output = bench.run("audit", uri, f"{uri}#missing")
    assert code == INPUT_PARTLY_READ and "#missing: there is no such domain" in output


def test_a_silent_service_ends_at_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"qemu+tcp://127.0.0.1:{server.getsockname()[1]}/system"
        with pytest.raises(BenchError, match=r"does not answer within 0\.5 s"):
            list(time_limit.yield_within_time_limit(libvirt_host.read_libvirt_uri(uri), uri, 0.5))
