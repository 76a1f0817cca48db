"""What is held against a trial: what was refused, and sockets, threads or loads that are not as asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentError
from vnetbench.lab.cpus import cpus_in
from vnetbench.lab.knobs import where_alike
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.quantity import format_rate, spell_bytes, spell_rate
from vnetbench.results.records import Sample, SideRecord
from vnetbench.study.factors.load_factors import VSOCK
from vnetbench.study.model import Level

PACING_ERROR = 0.1
"""A share of the rate that a paced stream is held to: what it is beside it by more is said."""
PACING_BURST_BITS = 4e6
"""What may come beyond it: the first segments are not paced, and a receiver that could not run catches up."""
PACED_SHARE = 0.9
"""Of the load, from its beginning: what pacing is judged by."""

Totals = Mapping[str, Any]
"""What an agent says in trial.end."""


@dataclass(frozen=True)
class Meaning:
    """What a kind of an agent's errors says of a treatment."""

    fix: str
    what: str = "{}"
    """With the agent's own sentence in the place of the braces."""
    where: str | None = None
    """The factor that it is about; without one it is about the endpoint."""


REFUSALS: Mapping[str, Meaning] = {
    "congestion_control_absent": Meaning(
        "vnetbench doctor lists those that it has; modprobe tcp_NAME adds one",
        "the kernel does not have this congestion control",
        "congestion_control",
    ),
    "congestion_control_forbidden": Meaning(
        "run as root, or take one of those in sysctl net.ipv4.tcp_allowed_congestion_control",
        "this user may not choose this congestion control",
        "congestion_control",
    ),
    "mptcp": Meaning(
        "sysctl -w net.mptcp.enabled=1 there; a kernel built with CONFIG_MPTCP has it",
        "transport = mptcp: {}",
    ),
    "frames_port": Meaning(
        "set it up (ip link set dev NAME up), and what it is joined to: ip -br link shows both"
    ),
    "send_mode": Meaning(
        "take copy; io_uring needs Linux 6.1 (to lend memory 6.2), and kernel.io_uring_disabled = 0",
        "this send_mode is not to be had: {}",
    ),
    "busy_poll": Meaning("run as root, or take block or spin", "waiting = busy_poll was refused: {}"),
    "datagram": Meaning(
        "take a datagram_size of at most the MTU less 28 bytes (IPv6: 48), fragments = on, or a "
        "larger mtu; where none gets through, let UDP pass on the way"
    ),
    "udp_offload": Meaning("take udp_gso and udp_gro off; Linux has them from 5.0 on"),
    "open_files": Meaning(
        "raise it before the bench starts: ulimit -n 4096 (in a service: LimitNOFILE=4096)",
        "the limit of open files is too low for so many streams: {}",
    ),
    "threads": Meaning(
        "let streams share threads (threads = 4), or raise it: ulimit -u (in a service: TasksMax=)",
        "the limit of threads is too low for so many streams: {}",
    ),
    "refused": Meaning("leave this treatment out with [[exclude]], or have the server allow it"),
}
"""By the `kind` of an agent's error (docs/protocol.md, "Errors"): those of what the treatment asks."""


def refusal_of(error: AgentError, endpoint: str) -> TreatmentRefused | None:
    """The refusal that an agent's error means, where it is of what the treatment asks; else None."""
    meaning = REFUSALS.get(str(error.data.get("kind")))
    if meaning is None:
        return None
    return TreatmentRefused(
        meaning.what.format(error.message), where=meaning.where or endpoint, fix=meaning.fix
    )


