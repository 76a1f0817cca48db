"""What guests need: how `guest prepare` gets it, and what `doctor` says of it."""

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
from vnetbench.lab.guest import accelerator, cache, hardware, initramfs, kernel, network, qemu
from vnetbench.lab.guest.topology import GUEST_TO_HOST, GuestShape
from vnetbench.lab.guest.lab import QemuLab
from vnetbench.lab.guest.prerequisites import Ready, fetch, get_ready
from vnetbench.lab.errors import TrialFailed
from vnetbench.study.factors.guest_factors import ADAPTERS
from vnetbench.study.labs import QEMU
from vnetbench.study.model import TestbedAsked

_NAME = "guests: "


def prepare(adapters: Sequence[str], again: bool) -> None:
    """Fetch and build what guests need, boot one with each of the adapters and keep it."""
    adapters = adapters or ("virtio-net",)
    if again and not privilege.is_inside():
        for kind in ("kernels", "initramfs", "snapshots"):
            cache.prune(kind, 0)
    fetch(adapters)
    privilege.enter_for_run()
    console = Console(highlight=False)
    shapes = [GuestShape(adapter, role=GUEST_TO_HOST) for adapter in adapters]
    ready = get_ready(shapes)
    console.print(ready.in_words(), soft_wrap=True, markup=False)
    for shape in shapes:
        _boot_and_resume(ready, shape)


def _boot_and_resume(ready: Ready, shape: GuestShape) -> None:
    lab = QemuLab(TestbedAsked(lab=QEMU), "guest prepare", ready, click.echo)
    try:
        with closing(lab.raise_bed(f"prepare-{secrets.token_hex(3)}", shape)) as bed:
            for running in bed.running:
                word = {"boot": "booted", "resume": "resumed"}[running.started_by]
                click.echo(f"a guest with {shape.adapter} {word} in {running.started_s:.1f} s")
    except TrialFailed as error:
        raise BenchError(
            f"no guest with {shape.adapter} comes up: {error}", fix="vnetbench doctor"
        ) from error


def checks() -> Iterator[Check]:
    """What `doctor` says of the lab qemu. Nothing is fetched for it."""
    try:
        kernel.check_architecture()
        found = qemu.installed()
    except BenchError as error:
        yield Check(f"{_NAME}QEMU", MISSING, error.what, error.fix or "")
        return
    lacking = [name for name in ADAPTERS if qemu.DEVICES[name] not in found.devices]
    without = f"; it has no {', '.join(lacking)}" if lacking else ""
    yield Check(f"{_NAME}QEMU", LIMITED if lacking else GOOD, f"{found.version}{without}")
    at_hand = kernel.found()
    if at_hand is None:
        why = f"none yet: {kernel.why_not_own()}"
        fix = "vnetbench guest prepare fetches the distribution's and installs nothing; run does it too"
        yield Check(f"{_NAME}kernel", LIMITED, why, fix)
    else:
        yield Check(f"{_NAME}kernel", GOOD, f"{at_hand.release}, {at_hand.source}")
    yield _kvm(found, at_hand)
    yield _device(f"{_NAME}taps", network.TUN, MISSING, "modprobe tun")
    yield _device(f"{_NAME}vhost-net", network.VHOST, LIMITED, "modprobe vhost_net, and run as root")
    yield _macvtap()


def _kvm(found: qemu.Qemu, at_hand: kernel.Kernel | None) -> Check:
    if at_hand is None:
        return Check(f"{_NAME}KVM", LIMITED, "not tried: there is no kernel yet", "vnetbench guest prepare")
    software = hardware.Software(at_hand.image, initramfs.built(at_hand))
    began = time.monotonic()
    runs = accelerator.found(found, software)
    if runs.name == hardware.KVM:
        return Check(f"{_NAME}KVM", GOOD, f"a guest booted with it in {time.monotonic() - began:.1f} s")
    fix = "guests run under TCG, QEMU's translator, many times slower; results say so"
    return Check(f"{_NAME}KVM", LIMITED, runs.why, fix)


def _device(name: str, path: os.PathLike[str], otherwise: str, fix: str) -> Check:
    if os.access(path, os.R_OK | os.W_OK):
        return Check(name, GOOD, str(path))
    return Check(name, otherwise, f"{path} is not here, or may not be opened", fix)


def _macvtap() -> Check:
    """Make one in a namespace of its own."""
    name = f"vnb.doctor-{secrets.token_hex(3)}.sw"
    try:
        netlink.make_namespace(name)
        with netlink.in_namespace(name) as ipr:
            ipr.link("add", ifname="low0", kind="veth", peer={"ifname": "low1"})
            ipr.link("add", ifname="tap0", kind="macvtap", link=netlink.index_of(ipr, "low0"))
    except BenchError as error:
        return Check(f"{_NAME}macvtap", LIMITED, error.what, "modprobe macvtap")
    finally:
        netlink.remove_namespace(name)
    return Check(f"{_NAME}macvtap", GOOD, "made one")
