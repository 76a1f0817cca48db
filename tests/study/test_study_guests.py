"""Studies of the lab `qemu`: what an adapter's driver cannot is told before anything runs."""

from __future__ import annotations

import pytest

from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import QEMU
from vnetbench.study.problems import StudyError
from vnetbench.study.workloads import TCP_STREAM

HEAD = 'title = "x"\n[testbed]\nlab = "qemu"\n'


def study_of(factors: str, testbed: str = "") -> str:
    return f"{HEAD}{testbed}[factors]\n{factors}"


def problems(text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    assert all(problem.fix for problem in caught.value.problems)
    return [problem.what for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ('adapter = "e1000"\nqueues = 4\n', "queues = 4 with adapter = e1000: its driver has 1 at most"),
        (
            'adapter = "vmxnet3"\nqueues = 4\nvcpus = 2\n',
            "queues = 4 with adapter = vmxnet3 and vcpus = 2: its driver has one for each vCPU, 2 here",
        ),
        (
            'adapter = "vmxnet3"\nmtu = 9001\n',
            "mtu = 9001 with adapter = vmxnet3: its driver takes 9000 at most",
        ),
        ('adapter = "rtl8139"\nrx_ring = 128\n', "rx_ring = 128 with adapter = rtl8139: it takes 64 to 64"),
        ("tx_ring = 512\n", "tx_ring = 512 with adapter = virtio-net: it takes 2 to 256"),
        ('adapter = "e1000e"\nlro = "on"\n', "lro = on with adapter = e1000e: it has no LRO"),
        (
            'adapter = "e1000"\ncoalesce = "20 us"\n',
            "coalesce with adapter = e1000: when it interrupts cannot be set",
        ),
        ("irq_pin = 1\n", "irq_pin = 1 with vcpus = 1: a guest's CPUs are counted from 0"),
        ('emulator_pin = "own"\n', "emulator_pin = own without a vcpu_pin: vCPUs run everywhere then"),
        (
            'adapter = "vf"\n',
            "adapter = vf, and no adapter of this machine is named that has virtual functions",
        ),
        (
            'adapter = "macvtap"\nrole = "router"\n',
            "adapter = macvtap is no port of a vSwitch: its only role is guest-to-guest, "
            "and it has no uplink",
        ),
    ],
)  # fmt: skip
def test_what_an_adapter_cannot_is_refused_by_name(factors: str, what: str) -> None:
    assert problems(study_of(factors)) == [what]


@pytest.mark.parametrize(
    "factors",
    [
        'adapter = "virtio-net"\nqueues = 4\nvcpus = 4\nrx_ring = [64, 1024]\n',
        'adapter = "vmxnet3"\nqueues = 2\nvcpus = 2\nmtu = 9000\nlro = ["on", "off"]\nrx_ring = 4096\n',
        'adapter = "e1000"\nmtu = 16110\nqueues = 1\n',
        'adapter = "e1000e"\ncoalesce = ["0 s", "adaptive"]\n',
        'vcpu_pin = "spread"\nemulator_pin = ["own", "apart"]\nirq_pin = "0"\n',
    ],
)
def test_what_it_can_is_read(factors: str) -> None:
    parse_study(study_of(factors), None)


def test_an_uplink_and_a_guest_between_do_not_go_together() -> None:
    text = study_of('role = ["guest-to-guest", "bridge"]\n', "uplink = true\n")
    assert problems(text) == ["role = bridge with testbed.uplink: the guest stands where the uplink would"]


def test_a_virtual_function_is_of_a_named_adapter() -> None:
    study = parse_study(study_of('adapter = "vf"\n', 'vf_of = "ens1f0"\n'), None)
    assert study.testbed.vf_of == "ens1f0"


def test_a_treatment_says_which_guests_it_is_about() -> None:
    levels = complete_levels({}, TCP_STREAM, QEMU)
    assert {name: levels[name] for name in ("adapter", "guests", "role", "vcpus")} == {
        "adapter": "virtio-net", "guests": 1, "role": "guest-to-guest", "vcpus": 1,
    }  # fmt: skip
    assert "pairs" not in levels and "vswitch" not in levels
