"""Controls of the third set: nothing is wrong with these loads."""

from __future__ import annotations

from bench.redteam.model import NOTHING, STREAM_COUNTS, THIRD, Cause, Load, crr, mixed, rr, tcp, udp

MAKERS = (tcp, rr, udp, crr, mixed)
OTHER_VSWITCHES = (
    (tcp(4), "direct"), (rr(4), "router"), (udp(2), "router"), (crr(2), "direct"), (mixed(2), "macvlan"),
    (tcp(2), "macvlan"),
)  # fmt: skip


def _control(load: Load, vswitch: str) -> Cause:
    return Cause(
        f"third-nothing-{load.workload}-{load.count}-{vswitch}", "control", "Nothing is wrong.",
        "nothing", (0,), (NOTHING,), (load,), None, vswitches=(vswitch,), own_part=THIRD,
    )  # fmt: skip


CAUSES = (
    *(
        _control(MAKERS[(column + row) % len(MAKERS)](STREAM_COUNTS[row]), "bridge")
        for column in range(len(MAKERS))
        for row in range(len(STREAM_COUNTS))
    ),
    *(_control(load, vswitch) for load, vswitch in OTHER_VSWITCHES),
)
