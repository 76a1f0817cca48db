"""Account for the time of a trial's streams or requests.

The endpoints and the network between them form a line of stations with finite buffers. Its limit follows
from who waits for whom (Kuo, Lim and Meerkov, Bottlenecks in Serial Production Lines, Mathematical Problems
in Engineering 2, 1996): a sender that blocks waits for what comes after it, a receiver that sleeps waits for
what comes before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.estimate.evidence.aggregation import largest, to_number
from vnetbench.estimate.evidence.flows import TRANSFERS_LOAD_PART
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.time_accounting.network_time import split_network_time
from vnetbench.estimate.evidence.time_accounting.thread_time import (
    TIME_OF_UNSEEN_THREADS,
    ThreadTime,
    mean_thread_time,
)
from vnetbench.estimate.evidence.time_accounting.time_uses import RECEIVER, RUNNING, SENDER, TIME_USE_BY_NAME
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.guests import EMULATOR_THREAD_KINDS, split_owner_and_thread_kind
from vnetbench.results.records import mapping_or_empty

TimeShares = Mapping[str, float]
"""Name of a use of time (`TIME_USE_BY_NAME`) to its share, 0 to 1. The shares add up to 1."""


def account_for_time(data: TrialData) -> TimeShares:
    """Return what the time of a stream or a request is spent on; empty without the threads' times."""
    part, kernels = data.steady_part, {kernel.endpoint_or_host: kernel for kernel in data.kernels}
    sender = mean_thread_time(part, part.senders, kernels)
    receiver = mean_thread_time(part, part.receivers, kernels)
    if (sender is None and receiver is None) or data.frame_losses is not None:
        return {}
    # An endpoint that only an iperf3 server represents is not seen: its time belongs to the network.
    sender, receiver = sender or TIME_OF_UNSEEN_THREADS, receiver or TIME_OF_UNSEEN_THREADS
    by_part = (
        _sender_and_receiver_shares_of_request(sender, receiver)
        if _sends_one_request_per_thread(data, sender)
        else _sender_and_receiver_shares_of_stream(sender, receiver)
    )
    shares = dict.fromkeys(TIME_USE_BY_NAME, 0.0)
    for name, time, share in ((SENDER, sender, by_part[0]), (RECEIVER, receiver, by_part[1])):
        shares |= {
            f"{name}_{use}": share * value for use, value in _shares_of_active_time_by_use(time).items()
        }
    network = max(0.0, 1 - by_part[0] - by_part[1])
    station = _busiest_network_station(data, kernels)
    shares |= {name: network * share for name, share in station.items()}
    rest = network * (1 - sum(station.values()))
    shares["load_pause"] = rest * share_of_requested_load_sent(data)
    rest -= shares["load_pause"]
    for name, share in split_network_time(data).items():
        shares[name] += rest * share
    return shares


def _sends_one_request_per_thread(data: TrialData, sender: ThreadTime) -> bool:
    """Return whether each sending thread has one request at a time, which is at one place at a time.

    The transfers of `mixed` are streams, and its time is theirs.
    """
    has_requests = any(data.metrics.get(name) for name in ("transactions_per_s", "connections_per_s"))
    return has_requests and not _has_transfers(data) and sender.thread_count >= _count_streams(data)


def _has_transfers(data: TrialData) -> bool:
    return any(flow.load_part == TRANSFERS_LOAD_PART for flow in data.flows)


def share_of_requested_load_sent(data: TrialData) -> float:
    """Return which share of its due messages a load with a rate has sent, 0 to 1; 0 without a rate.

    Where all of them were sent, a sleeping sender waits for the next one to be due. The rate of `mixed` is
    that of its requests, and its transfers have none.
    """
    if _has_transfers(data):
        return 0.0
    pacing = [
        mapping_or_empty(mapping_or_empty(endpoint.totals.get("instrument")).get("pacing"))
        for endpoint, _ in data.steady_part.senders
    ]
    due, sent = (sum(to_number(each.get(key)) or 0.0 for each in pacing) for key in ("due", "sent"))
    return min(1.0, sent / due) if due else 0.0


def _count_streams(data: TrialData) -> int:
    return len({(endpoint.name, s.stream_id) for endpoint, samples in data.steady_part.senders
                for x in samples for s in x.streams})  # fmt: skip


def _sender_and_receiver_shares_of_stream(sender: ThreadTime, receiver: ThreadTime) -> tuple[float, float]:
    """Return the shares of sender and receiver where data flows from one to the other; the rest is network.

    The sender limits while it is active and the receiver starves. The receiver limits while it is active and
    the sender blocks. The network limits while neither is active. Where both are active, they share the time
    in the ratio of the two.
    """
    sender_only = sender.active_share * receiver.sleeping_share
    receiver_only = receiver.active_share * sender.sleeping_share
    both = sender.active_share * receiver.active_share
    one = sender_only + receiver_only
    sender_part = sender_only / one if one else 0.5
    return sender_only + both * sender_part, receiver_only + both * (1 - sender_part)


def _sender_and_receiver_shares_of_request(sender: ThreadTime, receiver: ThreadTime) -> tuple[float, float]:
    """Return the shares of both endpoints of a request, which is at one place at a time."""
    total = max(1.0, sender.active_share + receiver.active_share)
    return sender.active_share / total, receiver.active_share / total


def _shares_of_active_time_by_use(time: ThreadTime) -> dict[str, float]:
    """Return running and the reasons for waiting as shares of the active time."""
    uses = {RUNNING: time.running_share, **time.waiting_share_by_reason}
    total = sum(uses.values())
    return {name: value / total if total else float(name == RUNNING) for name, value in uses.items()}


def _busiest_network_station(data: TrialData, kernels: Mapping[str, ObservedKernel]) -> dict[str, float]:
    """Return the share of the network's time that a CPU or a thread between the endpoints takes.

    A station that is busy for a share u of the time takes that share. The busier one of the two counts.
    """
    packets = largest(
        kernel.time_percent(cpu, *INTERRUPT_TIME_COUNTERS) / 100
        for kernel in kernels.values()
        for cpu in kernel.cpu_seconds_by_cpu_and_state
    )
    stations = {
        "packet_processing": packets or 0.0,
        "virtual_switch": _busiest_emulator_thread_active_share(data),
    }
    name = max(stations, key=lambda each: stations[each])
    return {name: min(1.0, stations[name])}


def _busiest_emulator_thread_active_share(data: TrialData) -> float:
    """Return the active time of the busiest emulator thread of a guest, 0 to 1."""
    samples = [x for x in data.steady_part.host_samples if x.observation]
    duration_s = sum(x.interval_s for x in samples)
    active_s: dict[str, float] = {}
    for x in samples:
        assert x.observation is not None
        for times in (x.observation.thread_cpu_s, x.observation.thread_wait_s):
            for thread, time_s in times.items():
                if split_owner_and_thread_kind(thread)[1] in EMULATOR_THREAD_KINDS:
                    active_s[thread] = active_s.get(thread, 0.0) + time_s
    return max(active_s.values(), default=0.0) / duration_s if duration_s else 0.0
