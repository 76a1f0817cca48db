"""A relay between the receiver's port and the bridge, which delays frames."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.compiled_programs import built
from bench.redteam.injections import fill_in
from bench.redteam.model import Inject, Value
from bench.redteam.target import Target


def delay_line(delay_us: str, late_share: str) -> Inject:
    """Return an injection of a relay that delays a share of the frames in each direction."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.run("sw", "ip link set b1 nomaster")
        target.run("sw", "ip link add w0 type veth peer name w1")
        for name in ("w0", "w1", "b1"):
            target.run("sw", f"ip link set {name} promisc on up")
        target.run("sw", "ip link set w0 master sw0")
        words = fill_in(f"{delay_us} {late_share}", target, value)
        target.spawn(stack, "sw", f"{built('delay_line')} w1 b1 {words}")

    return inject
