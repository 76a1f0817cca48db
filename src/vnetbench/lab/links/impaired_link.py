"""Impairs the link of a testbed as a treatment requests, with netem or with a delay line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links import netem
from vnetbench.lab.links.delay_line import DelayLines
from vnetbench.lab.links.impairments import (
    Impairments,
    check_round_trips_match_delay,
    is_delay_in_effect,
    requested_impairments,
)
from vnetbench.lab.links.netem import Netem
from vnetbench.lab.netns.topology import SwitchNetwork
from vnetbench.study.factors.registry import format_level
from vnetbench.study.factors.testbed_factors import LINK_IMPAIRMENT_FACTORS, LINK_RATE, NO_IMPAIRMENT
from vnetbench.study.model import Level

MAX_RTT_ROUNDS = 30
"""Maximum number of round-trip measurements until each pair has one within the limits. On a busy machine, or
if the line's threads have no priority, most packets wait for a CPU somewhere on their path."""


def needs_delay_line(factors: Mapping[str, Level], network: SwitchNetwork) -> bool:
    """Whether a treatment's impairments need a delay line on this network.

    netem counts a super-frame of TCP as one packet, so it would lose or hold back dozens of segments at once,
    and its jitter reorders packets: a study would mean something else on each kernel. Therefore netem only
    adds delay, and only behind the shaper of `link_rate`, as on a real link.
    """
    requested = requested_impairments(factors)
    if requested == Impairments():
        return False
    is_shaped = LINK_RATE.read_level(factors) != NO_IMPAIRMENT
    is_shaped_there = is_shaped and not set(network.netem_devices).isdisjoint(network.rate_limited_devices)
    return not requested.is_delay_only or is_shaped_there or not netem.is_available()


class ImpairedLink:
    """The link of one testbed with its impairments. Close it after use."""

    def __init__(self, name: str, network: SwitchNetwork) -> None:
        """Wrap the links of `network`; `name` is the testbed's name."""
        self._name = name
        self._network = network
        self._delay_lines: DelayLines | None = None
        self._current: Impairments | None = None
        """The impairments that were set last."""

    def start_delay_lines(self) -> None:
        """Start the testbed's delay lines in its switch namespace; raises BenchError or AgentError."""
        self._delay_lines = DelayLines(self._name, self._network.switch_namespace, self._network.delay_lines)

    def set_delay_for_path_proof(self, factors: Mapping[str, Level]) -> None:
        """Set only the delay, for the path proof; call it before links are shaped."""
        if _has_impairment_factors(factors):
            self._set_and_verify_impairments(Impairments(requested_impairments(factors).delay_s))

    def prove_and_impair(
        self,
        factors: Mapping[str, Level],
        prove: Callable[[float], dict[str, Any]],
        load_cpus: Mapping[str, frozenset[int]],
        online_cpus: frozenset[int],
    ) -> dict[str, Any]:
        """Prove the path under the delay alone, then set all impairments.

        Args:
            factors: The treatment's levels.
            prove: Proves the path; its argument is the delay in seconds.
            load_cpus: The CPUs that each endpoint's load may use.
            online_cpus: All CPUs; delay lines get those without load.

        Returns:
            The effective values that a trial stores.

        Raises:
            TreatmentRefused: if an impairment did not take effect, or the round trips do not show the delay.
        """
        requested = requested_impairments(factors)
        effective = self._delay_lines.pin_threads(load_cpus, online_cpus) if self._delay_lines else {}
        proved = prove(requested.delay_s)
        for _ in range(MAX_RTT_ROUNDS - 1):
            if not requested.delay_s or is_delay_in_effect(proved["path_rtt_us"], requested.delay_s):
                break
            proved = _keep_shortest_rtts(proved, prove(requested.delay_s))
        if not _has_impairment_factors(factors):
            return {**effective, **proved}
        check_round_trips_match_delay(proved["path_rtt_us"], requested.delay_s, self._error_location())
        levels = self._set_and_verify_impairments(requested).as_levels()
        backend = NO_IMPAIRMENT if requested == Impairments() else self._backend().name
        requested_levels = {name: level for name, level in levels.items() if name in factors}
        return {**effective, **proved, **requested_levels, "link_impairment_backend": backend}

    def reset_counters_and_seeds(self) -> None:
        """Reset the delay lines' counters and seeds by setting the current impairments again."""
        if self._delay_lines and self._current is not None:
            self._set_and_verify_impairments(self._current)

    def read_counters(self) -> list[dict[str, Any]]:
        """Return the settings and counters of each delay line (`delay_line.read`), if there are any."""
        return self._delay_lines.read_counters() if self._delay_lines else []

    def observer_threads(self) -> list[dict[str, object]]:
        """Return the delay lines' threads in the form that the observer watches."""
        return self._delay_lines.observer_threads() if self._delay_lines else []

    def close(self) -> None:
        """End the delay lines."""
        if self._delay_lines:
            self._delay_lines.close()

    def _backend(self) -> DelayLines | Netem:
        return self._delay_lines or Netem(self._network.netem_devices)

    def _error_location(self) -> str:
        ends = [device.display_name for each in self._network.delay_lines for device in each.devices]
        return " > ".join(ends or [device.display_name for device in self._network.netem_devices])

    def _set_and_verify_impairments(self, requested: Impairments) -> Impairments:
        effective = self._backend().set_impairments(requested)
        for (factor, level), value in zip(
            requested.as_levels().items(), effective.as_levels().values(), strict=True
        ):
            if level != value:
                raise TreatmentRefused(
                    f"{factor} = {format_level(factor, level)} did not take effect: "
                    f"{format_level(factor, value)} was read back",
                    where=self._error_location(),
                    fix="use whole microseconds; vnetbench doctor shows what impairs links on this machine",
                )
        self._current = requested
        return effective


def _has_impairment_factors(factors: Mapping[str, Level]) -> bool:
    return any(factor.is_present_in(factors) for factor in LINK_IMPAIRMENT_FACTORS)


def _keep_shortest_rtts(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the later proof with the shorter of both round trips of each pair."""
    both = zip(first["path_rtt_us"], second["path_rtt_us"], strict=True)
    shortest = [min((us for us in each if us is not None), default=None) for each in both]
    return {**second, "path_rtt_us": shortest}
