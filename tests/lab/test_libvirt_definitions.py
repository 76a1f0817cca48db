"""Definitions of libvirt's domains without a hypervisor: text, live-only settings, and the test driver."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import list_domain_records
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.libvirt import definition as definitions
from vnetbench.lab.libvirt.hardware import VmHardware, read_hardware, request_hardware
from vnetbench.lab.libvirt.live_settings import list_live_only_settings
from vnetbench.lab.libvirt.testbed import LibvirtLab
from vnetbench.study.model import ExistingEndpointSpec, TestbedSpec

pytest.importorskip("libvirt")
pytestmark = pytest.mark.pure

MAC = "52:54:00:77:00:01"
ADAPTER = f"<interface type='user'><mac address='{MAC}'/></interface>"
DEFINITION = f"""\
<domain type='qemu'>
  <name>wéb</name>
  <metadata><devices><a/></devices></metadata>
  <devices>
    <input type='mouse'/><controller type='pci' index='0'><model name='a'/></controller>
    {ADAPTER}
    <graphics type='vnc' passwd='*****'/>
  </devices>
</domain>
"""


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_devices_are_found_as_the_text_that_libvirt_wrote() -> None:
    assert [each.text for each in definitions.list_devices(DEFINITION)] == [
        "<input type='mouse'/>",
        "<controller type='pci' index='0'><model name='a'/></controller>",
        ADAPTER,
        "<graphics type='vnc' passwd='*****'/>",
    ]


def test_only_the_adapter_is_replaced() -> None:
    replaced = definitions.replace_adapter(DEFINITION, MAC, "<interface/>")
    assert replaced == DEFINITION.replace(ADAPTER, "<interface/>")
    assert definitions.replace_adapter(DEFINITION, "52:54:00:00:00:00", "<interface/>") == DEFINITION


def test_other_pci_buses_are_no_change_by_someone_else_but_other_devices_are() -> None:
    bus = "<controller type='pci' index='1'/>"
    more_buses = DEFINITION.replace(ADAPTER, f"{ADAPTER}{bus}")
    assert definitions.differ_only_in_adapter(DEFINITION, more_buses, MAC)
    assert definitions.remove_added_pci_controllers(more_buses, DEFINITION) == DEFINITION
    more_devices = DEFINITION.replace(ADAPTER, f"{ADAPTER}<disk/>")
    assert not definitions.differ_only_in_adapter(DEFINITION, more_devices, MAC)


def test_the_order_of_controllers_does_not_matter_because_libvirt_sorts_them() -> None:
    bus, serial = "<controller type='pci' index='1'/>", "<controller type='virtio-serial' index='0'/>"
    one, other = (DEFINITION.replace(ADAPTER, each + ADAPTER) for each in (bus + serial, serial + bus))
    assert definitions.are_equal(one, other)
    assert not definitions.are_equal(one, DEFINITION)
    assert not definitions.are_equal(DEFINITION, DEFINITION.replace("wéb", "web"))


def test_the_present_password_returns_into_the_original_definition() -> None:
    now = DEFINITION.replace(ADAPTER, "<interface/>")
    shown = now.replace("*****", "new&gt;")
    assert definitions.add_passwords(DEFINITION, now, shown) == DEFINITION.replace("*****", "new&gt;")


def test_settings_of_the_running_vm_only_are_named() -> None:
    assert list_live_only_settings(DEFINITION, DEFINITION) == []
    running = DEFINITION.replace("<input type='mouse'/>", "<input><alias name='input0'/></input>")
    assert list_live_only_settings(running, DEFINITION) == []
    cdrom = "<disk><source file='/{}.iso'/><target dev='sda'/></disk>"
    running = DEFINITION.replace(ADAPTER, ADAPTER + cdrom.format("live"))
    assert list_live_only_settings(running, DEFINITION) == ["disk sda /live.iso"]
    pinned = DEFINITION.replace("<metadata>", "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune><metadata>")
    assert list_live_only_settings(pinned, DEFINITION) == ["cputune"]


def request(
    type_: str, hardware: VmHardware, *, is_kvm: bool = True, qemu_version: int = 9_000_000
) -> dict[str, str]:
    """Return what an adapter requests after a change."""
    adapter = ElementTree.fromstring(
        f"<interface type='{type_}'><mac address='{MAC}'/><model type='virtio'/></interface>"
    )
    request_hardware(adapter, hardware, "web", is_kvm=is_kvm, qemu_version=qemu_version)
    return read_hardware(adapter)


def test_vhost_needs_kvm_because_libvirt_ignores_it_elsewhere() -> None:
    hardware = VmHardware("virtio-net-vhost")
    assert request("bridge", hardware) == {"model@type": "virtio", "driver@name": "vhost"}
    with pytest.raises(TreatmentRefused, match="only for VMs that run under KVM"):
        request("bridge", hardware, is_kvm=False)


def test_hardware_at_the_limits_of_qemu_and_of_a_tap_is_requested() -> None:
    at_limit = VmHardware(rx_ring=1024, tx_ring=256, mtu=65521)
    expected = {"driver@rx_queue_size": "1024", "driver@tx_queue_size": "256", "mtu@size": "65521"}
    assert request("bridge", at_limit) == {"model@type": "virtio", **expected}
    long = VmHardware(tx_ring=1024)
    assert request("vhostuser", long) == {"model@type": "virtio", "driver@tx_queue_size": "1024"}
    # The ring of another adapter is set in the guest only, whose driver has limits of its own.
    assert request("bridge", VmHardware("e1000", tx_ring=4096)) == {"model@type": "e1000"}


@pytest.mark.parametrize(
    ("type_", "hardware", "sentence", "factor"),
    [
        ("bridge", VmHardware(tx_ring=512), "transmit ring of a virtio .* bridge has at most 256", "tx_ring"),
        ("vhostuser", VmHardware(tx_ring=2048), "transmit ring .* has at most 1024", "tx_ring"),
        ("bridge", VmHardware(rx_ring=2048), "receive ring .* has at most 1024", "rx_ring"),
        ("network", VmHardware(mtu=65522), "has an MTU of at most 65521", "mtu"),
        ("bridge", VmHardware("igb"), r"QEMU 7\.2 has no adapter igb", "adapter"),
    ],
    ids=str,
)
def test_hardware_with_which_qemu_would_not_start_names_its_factor_and_the_fix(
    type_: str, hardware: VmHardware, sentence: str, factor: str
) -> None:
    with pytest.raises(TreatmentRefused, match=sentence) as caught:
        request(type_, hardware, qemu_version=7_002_022)
    assert caught.value.factor == factor and caught.value.fix


@pytest.mark.parametrize(
    ("uri", "domain", "mac", "sentence"),
    [
        ("test:///default", "web-77", "", "there is no such VM"),
        ("test:///default", "test", MAC, f"the VM has no adapter {MAC}"),
        ("qemu+unix:///system?socket=/nowhere", "test", "", "libvirt refuses the connection"),
        ("qemu+tcp://u:secret@h/system", "test", "", "the URI contains a password"),
    ],
)
def test_a_vm_that_cannot_be_changed_gives_one_sentence_with_the_fix(
    uri: str, domain: str, mac: str, sentence: str
) -> None:
    spec = ExistingEndpointSpec("web", ssh_destination="web", domain=domain, adapter_mac=mac or None)
    lab = LibvirtLab(TestbedSpec(lab="libvirt", connection=uri, existing_endpoints=(spec, spec)), "a study")
    for step in (lab.check_hosts, lambda: lab.create_testbed("t", VmHardware())):
        with pytest.raises(BenchError, match=sentence) as caught:
            step()
        assert caught.value.fix and "secret" not in str(caught.value)
    assert list_domain_records() == []
