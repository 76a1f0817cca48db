"""Where frames were lost between a source and its sink, by what the places on their way counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.frames import RECEIVED, SENT, search_result, stream_totals
from vnetbench.results.records import CURVE, HOST, OBSERVE, SEARCH, EndpointRecord, TrialRecord

AT_SWITCH, BEFORE_LINK, IN_BACKLOG = "at_switch", "before_link", "in_backlog"
BEFORE_RECEIVER, ELSEWHERE = "before_receiver", "elsewhere"
_UPLINK = "uplink"
"""The role of such an interface in a testbed's description (`lab/description.py`)."""
_COUNTERS = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")

_NEAR = 2.0
"""Of the steps of a search those count that lost too many at up to so many times the throughput: far beyond
it another place than the one that is the limit may lose the most."""

PathCounters = Mapping[str, Any]
"""What was counted on the way (`counted`): as JSON, so that steps can keep it."""


@dataclass(frozen=True)
class FrameLosses:
    """Frames of one run, or of several."""

    sent: int
    lost: int
    lost_at: Mapping[str, int]
    """How many of those lost, by place; together as many as were lost."""

    def percent_of_lost(self, location: str) -> float | None:
        """None where none were lost."""
        return 100 * self.lost_at[location] / self.lost if self.lost else None

    @property
    def lost_percent(self) -> float | None:
        """None where none were sent."""
        return 100 * self.lost / self.sent if self.sent else None


def locate_frame_losses(trial: TrialRecord, testbed: Mapping[str, Any]) -> FrameLosses | None:
    """Where a trial's frames were lost; with a search where those of its steps were that lost too many a
    little above the throughput, if there are such. None without frames."""
    sent, received = (
        sum(int(stream.get(kind, 0)) for side in trial.endpoints for stream in stream_totals(side.totals))
        for kind in (SENT, RECEIVED)
    )
    if not sent:
        return None
    dropped = sum(int(str(side.totals.get("sink_dropped", 0))) for side in trial.endpoints)
    run = attribute_losses(sent, received + dropped, path_counters(trial.endpoints, trial.effective), testbed)
    return add_up_losses(_of_steps(trial, testbed) or [run])


def path_counters(sides: Sequence[EndpointRecord], effective: Mapping[str, object]) -> dict[str, Any]:
    """What watched interfaces counted, by who watched them, what CPUs' backlogs had no room for, and what the
    sources' ports refused, where that is lost by the device behind them (`effective`)."""
    seen = {
        side.name: {each["name"]: _counts(each) for each in _list(side.totals.get("interfaces"))}
        for side in sides
        if side.role == OBSERVE
    }
    counters = (side.totals.get("counters") for side in sides)
    dropped = sum(int(each.get("softnet_dropped", 0)) for each in counters if isinstance(each, Mapping))
    refused = [int(x.get("refused", 0)) for side in sides for x in stream_totals(side.totals)]
    return {
        "interfaces": {name: of for name, of in seen.items() if of},
        "softnet_dropped": dropped,
        "refused": sum(refused) if effective.get("refused_frames") == "lost" else 0,
    }


def attribute_losses(sent: int, received: int, counters: PathCounters, testbed: Mapping[str, Any]) -> FrameLosses:
    """How many were lost, and where; `testbed` is what the results file tells of it.

    Frames that a place took in and neither handed on nor counted as dropped were lost in it. Where places
    counted more than were lost, packets of others among them, the first on the way count first.
    """
    left = lost = max(0, sent - received)
    at = {}
    for place, count in _by_place(counters, testbed).items():
        at[place] = min(left, max(0, count))
        left -= at[place]
    return FrameLosses(sent, lost, {**at, ELSEWHERE: left})


def add_up_losses(runs: Sequence[FrameLosses]) -> FrameLosses:
    """The frames of several runs as those of one."""
    places = {place for run in runs for place in run.lost_at}
    return FrameLosses(
        sum(run.sent for run in runs),
        sum(run.lost for run in runs),
        {place: sum(run.lost_at.get(place, 0) for run in runs) for place in places},
    )


def _of_steps(trial: TrialRecord, testbed: Mapping[str, Any]) -> list[FrameLosses]:
    answers = search_result(trial).get("answers") or ()
    if not answers:
        return []
    goal, throughput_fps = float(answers[0]["goal"]), float(answers[0]["throughput_fps"])
    return [
        attribute_losses(step.sent, step.received, on_the_way, testbed)
        for step in trial.steps
        if step.purpose in (SEARCH, CURVE) and step.loss_ratio > goal
        if throughput_fps < (step.load_fps or 0.0) <= _NEAR * throughput_fps
        if isinstance(on_the_way := step.details.get("counted"), Mapping)
    ]


def _by_place(on_the_way: PathCounters, testbed: Mapping[str, Any]) -> dict[str, int]:
    told = {each["name"]: each for each in testbed.get("watched") or ()}
    ends = {each["name"] for each in testbed.get("endpoints") or ()}
    entering = before_link = before_receiver = inside = 0
    for watcher, name, counts in _interfaces(on_the_way):
        of = told.get(name, {}) if watcher == HOST else {}
        before_link += counts.get("queue_drops", 0)
        entering += counts.get("rx_dropped", 0)
        if of.get("leads_to") in ends:
            before_receiver += counts.get("tx_dropped", 0)
            inside += counts.get("rx_packets", 0) - counts.get("tx_packets", 0)
        else:
            entering += counts.get("tx_dropped", 0)
        if of.get("role") == _UPLINK:
            # What one end sends and the other does not get is lost between the switches, not in them.
            inside += counts.get("rx_packets", 0) - counts.get("tx_packets", 0)
    in_backlog = int(on_the_way.get("softnet_dropped", 0))
    inside -= before_link + before_receiver + in_backlog
    return {
        # What a backlog has no room for its interface counts too. The observer may have begun later than the
        # sources, whose own count is then the greater one.
        AT_SWITCH: max(entering - in_backlog, on_the_way.get("refused", 0)) + max(0, inside),
        BEFORE_LINK: before_link,
        IN_BACKLOG: in_backlog,
        BEFORE_RECEIVER: before_receiver,
    }


def _interfaces(on_the_way: PathCounters) -> Iterator[tuple[str, str, Mapping[str, int]]]:
    for watcher, seen in on_the_way.get("interfaces", {}).items():
        for name, counts in seen.items():
            yield watcher, name, counts


def _counts(interface: Mapping[str, Any]) -> dict[str, int]:
    found = {name: int(interface.get(name, 0)) for name in _COUNTERS}
    return {**found, "queue_drops": int((interface.get("qdisc") or {}).get("drops", 0))}


def _list(value: object) -> Sequence[Mapping[str, Any]]:
    return value if isinstance(value, list) else []