def judge_streams(factors: Mapping[str, Level], streams: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """What the sockets really have; raises TreatmentRefused where that is not what was asked."""
    effective: dict[str, object] = {}
    for name in (
        "congestion_control", "send_buffer_bytes", "receive_buffer_bytes", "mss", "no_delay", "busy_poll_us",
        "transport", "subflows", "pacing_rate_bps", "udp_segment_bytes", "udp_gro", "shared_clock",
    ):  # fmt: skip
        if values := sorted({s[name] for s in streams if s.get(name) is not None}, key=str):
            effective[name] = values[0] if len(values) == 1 else values
    asked = factors.get("congestion_control")
    found = effective.get("congestion_control")
    if asked is not None and found != asked and factors.get("transport") != VSOCK:
        raise TreatmentRefused(
            f"congestion_control = {asked} did not take effect: {found} was read back",
            fix="vnetbench doctor lists those of this kernel",
        )
    asking = [s for s in streams if s.get("part") != "transfers"]
    if factors.get("waiting") == "busy_poll" and not all(s.get("busy_poll_us") for s in asking):
        raise TreatmentRefused(
            "waiting = busy_poll did not take effect: SO_BUSY_POLL was read back as 0",
            fix="a kernel built with CONFIG_NET_RX_BUSY_POLL has it",
        )
    _judge_transport(factors, streams)
    rate_bps = _pacing_rate_bps(factors)
    # The kernel keeps whole bytes a second.
    if rate_bps is not None and any(s.get("pacing_rate_bps") != rate_bps // 8 * 8 for s in streams):
        raise TreatmentRefused(
            f"pacing_rate = {spell_rate(rate_bps)} did not take effect:"
            f" {effective.get('pacing_rate_bps', 'none')} was read back",
            fix="take a rate that the kernel keeps, or none",
        )
    buffer = factors.get("socket_buffer", "auto")
    if buffer != "auto":
        # The kernel doubles what is asked, for its own bookkeeping (socket(7), SO_RCVBUF), within its limits.
        granted = min(int(s[name]) for s in streams for name in ("send_buffer_bytes", "receive_buffer_bytes"))
        if granted < 2 * int(buffer):
            raise TreatmentRefused(
                f"socket_buffer = {spell_bytes(int(buffer))} did not take effect: "
                f"{spell_bytes(granted // 2)} was read back",
                fix=f"raise its limits: sysctl -w net.core.wmem_max={buffer} net.core.rmem_max={buffer}",
            )
    return effective


def lent(totals: Sequence[Totals]) -> dict[str, int] | None:
    """What became of the memory that sources lent to their kernels, by the kernels' own account; or None.

    The numbers of sends that went out `in_place`, that were `copied` after all, and that were `unsettled`
    at the end.
    """
    accounts = [s["lent"] for t in totals for s in t.get("streams", ()) if s.get("lent")]
    if not accounts:
        return None
    return {name: sum(int(a[name]) for a in accounts) for name in ("in_place", "copied", "unsettled")}


def _judge_transport(factors: Mapping[str, Level], streams: Sequence[Mapping[str, Any]]) -> None:
    asked = factors.get("transport", "tcp")
    others = [str(s["id"]) for s in streams if s.get("transport", asked) != asked]
    if others:
        raise TreatmentRefused(
            f"transport = {asked} did not take effect: stream {', '.join(others)} fell back to TCP",
            fix="see what takes MPTCP's options away on the path: nstat -a | grep MPTcp in the VM says why",
        )


def judge_load(factors: Mapping[str, Level], duration_s: float, sides: Sequence[SideRecord]) -> list[str]:
    """Remarks on a load that was not quite as asked; raises TreatmentRefused where it was another one.

    `sides` are those of the endpoints.
    """
    for side in sides:
        _judge_transport(factors, streams_of(side.totals))
    rate_bps = _pacing_rate_bps(factors)
    if rate_bps is None:
        return []
    found = [
        rate
        for side in sides
        # A late sample of the end would hold what streams let go of when they were no longer paced.
        for rate in _arrival_rates([x for x in side.samples if x.t_s <= PACED_SHARE * duration_s])
    ]
    if not found:
        return []
    if max(found) > (1 + PACING_ERROR) * rate_bps + PACING_BURST_BITS / duration_s:
        raise TreatmentRefused(
            f"pacing_rate = {spell_rate(rate_bps)} did not hold: {format_rate(max(found))} arrived",
            fix="pace with the queueing discipline fq (tc qdisc replace), or take none",
        )
    if (mean := sum(found) / len(found)) < (1 - PACING_ERROR) * rate_bps:
        return [
            f"paced to {spell_rate(rate_bps)}, the streams came to {format_rate(mean)} on average:"
            " something else was the limit"
        ]
    return []


def streams_of(totals: Totals) -> Sequence[Mapping[str, Any]]:
    """What an agent says of each of its streams in trial.end."""
    streams: Sequence[Mapping[str, Any]] = totals.get("streams", ())
    return streams


def _pacing_rate_bps(factors: Mapping[str, Level]) -> int | None:
    level = factors.get("pacing_rate", "none")
    return None if level == "none" else int(level)


def _arrival_rates(samples: Sequence[Sample]) -> list[float]:
    """What came of each stream that ends here, bit/s, over all these samples."""
    seconds = sum(sample.interval_s for sample in samples)
    sums: Counter[int] = Counter()
    for sample in samples:
        for stream in sample.streams:
            if stream.role == "sink":
                sums[stream.stream] += stream.bytes
    return [8 * size / seconds for size in sums.values()]


def judge_threads(
    asked: Mapping[str, Sequence[str]], found: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    """Where the threads of each endpoint really run; raises TreatmentRefused where that is not as asked."""
    for endpoint, lists in asked.items():
        if [cpus_in(cpus) for cpus in lists] != [cpus_in(cpus) for cpus in found[endpoint]]:
            raise TreatmentRefused(
                f"threads on the CPUs {' '.join(lists)} were asked for,"
                f" and {' '.join(found[endpoint])} read back",
                where=endpoint,
                fix="something else on this machine places threads too (a cpuset, a daemon): end it",
            )
    return {
        "threads": where_alike({endpoint: len(cpus) for endpoint, cpus in found.items()}),
        "thread_cpus": where_alike(
            {endpoint: cpus[0] if len(set(cpus)) == 1 else list(cpus) for endpoint, cpus in found.items()}
        ),
    }
