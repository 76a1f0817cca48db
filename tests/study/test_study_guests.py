"""Studies of the lab `qemu`: limits of the adapters' drivers are reported before anything runs."""

from __future__ import annotations

import pytest

from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import QEMU
from vnetbench.study.problems import StudyError
from vnetbench.study.workloads import TCP_STREAM

HEAD = 'title = "x"\n[testbed]\nlab = "qemu"\n'


def guest_study(factors: str, testbed: str = "") -> str:
    return f"{HEAD}{testbed}[factors]\n{factors}"


def problems(text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    assert all(problem.fix for problem in caught.value.problems)
    return [problem.what for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        (
            'adapter = "e1000"\nqueues = 4\n',
            "queues = 4 is too many for adapter = e1000: its driver supports at most 1",
        ),
        (
            'adapter = "vmxnet3"\nqueues = 4\nvcpus = 2\n',
            "queues = 4 is not possible with adapter = vmxnet3 and vcpus = 2: "
            "its driver creates one for each vCPU, which is 2",
        ),
        (
            'adapter = "vmxnet3"\nmtu = 9001\n',
            "mtu = 9001 is too large for adapter = vmxnet3: its driver supports at most 9000",
        ),
        (
            'adapter = "rtl8139"\nrx_ring = 128\n',
            "rx_ring = 128 is out of range for adapter = rtl8139: its driver supports 64 to 64 descriptors",
        ),
        (
            "tx_ring = 512\n",
            "tx_ring = 512 is out of range for adapter = virtio-net: "
            "its driver supports 2 to 256 descriptors",
        ),
        (
            'adapter = "e1000e"\nlro = "on"\n',
            "lro = on is not possible with adapter = e1000e, which has no LRO",
        ),
        (
            'adapter = "e1000"\ncoalesce = "20 us"\n',
            "coalesce is not possible with adapter = e1000: its driver cannot set interrupt coalescing",
        ),
        (
            "irq_pin = 1\n",
            "irq_pin = 1 names CPUs that a guest with vcpus = 1 does not have. CPUs are numbered from 0",
        ),
        (
            'emulator_pin = "own"\n',
            "emulator_pin = own needs a vcpu_pin, because without vcpu_pin the vCPUs run on every CPU",
        ),
        (
            'adapter = "vf"\n',
            "adapter = vf needs a host adapter with virtual functions, and the study names none",
        ),
        (
            'adapter = "macvtap"\nrole = "router"\n',
            "adapter = macvtap joins two guests without a vSwitch, so it needs role = guest-to-guest "
            "and no testbed.uplink",
        ),
    ],
)
def test_levels_beyond_the_limits_of_an_adapter_are_reported(factors: str, what: str) -> None:
    assert problems(guest_study(factors)) == [what]


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
def test_levels_within_the_limits_of_an_adapter_are_accepted(factors: str) -> None:
    parse_study(guest_study(factors), None)


def test_an_uplink_cannot_be_combined_with_a_forwarding_guest() -> None:
    text = guest_study('role = ["guest-to-guest", "bridge"]\n', "uplink = true\n")
    assert problems(text) == [
        "role = bridge cannot be combined with testbed.uplink: the guest takes the place of the uplink"
    ]


def test_a_virtual_function_needs_a_named_adapter() -> None:
    study = parse_study(guest_study('adapter = "vf"\n', 'vf_interface = "ens1f0"\n'), None)
    assert study.testbed.vf_interface == "ens1f0"


def test_a_guest_treatment_has_defaults_for_its_guests() -> None:
    levels = complete_levels({}, TCP_STREAM, QEMU)
    assert {name: levels[name] for name in ("adapter", "guests", "role", "vcpus")} == {
        "adapter": "virtio-net", "guests": 1, "role": "guest-to-guest", "vcpus": 1,
    }  # fmt: skip
    assert "pairs" not in levels and "vswitch" not in levels
