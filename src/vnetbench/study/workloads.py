"""Workloads of a study: what each one sends, measures and requests from the agents.

This module is the only one that knows what a workload is. Other code looks the workload up by name and reads
its properties: `WORKLOADS[study.workload].carries_frames`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vnetbench.study.model import Study

TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, MIXED = "tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "mixed"
FRAMES, FRAME_LATENCY, FRAME_LOSS = "frames", "frame_latency", "frame_loss"
BACK_TO_BACK, SOAK = "back_to_back", "soak"
DISRUPTION, TCP_DISRUPTION = "disruption", "tcp_disruption"

MAX_LOSS_GOALS = 4
"""Maximum loss goals of one search; each has its own metric."""
THROUGHPUT_METRIC_NAMES = (
    "throughput_fps",
    *(f"throughput_goal{number}_fps" for number in range(2, MAX_LOSS_GOALS + 1)),
)
"""Metrics of the throughput for each loss goal, in the order of the study."""

SEARCH_METRIC_NAMES = (
    *THROUGHPUT_METRIC_NAMES,
    "throughput_bps",
    "max_forwarding_rate_fps",
    "back_to_back_frames",
    "buffer_s",
)
"""Metrics that a trial computes from its steps; they have no time series."""

OUTAGE_METRIC, STALL_METRIC = "outage_s", "stall_s"
"""Longest time without data that an event made: of datagrams, and of a TCP stream."""
EVENT_METRIC_NAMES = (OUTAGE_METRIC, STALL_METRIC, "recovery_s")
"""Metrics of the one event of a trial, which can decide; they have no time series."""

RATE_FACTOR_NAMES = ("rate", "bit_rate")
"""Factors that set the send rate; with the level `none` the network limits it."""

_BULK_AGENT_PARAMETERS = {"pacing_rate_bps": None, "send": "copy", "send_batch": 1, "receive": "discard"}


class SearchUse(Enum):
    """When the trials of a workload search for the throughput."""

    NEVER = auto()
    OPTIONAL = auto()
    """If the study has the section `[search]`."""
    ALWAYS = auto()


@dataclass(frozen=True)
class Workload:
    """One workload: what it sends, what it measures, and how its trials run."""

    name: str
    description: str
    """Entry of the workload in the study reference."""
    deciding_metrics: tuple[str, ...]
    """Metrics that `precision.metric` can name, the default first."""
    deciding_description: str
    """Default deciding metric, as the study reference names it."""
    size_factor: str
    """Factor that sets the size of a message, request, datagram or frame."""
    count_factor: str = "streams"
    """Factor that sets the number of streams, connections or flows."""
    achieved_rate_metric: str = ""
    """Metric of the units (`counted_unit_noun`) per second; empty for a stream of bytes."""
    counted_unit_noun: str = "transaction"
    """Unit that the workload counts, and whose latency it measures."""
    latency_title: str = "Latency"
    """Title of the latency in charts."""
    carrier: Literal["sockets", "frames"] = "sockets"
    """Whether it sends through sockets, or generates and counts frames at the interfaces."""

    deciding_metric_at_fixed_rate: str = ""
    """Default deciding metric if every treatment has a fixed rate; empty: no other metric."""
    deciding_metric_without_search: str = ""
    """Default deciding metric if the study has no search; empty: no other metric."""
    offered_load_factors: tuple[str, ...] = ()
    """Factors that set a stream's offered load. `explain` compares it with `achieved_rate_metric`."""

    is_byte_stream: bool = False
    """Whether it sends only bytes without boundaries, which arrive until the end of the load."""
    has_requests: bool = False
    """Whether it sends requests and measures their responses."""
    has_connection_per_request: bool = False
    """Whether each request opens a TCP connection, whose handshake it measures."""
    has_datagrams: bool = False
    """Whether it counts UDP datagrams, which can be lost."""
    has_requests_and_transfers: bool = False
    """Whether requests and transfers run together; the count factor and `streams` set their numbers."""
    has_idle_phase: bool = False
    """Whether a trial starts with a phase of requests only."""
    has_network_event: bool = False
    """Whether something happens to the network once in each trial, and the outage is measured."""

    search_use: SearchUse = SearchUse.NEVER
    has_frame_load_factor: bool = False
    """Whether it has the factor `frame_load`, which sets its one load of frames."""
    has_loss_curve: bool = False
    """Whether its steps go down from the highest load instead of searching for the throughput."""
    has_burst_search: bool = False
    """Whether a trial also searches for the longest burst without loss."""
    needs_duration_in_study: bool = False
    """Whether the study must set the duration of a trial."""
    duration_example: str = "1 h"
    """Duration that the message about a missing one proposes."""
    default_warmup_s: float | None = None
    """Warm-up if the study sets none; None: found in the samples of each trial."""
    additional_chart_names: tuple[str, ...] = ()
    """Names of its additional charts (`report.charts.frame_charts.ADDITIONAL_CHARTS_BY_NAME`)."""

    can_use_iperf3: bool = False
    """Whether an endpoint with only an iperf3 server can take part."""
    agent_workload_override: str = ""
    """Workload in the agents' `trial.prepare` if it differs from the name."""
    agent_defaults: Mapping[str, object] = field(default_factory=dict)
    """Parameters of `trial.prepare` that factors replace."""

    @property
    def has_lasting_flows(self) -> bool:
        """Whether the connections and flows that exist before the load carry all of it."""
        return not self.carries_frames and not self.has_connection_per_request

    @property
    def carries_frames(self) -> bool:
        """Whether it generates and counts frames at the interfaces (the tests of RFC 2544)."""
        return self.carrier == "frames"

    @property
    def agent_workload(self) -> str:
        """Workload in the agents' `trial.prepare`."""
        return self.agent_workload_override or self.name

    @property
    def can_hold_throughput_share(self) -> bool:
        """Whether its one load can be a share of the throughput, which it then searches first."""
        return self.has_frame_load_factor and self.search_use is SearchUse.ALWAYS


