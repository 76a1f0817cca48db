"""An agent that takes part in a trial, and the events and samples that it sends."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.agents.messages import check_trial_end
from vnetbench.agents.sample_lines import SAMPLE_METHOD
from vnetbench.agents.transport import parse_message_or_none
from vnetbench.failure_kinds import AGENT_GONE
from vnetbench.printable import make_printable
from vnetbench.results.agent_events import parse_histogram, parse_observation, parse_stream_sample
from vnetbench.results.records import HISTOGRAM_KINDS, OBSERVE, EndpointRecord, Sample
from vnetbench.results.validation import VALUE_ERRORS, check_endpoint

CAUSE_RANK_BY_FAULT_KIND = {"interface": 1, "connection": 1, "server": 1, "stream": 2}
"""Ranks of the agents' faults, by `fault_kind` (docs/protocol.md, "trial.end").

A broken stream ranks last, because streams also break when the other endpoint ends the trial.
"""


@dataclass(frozen=True)
class EndpointFault:
    """A fault of one endpoint. The fault with the lowest rank is closest to the cause."""

    cause_rank: int
    message: str
    kind: str
    """A `fault_kind` of the protocol, or that the agent itself is gone."""


@dataclass
class TrialEndpoint:
    """An agent that takes part in a trial, and the data that it has reported so far."""

    agent: AgentClient
    role: str
    stores_cpu_samples: bool = False
    """Whether its CPU samples are stored: no other agent reports the CPUs of its kernel."""
    has_clock_of_bench: bool = True
    """Whether its kernel is the bench's, so that times of CLOCK_MONOTONIC mean the same in both."""
    samples: list[Sample] = field(default_factory=list)
    totals: dict[str, Any] | None = None
    fault: EndpointFault | None = None

    @property
    def is_over(self) -> bool:
        """Whether the agent will send no more events of this trial."""
        return self.totals is not None or (self.fault is not None and self.fault.cause_rank < 2)

    def process_queued_events(self, trial: str, wait_s: float = 0.0) -> None:
        """Process the events that are queued now. If there are none, wait up to `wait_s` for one.

        Later ones wait for the next call, so that an agent that sends without end cannot keep the caller.
        """
        events = self.agent.events
        with suppress(queue.Empty):
            self._process_event(trial, *events.get(wait_s > 0, wait_s or None))
            for _ in range(events.qsize()):
                if self.is_over:
                    return
                self._process_event(trial, *events.get_nowait())

    def decode_samples(self, trial: str) -> None:
        """Decode the samples that the agent has sent. Call it after the load, which then has the CPU time.

        A sample that the results file could not keep is a fault. Those before it are kept.
        """
        try:
            lines = self.agent.sample_lines.take()
        except ValueError as error:
            self._set_sample_fault(error)
            return
        samples: list[Sample] = []
        try:
            for line in lines:
                params = parse_message_or_none(line)["params"]
                if params.get("trial") == trial:
                    stores_cpu = self.stores_cpu_samples or self.role == OBSERVE
                    samples.append(_parse_sample(params, stores_cpu=stores_cpu))
        except VALUE_ERRORS as error:
            self._set_sample_fault(error)
        try:
            self._check_samples(*samples)  # All at once takes a fraction of the time of each.
            self.samples += samples
        except VALUE_ERRORS:
            self._keep_valid_samples(samples)

    def _keep_valid_samples(self, samples: Sequence[Sample]) -> None:
        """Keep the samples before the first malformed one, which is a fault."""
        for sample in samples:
            try:
                self._check_samples(sample)
            except VALUE_ERRORS as error:
                self._set_sample_fault(error)
                return
            self.samples.append(sample)

    def _check_samples(self, *samples: Sample) -> None:
        check_endpoint(EndpointRecord(self.agent.endpoint, self.role, {}, samples))

    def _set_sample_fault(self, error: Exception) -> None:
        if self.fault is None:
            self._set_protocol_fault(SAMPLE_METHOD, error)

    def _process_event(self, trial: str, method: str, params: Mapping[str, Any]) -> None:
        if method == "agent.gone":
            self.fault = EndpointFault(0, f"{self.agent.endpoint}: {params['reason']}", AGENT_GONE)
        elif method == "trial.end" and params.get("trial") == trial:
            try:
                self._process_trial_end(params)
            except VALUE_ERRORS as error:
                self._set_protocol_fault(method, error)

    def _set_protocol_fault(self, method: str, error: Exception) -> None:
        what = f"its agent sent a {method} that does not follow the protocol ({error!r:.200})"
        self.fault = EndpointFault(1, make_printable(f"{self.agent.endpoint}: {what}"), "")

    def _process_trial_end(self, params: Mapping[str, Any]) -> None:
        """Keep the totals; raises one of VALUE_ERRORS if the results file could not keep them."""
        check_trial_end(params)
        name = self.agent.endpoint
        totals = {k: v for k, v in params.items() if k != "trial"}
        check_endpoint(EndpointRecord(name, self.role, totals, ()))
        self.totals = totals
        if params.get("reason") == "fault":
            kind = params["fault_kind"]
            text = make_printable(str(params["fault"]), keep="\n")
            self.fault = EndpointFault(CAUSE_RANK_BY_FAULT_KIND[kind], f"{name}: {text}", kind)


def _parse_sample(params: Mapping[str, Any], *, stores_cpu: bool) -> Sample:
    return Sample(
        seq=int(params["seq"]),
        end_s=float(params["t_s"]),
        interval_s=float(params["interval_s"]),
        bytes_sent=int(params["bytes_sent"]),
        bytes_received=int(params["bytes_received"]),
        counters=params["counters"],
        # Endpoints that share the host's kernel and CPUs have the observer's CPU samples.
        cpu=tuple(params["cpu"]) if stores_cpu else (),
        streams=tuple(parse_stream_sample(s) for s in params["streams"]),
        histograms={
            kind: parse_histogram(params[kind]["buckets"]) for kind in HISTOGRAM_KINDS if kind in params
        },
        observation=parse_observation(params),
    )
