"""The event `bridge-port-stp`: a port's link flaps, and the spanning tree delays its forwarding."""

from __future__ import annotations

import time
from collections.abc import Mapping

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.disruption.link_flap import LinkFlap
from vnetbench.lab.errors import TrialFailed
from vnetbench.study.factors.disruption_factors import STP_FORWARD_DELAY_S

_LISTENING, _LEARNING, _FORWARDING = 1, 2, 3
"""BR_STATE_* of <linux/if_bridge.h>."""
_PORT_STATE_TIMEOUT_S = 10.0
"""Limit of the wait for a state of the port; a state itself lasts `STP_FORWARD_DELAY_S`."""
_POLL_INTERVAL_S = 0.01
_USER_HZ = 100
"""Times of a bridge are in hundredths of a second on the architectures that Linux has."""


class BridgePortStp:
    """Runs the kernel's spanning tree on a bridge while one of its ports flaps."""

    def __init__(self, near: LinkEnd, far: LinkEnd, bridge: str) -> None:
        self._near, self._bridge = near, bridge
        self._flap = LinkFlap(near, far)
        self._has_stp = False
        self._state_after_flap: int | None = None

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return self._flap.target

    def prepare(self) -> None:
        """See NetworkEvent. Ports that forward already keep forwarding when the spanning tree starts."""
        self._flap.prepare()
        # The kernel refuses to start the spanning tree with a shorter delay than it allows.
        self._set_bridge(br_forward_delay=round(STP_FORWARD_DELAY_S * _USER_HZ))
        self._has_stp = True
        self._set_bridge(br_stp_state=1)

    def observe_before(self) -> None:
        """See NetworkEvent. The state before the load suffices."""

    def begin(self) -> None:
        """See NetworkEvent."""
        self._flap.begin()

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._flap.observe_during()

    def end(self) -> None:
        """See NetworkEvent."""
        self._flap.end()

    def observe_after(self) -> None:
        """See NetworkEvent. The kernel enables the port some time after its link came up."""
        self._state_after_flap = self._wait_for_port_state(_LISTENING, _LEARNING, _FORWARDING)

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        proof = self._flap.prove()
        if self._state_after_flap not in (_LISTENING, _LEARNING):
            raise TrialFailed(
                f"event bridge-port-stp: {self.target} did not listen or learn after its link came up "
                f"(state {self._state_after_flap})"
            )
        if self._near.read_state().bridge_port_state != _FORWARDING:
            raise TrialFailed(f"event bridge-port-stp: {self.target} does not forward after the trial")
        return {**proof, "port_state_after_flap": self._state_after_flap, "port_state_at_end": _FORWARDING}

    def restore(self) -> None:
        """See NetworkEvent. Returns when the port forwards, as the next trial needs it.

        Without a spanning tree a port forwards at once, except one that listens: it waits for its timer.
        """
        try:
            if self._near.is_open and self._has_stp:
                self._set_bridge(br_stp_state=0)
                self._set_bridge(br_forward_delay=0)
                self._has_stp = False
                self._flap.set_up_again()
                if (state := self._wait_for_port_state(_FORWARDING)) != _FORWARDING:
                    raise BenchError(
                        f"event bridge-port-stp: {self.target} does not forward again (state {state})",
                        fix="run vnetbench lab clean",
                    )
        finally:
            self._flap.restore()

    def _wait_for_port_state(self, *awaited: int) -> int | None:
        """Return the state of the port once it is one of these, else the last state before the time limit."""
        deadline_s = time.monotonic() + _PORT_STATE_TIMEOUT_S
        while (state := self._near.read_state().bridge_port_state) not in awaited:
            if time.monotonic() > deadline_s:
                break
            time.sleep(_POLL_INTERVAL_S)
        return state

    def _set_bridge(self, **settings: int) -> None:
        with netlink.translate_netlink_errors(self._bridge):
            index = netlink.interface_index(self._near.ipr, self._bridge)
            self._near.ipr.link("set", index=index, kind="bridge", **settings)
