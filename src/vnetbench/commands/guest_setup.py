"""Prerequisites of guests: prepare them (`guest prepare`) and check them (`doctor`)."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import click
from rich.console import Console

from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, privilege
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest import accelerator, cache, hardware, initramfs, kernel, network, qemu
from vnetbench.lab.guest.lab import QemuLab
from vnetbench.lab.guest.prerequisites import GuestPrerequisites, find_qemu_and_fetch_kernel, prepare_guests
from vnetbench.lab.guest.topology import GUEST_TO_HOST, GuestShape
from vnetbench.study.factors.guest_factors import ADAPTERS
from vnetbench.study.labs import QEMU
from vnetbench.study.model import TestbedSpec

_CHECK_NAME_PREFIX = "guests: "


def prepare(adapters: Sequence[str], replace_existing: bool) -> None:
    """Download and build what guests need, then boot and save one guest for each adapter."""
    adapters = adapters or ("virtio-net",)
    if replace_existing and not privilege.is_in_user_namespace():
        for kind in ("kernels", "initramfs", "snapshots"):
            cache.remove_least_recently_used(kind, 0)
    find_qemu_and_fetch_kernel(adapters)
    privilege.acquire_network_rights()
    console = Console(highlight=False, emoji=False)
    shapes = [GuestShape(adapter, role=GUEST_TO_HOST) for adapter in adapters]
    ready = prepare_guests(shapes)
    console.print(ready.summary(), soft_wrap=True, markup=False)
    for shape in shapes:
        _start_guests_and_report(ready, shape)


def _start_guests_and_report(ready: GuestPrerequisites, shape: GuestShape) -> None:
    lab = QemuLab(TestbedSpec(lab=QEMU), "guest prepare", ready, click.echo)
    try:
        with closing(lab.create_testbed(f"prepare-{secrets.token_hex(3)}", shape)) as testbed:
            for guest in testbed.running:
                word = {"boot": "booted", "resume": "resumed"}[guest.start_method]
                click.echo(f"a guest with {shape.adapter} {word} in {guest.start_duration_s:.1f} s")
    except TrialFailed as error:
        raise BenchError(
            f"a guest with {shape.adapter} does not start: {error}", fix="run vnetbench doctor"
        ) from error


def run_guest_checks() -> Iterator[Check]:
    """Yield the checks of the lab qemu without downloading anything."""
    try:
        kernel.check_architecture()
        qemu_program = qemu.find_qemu()
    except BenchError as error:
        yield Check(f"{_CHECK_NAME_PREFIX}QEMU", MISSING, error.what, error.fix or "")
        return
    missing_adapters = [
        name for name in ADAPTERS if qemu.QEMU_DEVICE_BY_ADAPTER[name] not in qemu_program.devices
    ]
    without = f"; without {', '.join(missing_adapters)}" if missing_adapters else ""
    yield Check(
        f"{_CHECK_NAME_PREFIX}QEMU", LIMITED if missing_adapters else GOOD, f"{qemu_program.version}{without}"
    )
    local_kernel = kernel.find_kernel()
    if local_kernel is None:
        why = f"none yet: {kernel.own_kernel_problem()}"
        fix = "run vnetbench guest prepare, which downloads the distribution's kernel without installing it"
        yield Check(f"{_CHECK_NAME_PREFIX}kernel", LIMITED, why, fix)
    else:
        yield Check(f"{_CHECK_NAME_PREFIX}kernel", GOOD, f"{local_kernel.release}, {local_kernel.source}")
    yield _check_kvm(qemu_program, local_kernel)
    yield _check_device(f"{_CHECK_NAME_PREFIX}taps", network.TUN_DEVICE, MISSING, "modprobe tun")
    yield _check_device(
        f"{_CHECK_NAME_PREFIX}vhost-net",
        network.VHOST_NET_DEVICE,
        LIMITED,
        "run modprobe vhost_net, and run vnetbench as root",
    )
    yield _check_macvtap()


def _check_kvm(qemu_program: qemu.Qemu, local_kernel: kernel.Kernel | None) -> Check:
    if local_kernel is None:
        return Check(
            f"{_CHECK_NAME_PREFIX}KVM",
            LIMITED,
            "not tested, because guests have no kernel yet",
            "run vnetbench guest prepare",
        )
    boot_images = hardware.BootImages(local_kernel.image, initramfs.find_or_build_initramfs(local_kernel))
    start = time.monotonic()
    detected = accelerator.detect_accelerator(qemu_program, boot_images)
    if detected.name == hardware.KVM:
        return Check(
            f"{_CHECK_NAME_PREFIX}KVM", GOOD, f"a guest booted with KVM in {time.monotonic() - start:.1f} s"
        )
    fix = "guests run without KVM in QEMU's emulator TCG, which is many times slower. The results state this"
    return Check(f"{_CHECK_NAME_PREFIX}KVM", LIMITED, detected.kvm_unavailable_reason, fix)


def _check_device(check_name: str, path: os.PathLike[str], otherwise: str, fix: str) -> Check:
    if os.access(path, os.R_OK | os.W_OK):
        return Check(check_name, GOOD, str(path))
    return Check(check_name, otherwise, f"cannot open {path}", fix)


def _check_macvtap() -> Check:
    """Try to create a macvtap interface in a new namespace."""
    name = f"vnb.doctor-{secrets.token_hex(3)}.sw"
    try:
        netlink.create_namespace(name)
        with netlink.open_in_namespace(name) as ipr:
            ipr.link("add", ifname="low0", kind="veth", peer={"ifname": "low1"})
            ipr.link("add", ifname="tap0", kind="macvtap", link=netlink.interface_index(ipr, "low0"))
    except BenchError as error:
        return Check(f"{_CHECK_NAME_PREFIX}macvtap", LIMITED, error.what, "modprobe macvtap")
    finally:
        netlink.remove_namespace(name)
    return Check(f"{_CHECK_NAME_PREFIX}macvtap", GOOD, "created one")
