"""The link of a testbed, impaired as a treatment asks: by netem, or by a delay line of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links import netem
from vnetbench.lab.links.delay_line import DelayLines
from vnetbench.lab.links.impairments import Impairments, asked_of, check_round_trips, is_proved
from vnetbench.lab.links.netem import Netem
from vnetbench.lab.netns.topology import Network
from vnetbench.study.factors.registry import format_level
from vnetbench.study.factors.testbed_factors import LINK_IMPAIRMENTS, NOT_IMPAIRED
from vnetbench.study.model import Level

ROUNDS = 30
"""So often round trips are measured, until each pair had a right one: on a busy machine, or where a line's
threads may not run before other work, most of them wait for a CPU somewhere on their way."""


def needs_line(factors: Mapping[str, Level], network: Network) -> bool:
    """Whether a treatment's impairments take a delay line on this network, in which none stands.

    netem takes what TCP hands over as one for one packet, so it would lose or hold back dozens at once, and
    with jitter it lets packets overtake each other: a study would mean something else on each kernel. So it
    has delays alone, and only where they stand behind what `link_rate` shapes, as on a real link.
    """
    asked = asked_of(factors)
    if asked == Impairments():
        return False
    is_shaped = factors.get("link_rate", NOT_IMPAIRED) != NOT_IMPAIRED
    is_shaped_there = is_shaped and not set(network.delayed).isdisjoint(network.shaped)
    return not asked.is_delay_alone or is_shaped_there or not netem.is_there()


class Link:
    """What impairs the link of one testbed. It lives, and must be closed."""

    def __init__(self, name: str, network: Network) -> None:
        """`name` is the testbed's."""
        self._name = name
        self._network = network
        self._lines: DelayLines | None = None
        self._asked: Impairments | None = None
        """What was set last."""

    def start_lines(self) -> None:
        """Make the delay lines of the testbed, in its switch namespace; raises BenchError, or AgentError."""
        self._lines = DelayLines(self._name, self._network.switch_namespace, self._network.lines)

    def set_delay(self, factors: Mapping[str, Level]) -> None:
        """Set the delay alone, so that a path can be proved; to be called before links are shaped."""
        if _is_asked(factors):
            self._set(Impairments(asked_of(factors).delay_s))

    def impair(
        self,
        factors: Mapping[str, Level],
        prove: Callable[[float], dict[str, Any]],
        load: Mapping[str, frozenset[int]],
        online: frozenset[int],
    ) -> dict[str, Any]:
        """Prove the path under the delay, then set all; returns what was found, as a trial keeps it.

        `prove` takes the delay in seconds. `load` has the CPUs that the load of each endpoint may use: what
        else is `online` is for a delay line. Raises TreatmentRefused.
        """
        asked = asked_of(factors)
        found = self._lines.place(load, online) if self._lines else {}
        proved = prove(asked.delay_s)
        for _ in range(ROUNDS - 1):
            if not asked.delay_s or is_proved(proved["path_rtt_us"], asked.delay_s):
                break
            proved = _shortest(proved, prove(asked.delay_s))
        if not _is_asked(factors):
            return {**found, **proved}
        check_round_trips(proved["path_rtt_us"], asked.delay_s, self._where())
        levels = {name: level for name, level in self._set(asked).as_levels().items() if name in factors}
        carried = NOT_IMPAIRED if asked == Impairments() else self._carrier().name
        return {**found, **proved, **levels, "link_impaired_by": carried}

    def begin_counts(self) -> None:
        """Have the delay lines count, and draw, from now on: what they are set to is set once more."""
        if self._lines and self._asked is not None:
            self._set(self._asked)

    def counts(self) -> list[dict[str, Any]]:
        """What each delay line says of itself (`line.read`); nothing where there is none."""
        return self._lines.read() if self._lines else []

    def threads(self) -> list[dict[str, object]]:
        """The delay lines' threads, as an observer watches them."""
        return self._lines.threads() if self._lines else []

    def close(self) -> None:
        """End the delay lines."""
        if self._lines:
            self._lines.close()

    def _carrier(self) -> DelayLines | Netem:
        return self._lines or Netem(self._network.delayed)

    def _where(self) -> str:
        ends = [device.label for each in self._network.lines for device in each.devices]
        return " > ".join(ends or [device.label for device in self._network.delayed])

    def _set(self, asked: Impairments) -> Impairments:
        found = self._carrier().set(asked)
        for (factor, wanted), value in zip(
            asked.as_levels().items(), found.as_levels().values(), strict=True
        ):
            if wanted != value:
                raise TreatmentRefused(
                    f"{factor} = {format_level(factor, wanted)} did not take effect: "
                    f"{format_level(factor, value)} was read back",
                    where=self._where(),
                    fix="take whole microseconds; vnetbench doctor says what impairs links here",
                )
        self._asked = asked
        return found


def _is_asked(factors: Mapping[str, Level]) -> bool:
    return any(name in factors for name in LINK_IMPAIRMENTS)


def _shortest(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The later proof, with the shortest round trip that each pair had in both."""
    both = zip(first["path_rtt_us"], second["path_rtt_us"], strict=True)
    shortest = [min((us for us in each if us is not None), default=None) for each in both]
    return {**second, "path_rtt_us": shortest}
