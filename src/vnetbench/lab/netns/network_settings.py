"""Applies a treatment to a network of namespaces and its endpoints: knobs, MTU, shaped links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.lab import knobs
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.shaping import AUTO_QUEUE, ShapedLink, is_requested_rate, limit_transmit_rate
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice, SwitchNetwork
from vnetbench.study.factors.testbed_factors import LINK_QUEUE, LINK_RATE, MTU
from vnetbench.study.model import Level, TestbedSpec


def set_treatment_knobs(
    settings: Sequence[knobs.KnobSetting],
    endpoints: Sequence[Endpoint],
    factors: Mapping[str, Level],
    spec: TestbedSpec,
    network: SwitchNetwork,
    agents: Mapping[str, AgentClient],
) -> dict[str, Any]:
    """Set every knob of a treatment and return the effective values, merged where endpoints agree.

    Raises:
        TreatmentRefused: with the knob, the interface and the fix, if a setting did not take effect.
        BenchError: if the kernel refuses a change of the network.
    """
    mtu = _requested_network_mtu(factors, spec)
    if mtu is not None:
        builder.set_network_mtu(network, mtu, only_raise=True)
    values = knobs.apply_settings_and_read_knobs(
        settings, endpoints, agents, _fix_by_knob_with_mtu_limit(factors, mtu)
    )
    if mtu is not None:
        builder.set_network_mtu(network, mtu)
    shaped = _shape_links(factors, spec, network)
    found_mtu = builder.read_smallest_mtu_between_vnics(network)
    knobs.check_settings(settings, values)
    if None not in (mtu, found_mtu) and found_mtu != mtu:
        raise TreatmentRefused(
            f"an MTU of {mtu} did not take effect on the vSwitch: {found_mtu} was read back",
            fix=MTU.knob_fix,
        )
    effective = knobs.merge_knob_values(values)
    if LINK_RATE.is_present_in(factors):
        effective["link_rate"] = shaped.rate_bps if shaped else "none"
    if LINK_QUEUE.is_present_in(factors):
        effective["link_queue"] = shaped.fifo_bytes_or_qdisc if shaped else "none"
    if found_mtu is not None:
        effective["vswitch_mtu"] = found_mtu
    return effective


def _fix_by_knob_with_mtu_limit(factors: Mapping[str, Level], network_mtu: int | None) -> Mapping[str, str]:
    """Return the fixes for knobs, with one for an MTU that the virtual switch does not allow."""
    if network_mtu is None or network_mtu >= int(factors.get(MTU.name, 0)):
        return knobs.FIX_BY_KNOB
    # A macvlan's MTU cannot exceed its parent's.
    fix = f"the vSwitch has an MTU of {network_mtu}: raise testbed.vswitch_mtu, or leave it out"
    return {**knobs.FIX_BY_KNOB, MTU.knobs[0]: fix}


def _shape_links(
    factors: Mapping[str, Level], spec: TestbedSpec, network: SwitchNetwork
) -> ShapedLink | None:
    if not LINK_RATE.is_present_in(factors):
        return None
    level = factors[LINK_RATE.name]
    rate = None if level == "none" else float(level)
    queue = LINK_QUEUE.read_level(factors)
    values = [shape_and_prove(device, rate, spec.shaper, queue) for device in network.rate_limited_devices]
    return values[0]


def shape_and_prove(
    device: NetDevice,
    rate_bps: float | None,
    shaper: str,
    queue: Level = AUTO_QUEUE,
    key: str = LINK_RATE.name,
) -> ShapedLink | None:
    """Limit the rate at which packets leave a device, and return the shaped link as it was read back.

    Args:
        device: The interface.
        rate_bps: The limit; None removes it.
        shaper: `tbf` or `htb`.
        queue: A level of the factor `link_queue`.
        key: The key of the study that requests the rate.

    Raises:
        TreatmentRefused: if another rate or queue was read back.
        BenchError: as `limit_transmit_rate`.
    """
    shaped = limit_transmit_rate(device, rate_bps, shaper, queue)
    value = shaped.rate_bps if shaped else None
    if not is_requested_rate(value, rate_bps):
        level = "none" if rate_bps is None else rate_bps
        raise TreatmentRefused(
            f"{key} = {LINK_RATE.value_type.format(level)} did not take effect: {value} was read back",
            where=device.display_name,
            fix="choose another rate or shaper",
        )
    if shaped and not _is_requested_queue(queue, shaped):
        raise TreatmentRefused(
            f"{LINK_QUEUE.format_as_assignment(queue)} did not take effect: "
            f"{shaped.fifo_bytes_or_qdisc} was read back",
            where=device.display_name,
            fix="choose another queue",
        )
    return shaped


def _is_requested_queue(queue: Level, shaped: ShapedLink) -> bool:
    if queue == AUTO_QUEUE:
        return True
    if isinstance(queue, str) or not isinstance(shaped.fifo_bytes_or_qdisc, int):
        return shaped.fifo_bytes_or_qdisc == queue
    # The kernel keeps whole bytes and whole bytes per second.
    return abs(shaped.fifo_bytes_or_qdisc - queue * shaped.rate_bps / 8) <= 1 + queue


def _requested_network_mtu(factors: Mapping[str, Level], spec: TestbedSpec) -> int | None:
    if spec.vswitch_mtu is not None:
        return spec.vswitch_mtu
    return int(factors[MTU.name]) if MTU.is_present_in(factors) else None
