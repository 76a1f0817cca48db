"""Probe the path once after a trial failed: do large packets still pass, and do small ones?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.agents.client import AgentError
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import KINDS_THAT_TRIGGER_PATH_PROBE, PATH_PROBE_RESULT_KEY
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.path_probe import PATH_MTU_KEY, TCP, UDP, probe_small_and_large_packets
from vnetbench.lab.testbed import Testbed, endpoint_pairs
from vnetbench.study.factors.testbed_factors import IP_VERSION, LINK_DELAY
from vnetbench.study.model import Level


def add_path_probe(
    failure: TrialFailed,
    testbed: Testbed,
    factors: Mapping[str, Level],
    effective: Mapping[str, Any],
    uses_tcp: bool = False,
) -> None:
    """Add to a failure which packets pass now, if the path may have caused it.

    A filter can treat TCP in its own way. So if datagrams of both sizes pass and the load uses TCP, a probe
    through a connection decides.

    Args:
        failure: The failure; its evidence changes.
        testbed: The testbed, as it stands after the failure.
        factors: The treatment's levels.
        effective: The settings that were read back before the trial, with the proved MTU.
        uses_tcp: Whether the load's streams are TCP connections.
    """
    mtu = effective.get(PATH_MTU_KEY)
    if failure.kind not in KINDS_THAT_TRIGGER_PATH_PROBE or not isinstance(mtu, int):
        return

    def probe(protocol: str) -> dict[str, Any]:
        return probe_small_and_large_packets(
            endpoint_pairs(testbed),
            testbed.agents,
            mtu,
            str(IP_VERSION.read_level(factors)),
            link_delay_s=float(LINK_DELAY.read_level(factors)) if _has_delay(factors) else 0.0,
            protocol=protocol,
        )

    try:
        result = probe(UDP)
        if uses_tcp and result["small_passed"] and result["large_passed"]:
            through_connection = probe(TCP)
            if not (through_connection["small_passed"] and through_connection["large_passed"]):
                result = through_connection
        failure.evidence[PATH_PROBE_RESULT_KEY] = result
    except (AgentError, BenchError) as error:
        # The failure itself is reported; the probe only adds to it.
        failure.evidence[PATH_PROBE_RESULT_KEY] = {"error": str(error)}


def _has_delay(factors: Mapping[str, Level]) -> bool:
    return isinstance(LINK_DELAY.read_level(factors), int | float)
