"""Compute a run's metrics from what the two endpoints of an iperf3 run report. Text and JSON share this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.importers.arithmetic import divide_values, mean_value, scale_value, sum_values
from vnetbench.importers.runs import RoundedValue, SenderOrReceiver
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

SENDER, RECEIVER = "sender", "receiver"
CLIENT, SERVER = "client", "server"

DIRECTIONS_BY_LEVEL: Mapping[Level, tuple[str, ...]] = {
    "forward": (FORWARD,),
    "reverse": (REVERSE,),
    "both": (FORWARD, REVERSE),
}
"""The directions in use, by the level of the factor `direction`."""
_GOODPUT_METRIC_BY_DIRECTION = {FORWARD: "goodput_forward_bps", REVERSE: "goodput_reverse_bps"}


@dataclass(frozen=True)
class EndpointResult:
    """What one endpoint reports about one direction of a whole run, for all streams together."""

    duration_s: RoundedValue
    bits_per_s: RoundedValue
    """Payload: at the sender as handed to the kernel, at the receiver as read from it."""
    retransmits: int | None = None
    sent_or_expected_datagrams: int | None = None
    """At the sender, datagrams that were sent. At the receiver, those that arrived or are known to be
    lost."""
    lost_datagrams: int | None = None
    jitter_us: RoundedValue | None = None


DirectionAndEndpoint = tuple[str, str]
"""`FORWARD` or `REVERSE`, and `SENDER` or `RECEIVER`."""
EndpointResults = Mapping[DirectionAndEndpoint, EndpointResult]


@dataclass(frozen=True)
class RunResults:
    """The metrics of a run."""

    metrics: Mapping[str, RoundedValue]
    duration_s: float | None
    reported_by: SenderOrReceiver
    remarks: tuple[str, ...]


def sender_or_receiver(client_or_server: str, direction: str) -> SenderOrReceiver:
    """Return which endpoint of a direction the client or the server is."""
    return SENDER if (client_or_server == CLIENT) == (direction == FORWARD) else RECEIVER


def format_connection(client_or_server: str, local: str, remote: str) -> str:
    """Return what both endpoints call the connection: the client's address and port, then the server's."""
    return " ".join((local, remote) if client_or_server == CLIENT else (remote, local))


def drop_unreported_endpoint(
    endpoint_results: EndpointResults, client_or_server: str, *, is_complete: bool
) -> EndpointResults:
    """Return the results without zeros that stand for unknown values of the other endpoint.

    A server prints them because it prints before the results are exchanged (iperf_server_api.c). An
    interrupted client never exchanges them.
    """
    if client_or_server == SERVER or (client_or_server == CLIENT and not is_complete):
        return {
            (direction, end): results
            for (direction, end), results in endpoint_results.items()
            if end == sender_or_receiver(client_or_server, direction)
        }
    return endpoint_results


def cpu_metrics(
    client_or_server: str,
    direction: Level,
    local_and_remote_shares: tuple[RoundedValue, RoundedValue | None],
    *,
    is_run_complete: bool,
) -> dict[str, RoundedValue]:
    """Return the metrics of CPU time from the shares of this endpoint and of the other one.

    Only a client learns the other endpoint's share. A server prints what it learned in the test before.
    """
    local, remote = local_and_remote_shares[0], local_and_remote_shares[1] if is_run_complete else None
    values = {CLIENT: (local, remote), SERVER: (None, local)}.get(client_or_server, (None, None))
    names = ["first_vm", "second_vm"] if direction == "both" else [SENDER, RECEIVER]
    if direction == "reverse":
        names.reverse()
    return {
        f"{name}_cpu_percent": value for name, value in zip(names, values, strict=True) if value is not None
    }


def compute_results(workload: str, endpoint_results: EndpointResults) -> RunResults:
    """Return the metrics of a run from the known results of its endpoints."""
    directions = [
        direction
        for direction in (FORWARD, REVERSE)
        if any(result_direction == direction for result_direction, _ in endpoint_results)
    ]
    metrics = dict(
        _compute_datagram_metrics(endpoint_results, directions)
        if WORKLOADS[workload].has_datagrams
        else _compute_retransmit_rate(endpoint_results, directions)
    )
    metrics |= _compute_goodput(workload, endpoint_results, directions)
    endpoints = {end for _, end in endpoint_results}
    is_one_endpoint = len(endpoints) == 1 and len(directions) == 1
    preferred = [_receiver_or_sender_result(endpoint_results, direction) for direction in directions]
    return RunResults(
        metrics,
        max((each.duration_s.value for each in preferred), default=None),
        endpoints.pop() if is_one_endpoint else "",
        tuple(_missing_receiver_remarks(workload, endpoint_results, directions)),
    )


def split_udp_result(
    udp_row: EndpointResult,
    direction: str,
    log_endpoint: str,
    datagram_bits: float | None,
    arrived_bits_per_s: RoundedValue | None = None,
) -> Iterator[tuple[DirectionAndEndpoint, EndpointResult]]:
    """Yield the results of both endpoints from the single row that UDP prints up to 3.1.

    The row has the sender's bytes and the receiver's datagrams.

    Args:
        udp_row: The row.
        direction: Its direction.
        log_endpoint: The endpoint that wrote the log.
        datagram_bits: Payload of a datagram in bits, if it is known.
        arrived_bits_per_s: The rate in the receiver's intervals, if the log has them. By default it is the
            sender's rate, less the loss.
    """
    results, lost = udp_row.sent_or_expected_datagrams or 0, udp_row.lost_datagrams or 0
    yield (
        (direction, SENDER),
        EndpointResult(
            udp_row.duration_s,
            udp_row.bits_per_s,
            sent_or_expected_datagrams=results if log_endpoint == SENDER else None,
        ),
    )
    rate = (
        rate_per_s(datagram_bits * (results - lost), udp_row.duration_s)
        if datagram_bits is not None
        else arrived_bits_per_s
    )
    if rate is None:
        rate = scale_value(udp_row.bits_per_s, (results - lost) / results if results > 0 else 0.0)
    yield (
        (direction, RECEIVER),
        EndpointResult(udp_row.duration_s, rate, None, results, lost, udp_row.jitter_us),
    )


def rate_per_s(count: float, seconds: RoundedValue) -> RoundedValue | None:
    """Return a count per second; None if no time passed."""
    if seconds.low <= 0:
        return None
    return divide_values(RoundedValue.exact(count), seconds)


def _receiver_or_sender_result(endpoint_results: EndpointResults, direction: str) -> EndpointResult:
    return endpoint_results.get((direction, RECEIVER)) or endpoint_results[direction, SENDER]


def _compute_goodput(
    workload: str, endpoint_results: EndpointResults, directions: list[str]
) -> Iterator[tuple[str, RoundedValue]]:
    goodput = {}
    for direction in directions:
        if (direction, RECEIVER) in endpoint_results or not WORKLOADS[workload].has_datagrams:
            goodput[direction] = _receiver_or_sender_result(endpoint_results, direction).bits_per_s
    if directions and len(goodput) == len(directions):
        yield "goodput_bps", sum_values(list(goodput.values()))
    if len(directions) > 1:  # A UDP server alone knows only what arrived at itself.
        yield from ((_GOODPUT_METRIC_BY_DIRECTION[direction], value) for direction, value in goodput.items())


def _compute_retransmit_rate(
    endpoint_results: EndpointResults, directions: list[str]
) -> Iterator[tuple[str, RoundedValue]]:
    rates = [
        rate
        for direction in directions
        if (results := endpoint_results.get((direction, SENDER))) and results.retransmits is not None
        if (rate := rate_per_s(results.retransmits, results.duration_s))
    ]
    if rates and len(rates) == len(directions):
        yield "retransmits_per_s", sum_values(rates)


def _compute_datagram_metrics(
    endpoint_results: EndpointResults, directions: list[str]
) -> Iterator[tuple[str, RoundedValue]]:
    senders = [
        endpoint_results[direction, SENDER]
        for direction in directions
        if (direction, SENDER) in endpoint_results
    ]
    sent = [
        rate
        for results in senders
        if results.sent_or_expected_datagrams is not None
        and (rate := rate_per_s(results.sent_or_expected_datagrams, results.duration_s))
    ]
    if sent and len(sent) == len(directions):
        yield "datagrams_sent_per_s", sum_values(sent)
    receivers = [
        endpoint_results[direction, RECEIVER]
        for direction in directions
        if (direction, RECEIVER) in endpoint_results
    ]
    if len(receivers) < len(directions):
        return
    jitters = [results.jitter_us for results in receivers if results.jitter_us]
    if jitters:
        yield "jitter_us", mean_value(jitters)
    counts = [
        (results.sent_or_expected_datagrams, results.lost_datagrams, results.duration_s)
        for results in receivers
    ]
    total_datagrams = sum(datagrams or 0 for datagrams, _, _ in counts)
    arrived = [
        rate
        for datagrams, lost, seconds in counts
        if datagrams is not None and lost is not None and (rate := rate_per_s(datagrams - lost, seconds))
    ]
    if len(arrived) < len(directions) or not arrived:
        return
    yield "datagrams_received_per_s", sum_values(arrived)
    lost = sum(lost or 0 for _, lost, _ in counts)
    if total_datagrams > 0:
        yield "loss_percent", RoundedValue.exact(100 * max(0, lost) / total_datagrams)


def _missing_receiver_remarks(
    workload: str, endpoint_results: EndpointResults, directions: list[str]
) -> Iterator[str]:
    for direction in directions:
        if (direction, RECEIVER) in endpoint_results:
            continue
        scope = f" for the direction {direction}" if len(directions) > 1 else ""
        if WORKLOADS[workload].has_datagrams:
            yield f"The receiver's results{scope} are missing, so the amount of data that arrived is unknown."
        else:
            yield f"The receiver's goodput{scope} is missing, so the goodput is the sender's."
