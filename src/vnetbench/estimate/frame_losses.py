"""The locations where frames were lost between source and sink, from the counters on the path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.frames import FRAMES_RECEIVED, FRAMES_SENT, final_stream_counts, read_search_result
from vnetbench.results.records import (
    HOST,
    LOSS_CURVE_STEP,
    OBSERVE,
    SEARCH_STEP,
    EndpointRecord,
    TrialRecord,
)

AT_SWITCH, BEFORE_LINK, IN_BACKLOG = "at_switch", "before_link", "in_backlog"
BEFORE_RECEIVER, ELSEWHERE = "before_receiver", "elsewhere"
"""Drop locations, in path order; `elsewhere` is the rest that no counter explains."""
UPLINK_ROLE = "uplink"
"""The role of an uplink in a testbed's description (`lab/netns/topology.py`)."""
_PACKET_AND_DROP_COUNTERS = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")

_MAX_STEP_LOAD_PER_THROUGHPUT = 2.0
"""Only search steps at up to this times the throughput count. At a much higher load another location than
the bottleneck may lose the most frames."""

PathCounters = Mapping[str, Any]
"""Counters of the path (`path_counters`), as JSON so that steps can store them."""


@dataclass(frozen=True)
class FrameLosses:
    """The sent and lost frames of one or more runs."""

    sent_frames: int
    lost_frames: int
    lost_frames_by_location: Mapping[str, int]
    """Lost frames by drop location. Their sum is `lost_frames`."""

    def percent_of_lost(self, location: str) -> float | None:
        """Return the share of the lost frames that was lost at a location; None without losses."""
        return 100 * self.lost_frames_by_location[location] / self.lost_frames if self.lost_frames else None

    @property
    def lost_percent(self) -> float | None:
        """Share of the sent frames that was lost; None if none were sent."""
        return 100 * self.lost_frames / self.sent_frames if self.sent_frames else None


def locate_frame_losses(trial: TrialRecord, testbed: Mapping[str, Any]) -> FrameLosses | None:
    """Return where a trial lost frames; None if it sent none.

    With a search, the result covers the steps that exceeded the loss goal at a load little above the
    throughput, if there are any.

    Args:
        trial: The trial.
        testbed: The testbed's description in the results file.
    """
    sent, received = (
        sum(
            int(stream.get(kind, 0))
            for endpoint in trial.endpoints
            for stream in final_stream_counts(endpoint.totals)
        )
        for kind in (FRAMES_SENT, FRAMES_RECEIVED)
    )
    if not sent:
        return None
    dropped = sum(int(str(endpoint.totals.get("sink_dropped", 0))) for endpoint in trial.endpoints)
    counters = path_counters(trial.endpoints, trial.effective)
    run = attribute_losses_to_locations(sent, received + dropped, counters, testbed)
    return sum_losses_of_runs(_losses_of_steps_just_above_throughput(trial, testbed) or [run])


def path_counters(endpoints: Sequence[EndpointRecord], effective: Mapping[str, object]) -> dict[str, Any]:
    """Return the counters of the path that show frame losses.

    `interfaces` has the counters of watched interfaces by observer. `softnet_dropped` counts frames that
    found a CPU's backlog full. `rejected` counts frames that the sources' ports rejected, if the device
    behind the ports lost them (`rejected_frames` in `effective`).
    """
    interfaces = {
        endpoint.name: {
            each["name"]: _packet_and_drop_counts(each)
            for each in _list_or_empty(endpoint.totals.get("interfaces"))
        }
        for endpoint in endpoints
        if endpoint.role == OBSERVE
    }
    counters = (endpoint.totals.get("counters") for endpoint in endpoints)
    backlog_drops = sum(int(each.get("softnet_dropped", 0)) for each in counters if isinstance(each, Mapping))
    rejected = sum(
        int(stream.get("rejected", 0))
        for endpoint in endpoints
        for stream in final_stream_counts(endpoint.totals)
    )
    return {
        "interfaces": {name: counts for name, counts in interfaces.items() if counts},
        "softnet_dropped": backlog_drops,
        "rejected": rejected if effective.get("rejected_frames") == "lost" else 0,
    }


