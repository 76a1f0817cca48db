"""By which queue packets come in: that by which the other end sent them (transmit packet steering, XPS)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.scene import Disturb, Scene

_READ = (
    "cd /sys/class/net/{interface}/queues && for queue in tx-*; do echo $queue $(cat $queue/xps_cpus); done"
)
_WRITE = "cd /sys/class/net/{interface}/queues && echo {mask} > {queue}/xps_cpus"


def one_transmit_queue() -> Disturb:
    """Every CPU hands packets to side b by the first queue: so they come in by one, as if by one hash."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        ends = _last_hops(scene)
        before = [(end, _masks(*end)) for end in ends]
        everywhere = f"{sum(1 << cpu for cpu in scene.bed.online_cpus):x}"
        try:
            for end, masks in before:
                for queue in masks:
                    _write(*end, queue, everywhere if queue == "tx-0" else "0")
            yield
        finally:
            for end, masks in before:
                for queue, mask in masks.items():
                    _write(*end, queue, mask)

    return disturb


def _last_hops(scene: Scene) -> list[tuple[str, str]]:
    """Namespace and name of the interfaces that hand packets to side b."""
    if any(scene.bed.topology.ports):
        return [(scene.switch, vm.name) for vm in scene.vms if vm.side == "b"]
    return [(vm.namespace, vm.interface) for vm in scene.vms if vm.side == "a"]


def _masks(namespace: str, interface: str) -> dict[str, str]:
    said = _inside(namespace, _READ.format(interface=interface))
    return {line.split()[0]: line.split()[1] for line in said.splitlines()}


def _write(namespace: str, interface: str, queue: str, mask: str) -> None:
    _inside(namespace, _WRITE.format(interface=interface, queue=queue, mask=mask))


def _inside(namespace: str, script: str) -> str:
    # /sys shows the interfaces of the namespace in which it was mounted: `ip netns exec` mounts it anew.
    command = ["ip", "netns", "exec", namespace, "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