_make_frame_workload = partial(
    Workload,
    size_factor="frame_size",
    count_factor="flows",
    achieved_rate_metric="forwarding_rate_fps",
    counted_unit_noun="frame",
    latency_title="One-way delay",
    carrier="frames",
    agent_workload_override=FRAMES,
)

_make_event_workload = partial(
    Workload,
    has_network_event=True,
    needs_duration_in_study=True,
    duration_example="2 s",
    # The flow before the event is part of the measurement: its gaps are the floor of the outage.
    default_warmup_s=0.0,
    additional_chart_names=("event_timeline",),
)

_WORKLOADS = (
    Workload(
        TCP_STREAM,
        "bulk data as fast as TCP can send",
        ("goodput_bps",),
        "goodput",
        "message_size",
        is_byte_stream=True,
        can_use_iperf3=True,
        agent_defaults=_BULK_AGENT_PARAMETERS,
    ),
    Workload(
        TCP_RR,
        "requests and responses",
        ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
        "transaction rate, or the 99th percentile of latency if every treatment has a `rate`",
        "request_size",
        "connections",
        achieved_rate_metric="transactions_per_s",
        deciding_metric_at_fixed_rate="latency_p99_us",
        offered_load_factors=("rate",),
        has_requests=True,
    ),
    Workload(
        TCP_CRR,
        "a new connection for each request",
        ("connections_per_s", "connect_p50_us", "connect_p99_us"),
        "connection rate",
        "request_size",
        "connections",
        achieved_rate_metric="connections_per_s",
        deciding_metric_at_fixed_rate="connect_p99_us",
        has_requests=True,
        has_connection_per_request=True,
    ),
    Workload(
        UDP_STREAM,
        "datagrams",
        ("datagrams_received_per_s", "goodput_bps", "delay_p50_us", "delay_p99_us"),
        "received datagrams, or the 99th percentile of delay if every treatment has a rate",
        "datagram_size",
        achieved_rate_metric="datagrams_received_per_s",
        counted_unit_noun="datagram",
        latency_title="One-way delay",
        deciding_metric_at_fixed_rate="delay_p99_us",
        offered_load_factors=RATE_FACTOR_NAMES,
        has_datagrams=True,
    ),
    Workload(
        MIXED,
        "latency under load, first requests alone and then together with bulk transfers",
        (
            "latency_p99_us",
            "latency_p50_us",
            "latency_increase_p99_us",
            "latency_increase_p50_us",
            "goodput_bps",
        ),
        "99th percentile of latency under load",
        "request_size",
        "connections",
        achieved_rate_metric="transactions_per_s",
        has_requests=True,
        has_requests_and_transfers=True,
        has_idle_phase=True,
        agent_defaults=_BULK_AGENT_PARAMETERS,
    ),
    _make_event_workload(
        DISRUPTION,
        "a paced flow of datagrams while something happens to the network, and the outage that it makes",
        (OUTAGE_METRIC, "recovery_s"),
        "length of the outage",
        "datagram_size",
        achieved_rate_metric="datagrams_received_per_s",
        counted_unit_noun="datagram",
        latency_title="One-way delay",
        has_datagrams=True,
        agent_workload_override=UDP_STREAM,
        agent_defaults={"arrival_gaps": True, "link_may_go_down": True},
    ),
    _make_event_workload(
        TCP_DISRUPTION,
        "TCP streams with messages at a rate while something happens to the network, and how long they stall",
        (STALL_METRIC, "recovery_s"),
        "length of the stall",
        "message_size",
        counted_unit_noun="message",
        agent_workload_override=TCP_STREAM,
        agent_defaults={
            **_BULK_AGENT_PARAMETERS,
            "receive": "copy",
            "arrival_gaps": True,
            "link_may_go_down": True,
        },
    ),
    _make_frame_workload(
        FRAMES,
        "frames generated and counted at the interfaces, at one load, or with `[search]` to find the "
        "throughput",
        (*THROUGHPUT_METRIC_NAMES, "forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
        "throughput for the first loss goal, or the forwarding rate without `[search]`",
        deciding_metric_without_search="forwarding_rate_fps",
        offered_load_factors=("frame_load",),
        search_use=SearchUse.OPTIONAL,
        has_frame_load_factor=True,
        additional_chart_names=("search_steps",),
    ),
    _make_frame_workload(
        FRAME_LATENCY,
        "delay of frames at one load (RFC 2544, 26.2)",
        ("delay_p99_us", "delay_p50_us", *THROUGHPUT_METRIC_NAMES),
        "99th percentile of delay",
        search_use=SearchUse.ALWAYS,
        has_frame_load_factor=True,
        additional_chart_names=("search_steps",),
    ),
    _make_frame_workload(
        FRAME_LOSS,
        "loss of frames in steps from the highest load down (RFC 2544, 26.3)",
        ("max_forwarding_rate_fps", *THROUGHPUT_METRIC_NAMES),
        "maximum forwarding rate",
        search_use=SearchUse.ALWAYS,
        has_loss_curve=True,
        additional_chart_names=("loss_curve",),
    ),
    _make_frame_workload(
        BACK_TO_BACK,
        "the longest burst of frames without loss (RFC 2544, 26.4, updated by RFC 9004)",
        ("back_to_back_frames", "buffer_s"),
        "longest burst",
        search_use=SearchUse.ALWAYS,
        has_burst_search=True,
        additional_chart_names=("bursts",),
    ),
    _make_frame_workload(
        SOAK,
        "frames at one load for a long time",
        ("forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
        "forwarding rate",
        search_use=SearchUse.ALWAYS,
        has_frame_load_factor=True,
        needs_duration_in_study=True,
        # It counts the losses of its whole duration: cutting off a warm-up would hide some.
        default_warmup_s=0.0,
        additional_chart_names=("search_steps", "outstanding_frames"),
    ),
)

WORKLOADS: Mapping[str, Workload] = {each.name: each for each in _WORKLOADS}
"""All workloads by name. Studies and results files store the name."""

WORKLOAD_NAMES = tuple(WORKLOADS)
# Names of workloads by what they send. Factors list with them the workloads that they apply to.
SOCKET_WORKLOAD_NAMES = tuple(each.name for each in _WORKLOADS if not each.carries_frames)
FRAME_WORKLOAD_NAMES = tuple(each.name for each in _WORKLOADS if each.carries_frames)
NAMES_OF_WORKLOADS_WITH_EVENT = tuple(each.name for each in _WORKLOADS if each.has_network_event)
NAMES_OF_WORKLOADS_WITH_FRAME_LOAD = tuple(each.name for each in _WORKLOADS if each.has_frame_load_factor)


def choose_deciding_metric(study: Study) -> str:
    """Return the deciding metric: the one that the study names, else that of its workload.

    If every treatment has a fixed rate, the rate says nothing about the network. The 99th percentile then
    decides: of the latency with `tcp_rr`, of the one-way delay with `udp_stream`. With `mixed` the latency
    under load decides and not its increase, because a share of an increase near zero is out of reach. With
    `frames` it is the throughput if the study searches for it, else the forwarding rate.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    workload = WORKLOADS[study.workload]
    if workload.deciding_metric_without_search and study.search is None:
        return workload.deciding_metric_without_search
    has_fixed_rates = any(
        factor.name in RATE_FACTOR_NAMES and "none" not in factor.levels for factor in study.factors
    )
    if workload.deciding_metric_at_fixed_rate and has_fixed_rates:
        return workload.deciding_metric_at_fixed_rate
    return workload.deciding_metrics[0]