def attribute_losses_to_locations(
    sent: int, received: int, counters: PathCounters, testbed: Mapping[str, Any]
) -> FrameLosses:
    """Return how many of the lost frames were lost at each location.

    Frames that a device received but neither forwarded nor counted as dropped were lost inside it. Counters
    may include other packets and exceed the loss; then the first locations on the path count first.

    Args:
        sent: The number of frames sent.
        received: The number of distinct frames received.
        counters: The counters of the path.
        testbed: The testbed's description in the results file.
    """
    rest = lost = max(0, sent - received)
    lost_at = {}
    for location, count in _count_drops_by_location(counters, testbed).items():
        lost_at[location] = min(rest, max(0, count))
        rest -= lost_at[location]
    return FrameLosses(sent, lost, {**lost_at, ELSEWHERE: rest})


def sum_losses_of_runs(runs: Sequence[FrameLosses]) -> FrameLosses:
    """Return the sum of several runs."""
    locations = {location for run in runs for location in run.lost_frames_by_location}
    return FrameLosses(
        sum(run.sent_frames for run in runs),
        sum(run.lost_frames for run in runs),
        {
            location: sum(run.lost_frames_by_location.get(location, 0) for run in runs)
            for location in locations
        },
    )


def _losses_of_steps_just_above_throughput(
    trial: TrialRecord, testbed: Mapping[str, Any]
) -> list[FrameLosses]:
    goal_results = read_search_result(trial).get("goal_results") or ()
    if not goal_results:
        return []
    goal, throughput_fps = float(goal_results[0]["goal"]), float(goal_results[0]["throughput_fps"])
    return [
        attribute_losses_to_locations(step.sent, step.received, counters, testbed)
        for step in trial.steps
        if step.purpose in (SEARCH_STEP, LOSS_CURVE_STEP) and step.loss_ratio > goal
        if throughput_fps < (step.load_fps or 0.0) <= _MAX_STEP_LOAD_PER_THROUGHPUT * throughput_fps
        if isinstance(counters := step.details.get("path_counters"), Mapping)
    ]


def _count_drops_by_location(counters: PathCounters, testbed: Mapping[str, Any]) -> dict[str, int]:
    descriptions = {each["name"]: each for each in testbed.get("observed_interfaces") or ()}
    endpoints = {each["name"] for each in testbed.get("endpoints") or ()}
    entering = before_link = before_receiver = inside = 0
    for observer, name, counts in _iterate_counts_by_observer_and_interface(counters):
        description = descriptions.get(name, {}) if observer == HOST else {}
        before_link += counts.get("queue_drops", 0)
        entering += counts.get("rx_dropped", 0)
        if description.get("leads_to") in endpoints:
            before_receiver += counts.get("tx_dropped", 0)
            inside += counts.get("rx_packets", 0) - counts.get("tx_packets", 0)
        else:
            entering += counts.get("tx_dropped", 0)
        if description.get("role") == UPLINK_ROLE:
            # Frames that one end of an uplink sends and the other does not receive are lost between switches.
            inside += counts.get("rx_packets", 0) - counts.get("tx_packets", 0)
    in_backlog = int(counters.get("softnet_dropped", 0))
    inside -= before_link + before_receiver + in_backlog
    return {
        # An interface also counts the frames that a full backlog drops. If the observer started later than
        # the sources, the sources' own count of rejected frames is the larger one.
        AT_SWITCH: max(entering - in_backlog, counters.get("rejected", 0)) + max(0, inside),
        BEFORE_LINK: before_link,
        IN_BACKLOG: in_backlog,
        BEFORE_RECEIVER: before_receiver,
    }


def _iterate_counts_by_observer_and_interface(
    counters: PathCounters,
) -> Iterator[tuple[str, str, Mapping[str, int]]]:
    """Yield observer, interface name and counts of each watched interface."""
    for observer, by_interface in counters.get("interfaces", {}).items():
        for name, counts in by_interface.items():
            yield observer, name, counts


def _packet_and_drop_counts(interface: Mapping[str, Any]) -> dict[str, int]:
    counts = {name: int(interface.get(name, 0)) for name in _PACKET_AND_DROP_COUNTERS}
    return {**counts, "queue_drops": int((interface.get("qdisc") or {}).get("drops", 0))}


def _list_or_empty(value: object) -> Sequence[Mapping[str, Any]]:
    return value if isinstance(value, list) else []
