"""VMs of the lab `libvirt` without a guest system: their hardware changes, and is restored on every path."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts
from tests.libvirt_daemon import LibvirtDaemon, needs_libvirt, run_daemon
from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import list_domain_records
from vnetbench.lab.libvirt.domains import define, read_definition
from vnetbench.lab.libvirt.hardware import VmHardware
from vnetbench.lab.libvirt.vms import LibvirtVms
from vnetbench.study.model import ExistingEndpointSpec

pytest.importorskip("libvirt")
pytestmark = [needs_libvirt, pytest.mark.lab]

MAC = "52:54:00:77:00:01"
DOMAIN = f"""\
<domain type='qemu'>
  <name>web-01</name>
  <description>first</description>
  <metadata><app:x xmlns:app='urn:a'>text <app:y a="1"/></app:x></metadata>
  <memory unit='MiB'>32</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <interface type='user'><mac address='{MAC}'/><model type='virtio'/></interface>
    <graphics type='vnc' port='-1' passwd='s&lt;ecret'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""
SPEC = ExistingEndpointSpec("web", ssh_destination="web-01", domain="web-01")
KILLED_BENCH = """
import os, signal, sys
from tests.lab.test_libvirt_vms import SPEC
from vnetbench.lab.libvirt.hardware import VmHardware
from vnetbench.lab.libvirt.vms import LibvirtVms
vms = LibvirtVms(sys.argv[1])
vms.add([SPEC], "t", "a study")
vms.change(VmHardware("e1000"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtDaemon]:
    with run_daemon(tmp_path_factory.mktemp("libvirt")) as daemon:
        yield daemon


@pytest.fixture
def domain(daemon: LibvirtDaemon) -> Iterator[Any]:
    with daemon.connection() as connection:
        yield connection.defineXML(DOMAIN)
        for left in connection.listAllDomains():
            cut_power(left)
            left.undefine()


def cut_power(domain: Any) -> None:
    """Stop a VM that has no guest system, which would shut it down."""
    if domain.isActive():
        domain.destroy()


def definitions(domain: Any) -> list[str]:
    """Return the definition without and with the password of its display."""
    return [read_definition(domain, has_passwords=shown) for shown in (False, True)]


def add_vm(daemon: LibvirtDaemon) -> LibvirtVms:
    vms = LibvirtVms(daemon.uri)
    vms.add([SPEC], "t", "a study")
    return vms


def test_each_adapter_is_read_back_and_the_definition_restored_byte_for_byte(
    daemon: LibvirtDaemon, domain: Any
) -> None:
    before = definitions(domain)
    assert "passwd='s&lt;ecret'" in before[1] and "ecret" not in before[0]
    vms = add_vm(daemon)
    for model in ("e1000", "vmxnet3"):
        assert vms.change(VmHardware(model))
        assert vms.read_hardware() == {"web": {"model@type": model}}
        assert "passwd='s&lt;ecret'" in definitions(domain)[1]
        cut_power(domain)
    vms.restore()
    assert definitions(domain) == before
    assert list_domain_records() == [] and not domain.isActive()


@pytest.mark.parametrize(
    ("hardware", "sentence"),
    [
        (VmHardware("vf"), "the lab libvirt cannot make the adapter vf"),
        (VmHardware("virtio-net-vhost"), "an adapter of type user cannot use vhost"),
        (VmHardware("virtio-net", queues=2), "an adapter of type user has only one queue"),
        (VmHardware(mtu=2000), "setting MTU on interface type user is not supported"),
        (VmHardware(tx_ring=512), "the transmit ring of a virtio adapter of type user has at most 256"),
        (VmHardware(rx_ring=2048), "the receive ring of a virtio adapter of type user has at most 1024"),
    ],
    ids=str,
)
def test_hardware_that_the_vm_cannot_have_is_refused_and_changes_nothing(
    daemon: LibvirtDaemon, domain: Any, hardware: VmHardware, sentence: str
) -> None:
    before = definitions(domain)
    vms = add_vm(daemon)
    with pytest.raises(BenchError, match=sentence) as caught:
        vms.change(hardware)
    assert caught.value.fix
    assert definitions(domain) == before and not domain.isActive()
    vms.restore()
    assert definitions(domain) == before
    assert list_domain_records() == [] and not domain.isActive()


def test_lab_clean_restores_what_a_killed_bench_changed(daemon: LibvirtDaemon, domain: Any) -> None:
    before = definitions(domain)
    killed = subprocess.run([sys.executable, "-c", KILLED_BENCH, daemon.uri], check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert domain.isActive() and definitions(domain) != before
    cut_power(domain)
    _, listed = bench.run("lab", "ls")
    assert "web-01" in listed
    code, output = bench.run("lab", "clean")
    assert code == 0 and "Restored VM web-01" in output, output
    assert definitions(domain) == before and list_domain_records() == []


@pytest.mark.skipif(shutil.which("virt-ssh-helper") is None, reason="needs libvirt's virt-ssh-helper")
def test_a_hypervisor_reached_over_ssh_changes_and_restores_its_vm(
    daemon: LibvirtDaemon, domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = definitions(domain)
    at_usual_path = (
        f"mkdir -p /run/libvirt && mount -t tmpfs own /run/libvirt && ln -s {daemon.sockets}/* /run/libvirt/"
    )
    with ssh_hosts.create_hosts() as network:
        network.add("kvm-01", at_usual_path)
        monkeypatch.setenv("PATH", network.environment["PATH"])
        vms = LibvirtVms("qemu+ssh://root@kvm-01/system")
        vms.add([SPEC], "t", "a study")
        assert vms.change(VmHardware("e1000"))
        assert vms.read_hardware() == {"web": {"model@type": "e1000"}}
        cut_power(domain)
        vms.restore()
        assert definitions(domain) == before and list_domain_records() == []
        with pytest.raises(BenchError, match=r"libvirt refuses the connection: .*ssh") as caught:
            LibvirtVms("qemu+ssh://root@kvm-02/system?no_tty=1")
        assert "virsh -c 'qemu+ssh://root@kvm-02/system" in str(caught.value.fix)


def test_a_change_by_someone_else_survives_the_restore(daemon: LibvirtDaemon, domain: Any) -> None:
    before = definitions(domain)
    vms = add_vm(daemon)
    vms.change(VmHardware("e1000"))
    cut_power(domain)
    define(domain, definitions(domain)[1].replace("first", "second").replace("s&lt;ecret", "other"))
    with pytest.raises(BenchError, match="someone changed the VM's definition"):
        vms.change(VmHardware("vmxnet3"))
    vms.restore()
    assert definitions(domain) == [
        text.replace("first", "second").replace("s&lt;ecret", "other") for text in before
    ]
    assert list_domain_records() == []


def test_a_vm_that_vanishes_stays_away(daemon: LibvirtDaemon, domain: Any) -> None:
    vms = add_vm(daemon)
    vms.change(VmHardware("e1000"))
    domain.undefine()  # It runs on without a definition.
    vms.restore()
    assert not domain.isPersistent()
    cut_power(domain)
    assert list_domain_records() == []
    with pytest.raises(BenchError, match="there is no such VM") as caught:
        add_vm(daemon)
    assert caught.value.fix and list_domain_records() == []


def test_a_restart_that_would_lose_live_settings_is_refused(daemon: LibvirtDaemon, domain: Any) -> None:
    domain.create()
    domain.attachDevice("<input type='tablet' bus='usb'/>")
    before = definitions(domain)
    vms = add_vm(daemon)
    with pytest.raises(BenchError, match=r"a restart would lose .* only the running VM has: input\n"):
        vms.change(VmHardware("e1000"))
    vms.restore()
    assert definitions(domain) == before and domain.isActive()
