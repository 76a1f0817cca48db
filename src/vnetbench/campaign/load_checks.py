"""Checks that a trial's sockets, threads and load match its treatment, and refusals by the agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentError
from vnetbench.failure_kinds import KIND_BY_AGENT_ERROR_CODE, SYSTEM_REFUSED
from vnetbench.lab.cpus import parse_cpu_set
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.knobs import merge_if_equal
from vnetbench.quantity import format_bit_rate, format_exact_bit_rate, format_exact_bytes
from vnetbench.results.records import EndpointRecord, Sample
from vnetbench.study.factors.load_factors import (
    CONGESTION_CONTROL,
    PACING_RATE,
    SOCKET_BUFFER,
    THREAD_CPUS,
    THREADS,
    TRANSPORT,
    VSOCK,
    WAITING,
)
from vnetbench.study.model import Level

MAX_PACING_DEVIATION_SHARE = 0.1
"""Accepted deviation of a paced stream from its rate, as a share of the rate."""
ACCEPTED_PACING_EXCESS_BITS = 4e6
"""Accepted excess: the first segments are not paced, and a delayed receiver catches up."""
PACING_CHECKED_DURATION_SHARE = 0.9
"""Share of the load, from its start, in which the pacing is checked."""

TrialEndParameters = Mapping[str, Any]
"""The parameters of an agent's trial.end."""


@dataclass(frozen=True)
class RefusalText:
    """Text of the refusal for one kind of agent error."""

    fix: str
    message_template_with_agent_message: str = "{}"
    """Message. The braces stand for the agent's message."""
    factor_name: str | None = None
    """The factor concerned; None for the endpoint."""
    failure_kind: str = ""
    """The failure kind if not the study but the system is the reason; empty for the agent's own kind."""


REFUSAL_TEXT_BY_ERROR_KIND: Mapping[str, RefusalText] = {
    "congestion_control_absent": RefusalText(
        "load its module with modprobe tcp_NAME. vnetbench doctor lists the available congestion controls",
        "the kernel does not support this congestion control",
        CONGESTION_CONTROL.name,
    ),
    "congestion_control_forbidden": RefusalText(
        "run as root, or use a congestion control listed in sysctl net.ipv4.tcp_allowed_congestion_control",
        "this user is not allowed to use this congestion control",
        CONGESTION_CONTROL.name,
    ),
    "mptcp": RefusalText(
        "enable MPTCP on the endpoint: sysctl -w net.mptcp.enabled=1 (needs a kernel with CONFIG_MPTCP)",
        "transport = mptcp: {}",
    ),
    "frames_port": RefusalText(
        "set the port and its peer up (ip link set dev NAME up). ip -br link shows their states"
    ),
    "send_mode": RefusalText(
        "write send_mode = copy. io_uring needs Linux 6.1 (zero-copy: 6.2) and kernel.io_uring_disabled = 0",
        "this send_mode is not available: {}",
    ),
    "busy_poll": RefusalText(
        "run as root, or use waiting = block or spin", "the kernel refused waiting = busy_poll: {}"
    ),
    "datagram": RefusalText(
        "use a datagram_size of at most the MTU minus 28 bytes (IPv6: 48), fragments = on, or a "
        "larger mtu. If no datagram arrives, allow UDP in all firewalls on the path"
    ),
    "udp_offload": RefusalText(
        "write udp_gso = off and udp_gro = off, because these offloads need Linux 5.0"
    ),
    "source_port": RefusalText(
        "name other ports, best outside of net.ipv4.ip_local_port_range, or end the program that uses the "
        "port (ss -tuanp shows it). A port in TIME_WAIT is free again after 60 s",
        "source_ports: {}",
        failure_kind=SYSTEM_REFUSED,
    ),
    "open_files": RefusalText(
        "raise the limit before you start the bench: ulimit -n 4096 (in a service: LimitNOFILE=4096)",
        "the limit of open files is too low for this number of streams: {}",
        failure_kind=SYSTEM_REFUSED,
    ),
    "threads": RefusalText(
        "let streams share threads (threads = 4), or raise the limit: ulimit -u (in a service: TasksMax=)",
        "the limit of threads is too low for this number of streams: {}",
        failure_kind=SYSTEM_REFUSED,
    ),
    "refused": RefusalText(
        "exclude this treatment with [[exclude]], or configure the server to allow the load"
    ),
}
"""Agent errors that refuse a treatment, by the error's `kind` (docs/protocol.md, "Errors")."""


