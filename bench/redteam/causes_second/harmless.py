"""Things off the path that disturb nothing: an explanation that names a fault is a false alarm."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import background, copies, second
from bench.redteam.injections import nft, shell
from bench.redteam.model import NOTHING, Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

ACCEPT_RULE = """
add table inet t
add chain inet t c { type filter hook input priority 0; }
add rule inet t c counter accept
"""
LOADS = (tcp(4), rr(8), udp(2), mixed(2))


def _slow_disk(target: Target, value: Value, stack: ExitStack) -> None:
    calls = "fsync,fdatasync,sync_file_range"
    threads = Path(f"/proc/{target.bench_pid}/task").iterdir()
    words = " ".join(f"-p {thread.name}" for thread in threads)
    target.spawn(stack, "host", f"strace -qq -e trace={calls} -e inject={calls}:delay_enter={value} {words}")


def _idle_vms(target: Target, value: Value, stack: ExitStack) -> None:
    for number in range(int(value)):
        neighbours.add(target, stack, f"vm{number}", f"10.77.201.{number + 1}/16")


def _unrelated_rules(target: Target, value: Value, stack: ExitStack) -> None:
    lines = ["add table inet t", "add chain inet t c { type filter hook forward priority 0; }"]
    lines += [f"add rule inet t c ip saddr 198.18.{n >> 8}.{n & 255} drop" for n in range(int(value))]
    target.log.append(f"sw: {value} nft rules for routed packets")
    target.run("sw", "nft -f -", stdin="\n".join([*lines, ""]))


CAUSES = tuple(
    second(name, "harmless", text, method, values, (NOTHING,), loads, inject, is_harmless=True)
    for name, text, method, values, loads, inject in (
        (
            "slow-results-disk", "The disk of the results file is slow",
            "strace delays fsync, in microseconds",
            (10_000, 40_000, 150_000), LOADS, _slow_disk,
        ),
        (
            "capture-elsewhere", "Programs record another interface", "tcpdump of the receiver's loopback",
            (1, 2, 4), LOADS, copies(None, background("b1", "exec tcpdump -n -i lo -Z root -w /dev/null")),
        ),
        (
            "rules-elsewhere", "Rules that bridged frames do not meet", "nft rules for routed packets",
            (50, 400, 3000), LOADS, _unrelated_rules,
        ),
        (
            "idle-neighbours", "Idle VMs on the same bridge", "further namespaces",
            (1, 4, 10), LOADS, _idle_vms,
        ),
        (
            "shaper-elsewhere", "A slow interface that no packet uses", "tc tbf on an ifb, kbit/s",
            (5000, 500, 50), LOADS,
            shell("sw", "ip link add ifb0 type ifb; ip link set ifb0 up; tc qdisc add dev ifb0 root "
                  "tbf rate @vkbit burst 4k limit 30k"),
        ),
        (
            "one-rule", "A firewall that accepts everything", "nft accept rules in the receiver",
            (1, 2, 5), (tcp(4), rr(8), udp(2), crr(4)),
            copies(None, nft("b1", ACCEPT_RULE)),
        ),
    )
)  # fmt: skip
