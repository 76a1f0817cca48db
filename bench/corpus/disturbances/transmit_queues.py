"""Transmit packet steering (XPS), which also selects the receive queue at the other end of a veth."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget

_READ_CPU_MASKS_SCRIPT = (
    "cd /sys/class/net/{interface}/queues && for queue in tx-*; do echo $queue $(cat $queue/xps_cpus); done"
)
_WRITE_CPU_MASK_SCRIPT = "cd /sys/class/net/{interface}/queues && echo {mask} > {queue}/xps_cpus"


def single_transmit_queue() -> Disturbance:
    """Send all packets to side b through the first queue, so that they arrive in one receive queue."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        ends = _last_hops(target)
        original_masks = [(end, _read_cpu_masks(*end)) for end in ends]
        all_cpus = f"{sum(1 << cpu for cpu in target.testbed.online_cpus):x}"
        try:
            for end, masks in original_masks:
                for queue in masks:
                    _write_cpu_mask(*end, queue, all_cpus if queue == "tx-0" else "0")
            yield
        finally:
            for end, masks in original_masks:
                for queue, mask in masks.items():
                    _write_cpu_mask(*end, queue, mask)

    return disturb


def _last_hops(target: DisturbanceTarget) -> list[tuple[str, str]]:
    """Return namespace and name of the interfaces that send packets to side b."""
    if any(target.testbed.topology.ports_by_pair):
        return [(target.switch_namespace, vm.name) for vm in target.vms if vm.side == "b"]
    return [(vm.namespace, vm.interface) for vm in target.vms if vm.side == "a"]


def _read_cpu_masks(namespace: str, interface: str) -> dict[str, str]:
    output = _run_script(namespace, _READ_CPU_MASKS_SCRIPT.format(interface=interface))
    return {line.split()[0]: line.split()[1] for line in output.splitlines()}


def _write_cpu_mask(namespace: str, interface: str, queue: str, mask: str) -> None:
    _run_script(namespace, _WRITE_CPU_MASK_SCRIPT.format(interface=interface, queue=queue, mask=mask))


def _run_script(namespace: str, script: str) -> str:
    # `ip netns exec` mounts /sys anew, which shows the interfaces of the namespace that mounted it.
    command = ["ip", "netns", "exec", namespace, "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