def agent_failure_kind(error: AgentError) -> str:
    """Return what failed: the kind that the agent reports, else one that follows from its error code."""
    return str(error.data.get("kind") or KIND_BY_AGENT_ERROR_CODE.get(error.code, ""))


def failure_from_agent_error(error: AgentError) -> TrialFailed:
    """Return the failed trial that an agent's error means."""
    return TrialFailed(str(error), kind=agent_failure_kind(error))


def refusal_from_agent_error(error: AgentError, endpoint: str) -> TreatmentRefused | None:
    """Return the refusal of the treatment that an agent's error means, or None for any other error."""
    text = REFUSAL_TEXT_BY_ERROR_KIND.get(str(error.data.get("kind")))
    if text is None:
        return None
    return TreatmentRefused(
        text.message_template_with_agent_message.format(error.message),
        where=text.factor_name or endpoint,
        fix=text.fix,
        kind=text.failure_kind or agent_failure_kind(error),
    )


def check_and_return_socket_settings(
    factors: Mapping[str, Level], streams: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    """Return the effective settings of the sockets.

    Raises:
        TreatmentRefused: They differ from the treatment's levels.
    """
    effective: dict[str, object] = {}
    for name in (
        "congestion_control", "send_buffer_bytes", "receive_buffer_bytes", "mss", "no_delay", "busy_poll_us",
        "transport", "subflows", "pacing_rate_bps", "udp_segment_bytes", "udp_gro", "shared_clock",
    ):  # fmt: skip
        if values := sorted({s[name] for s in streams if s.get(name) is not None}, key=str):
            effective[name] = values[0] if len(values) == 1 else values
    requested = factors.get(CONGESTION_CONTROL.name)
    actual = effective.get("congestion_control")
    if requested is not None and actual != requested and not TRANSPORT.is_at(factors, VSOCK):
        raise TreatmentRefused(
            f"congestion_control = {requested} had no effect: the socket uses {actual}",
            fix="use a congestion control that vnetbench doctor lists for this kernel",
        )
    request_streams = [s for s in streams if s.get("part") != "transfers"]
    if WAITING.is_at(factors, "busy_poll") and not all(s.get("busy_poll_us") for s in request_streams):
        raise TreatmentRefused(
            "waiting = busy_poll had no effect: the kernel reports SO_BUSY_POLL = 0",
            fix="use a kernel with CONFIG_NET_RX_BUSY_POLL",
        )
    _check_transport_protocol(factors, streams)
    rate_bps = _pacing_rate_bps(factors)
    # The kernel stores whole bytes per second.
    paced_streams = [s for s in streams if s.get("part") != "requests"]
    if rate_bps is not None and any(s.get("pacing_rate_bps") != rate_bps // 8 * 8 for s in paced_streams):
        raise TreatmentRefused(
            f"pacing_rate = {format_exact_bit_rate(rate_bps)} had no effect:"
            f" the kernel reports {effective.get('pacing_rate_bps', 'none')}",
            fix="use a rate that the kernel accepts, or write pacing_rate = none",
        )
    buffer = SOCKET_BUFFER.read_level(factors)
    if buffer != "auto":
        # The kernel doubles the requested size for bookkeeping, within its limits (socket(7), SO_RCVBUF).
        sizes = ("send_buffer_bytes", "receive_buffer_bytes")
        granted = min((int(s.get(name) or 0) for s in streams for name in sizes), default=0)
        if granted < 2 * int(buffer):
            raise TreatmentRefused(
                f"socket_buffer = {format_exact_bytes(int(buffer))} had no effect: "
                f"the kernel grants {format_exact_bytes(granted // 2)}",
                fix=f"raise the limits: sysctl -w net.core.wmem_max={buffer} net.core.rmem_max={buffer}",
            )
    return effective


def sum_zero_copy_counts(totals: Sequence[TrialEndParameters]) -> dict[str, int] | None:
    """Return the counts of zero-copy sends as the kernels report them; None without zero-copy sends.

    `in_place` were sent without a copy, `copied` were copied by the kernel, and `uncompleted` had no
    completion at the end of the trial.
    """
    accounts = [s["zero_copy"] for t in totals for s in t.get("streams", ()) if s.get("zero_copy")]
    if not accounts:
        return None
    return {name: sum(int(a[name]) for a in accounts) for name in ("in_place", "copied", "uncompleted")}


def _check_transport_protocol(factors: Mapping[str, Level], streams: Sequence[Mapping[str, Any]]) -> None:
    requested = TRANSPORT.read_level(factors)
    others = [str(s["id"]) for s in streams if s.get("transport", requested) != requested]
    if others:
        raise TreatmentRefused(
            f"transport = {requested} had no effect: stream {', '.join(others)} fell back to TCP",
            fix="find the hop on the path that removes MPTCP options. In the VM, nstat -a | grep MPTcp "
            "shows the cause",
        )


def check_pacing_and_load(
    factors: Mapping[str, Level], idle_and_load_s: float, endpoints: Sequence[EndpointRecord]
) -> list[str]:
    """Return notes on a load that deviates from the treatment.

    Args:
        factors: The treatment's levels.
        idle_and_load_s: Duration of the idle phase and the load together.
        endpoints: Records of the endpoints without observers.

    Raises:
        TreatmentRefused: The transport or the pacing had no effect.
    """
    for endpoint in endpoints:
        _check_transport_protocol(factors, stream_totals(endpoint.totals))
    rate_bps = _pacing_rate_bps(factors)
    if rate_bps is None:
        return []
    rates_bps = [
        rate
        for endpoint in endpoints
        # Samples at the end may include data that streams sent when pacing had ended.
        for rate in _compute_stream_receive_rates_bps(
            [x for x in endpoint.samples if x.end_s <= PACING_CHECKED_DURATION_SHARE * idle_and_load_s]
        )
    ]
    if not rates_bps:
        return []
    if (
        max(rates_bps)
        > (1 + MAX_PACING_DEVIATION_SHARE) * rate_bps + ACCEPTED_PACING_EXCESS_BITS / idle_and_load_s
    ):
        raise TreatmentRefused(
            f"pacing_rate = {format_exact_bit_rate(rate_bps)} was exceeded:"
            f" a stream arrived at {format_bit_rate(max(rates_bps))}",
            fix="use the queueing discipline fq for pacing (tc qdisc replace), or write pacing_rate = none",
        )
    if (mean := sum(rates_bps) / len(rates_bps)) < (1 - MAX_PACING_DEVIATION_SHARE) * rate_bps:
        return [
            f"the streams are paced to {format_exact_bit_rate(rate_bps)}, but the mean of the streams is"
            f" {format_bit_rate(mean)}, so the pacing rate is not the limit"
        ]
    return []


def stream_totals(totals: TrialEndParameters) -> Sequence[Mapping[str, Any]]:
    """Return the totals of each stream from an agent's trial.end."""
    streams: Sequence[Mapping[str, Any]] = totals.get("streams", ())
    return streams


def _pacing_rate_bps(factors: Mapping[str, Level]) -> int | None:
    level = PACING_RATE.read_level(factors)
    return None if level == "none" else int(level)


def _compute_stream_receive_rates_bps(samples: Sequence[Sample]) -> list[float]:
    """Return the receive rate of each sink's stream over these samples, bit/s.

    With `mixed`, these are the streams of the transfers, after the idle phase.
    """
    seconds = 0.0
    sums: Counter[int] = Counter()
    for sample in samples:
        for stream in sample.streams:
            if stream.role == "sink" and stream.load_part != "requests":
                sums[stream.stream_id] += stream.bytes
        if any(sums.values()):
            seconds += sample.interval_s
    return [8 * size / seconds for size in sums.values()] if seconds else []


def check_and_return_thread_cpus(
    requested: Mapping[str, Sequence[str]], actual: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    """Return the number of threads and their CPUs for each endpoint.

    Args:
        requested: CPU lists of the threads by endpoint, as requested.
        actual: The same as the agents read them back.

    Raises:
        TreatmentRefused: They differ.
    """
    for endpoint, lists in requested.items():
        if [parse_cpu_set(cpus) for cpus in lists] != [parse_cpu_set(cpus) for cpus in actual[endpoint]]:
            raise TreatmentRefused(
                f"threads were placed on the CPUs {' '.join(actual[endpoint])} instead of {' '.join(lists)}",
                where=endpoint,
                fix="stop other programs on this machine that set CPU affinities (a cpuset, a daemon)",
                factor=THREAD_CPUS.name,
            )
    return {
        THREADS.name: merge_if_equal({endpoint: len(cpus) for endpoint, cpus in actual.items()}),
        THREAD_CPUS.name: merge_if_equal(
            {endpoint: cpus[0] if len(set(cpus)) == 1 else list(cpus) for endpoint, cpus in actual.items()}
        ),
    }
