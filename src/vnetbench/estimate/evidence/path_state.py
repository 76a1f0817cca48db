"""Evidence of the path's state: rules, captures, filters, failing links and other programs.

The agent reads this state at the start and the end of a trial, so these metrics cover the whole trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    percent,
    ratio,
    sum_known_values,
    to_number,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.other_programs import list_other_programs, programs_interval_s
from vnetbench.estimate.evidence.shapers import endpoints_on_path, path_interfaces_or_none_for_all, path_state
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.quantity import CPU_SUM_UNIT
from vnetbench.results.records import HOST, EndpointRecord, mapping_or_empty

_WORST_NAMESPACE = "of the network namespace on the path with the most"

PATH_STATE_EVIDENCE_METRICS = (
    EvidenceMetric(
        "netfilter_rules",
        "1",
        "firewall rules",
        f"number of nftables and iptables rules, {_WORST_NAMESPACE}",
        ("path_state.netfilter_rules",),
    ),
    EvidenceMetric(
        "conntrack_entries",
        "1",
        "tracked connections",
        f"number of connections that conntrack follows, {_WORST_NAMESPACE}",
        ("path_state.conntrack_entries",),
    ),
    EvidenceMetric(
        "foreign_packet_sockets",
        "1",
        "packet captures",
        "number of packet sockets of other programs, without those of the testbed's virtual switch, "
        f"{_WORST_NAMESPACE}",
        ("path_state.packet_sockets",),
    ),
    EvidenceMetric(
        "tc_filters",
        "1",
        "traffic control filters",
        f"number of filters of traffic control, {_WORST_NAMESPACE}",
        ("path_state.tc_filters",),
    ),
    EvidenceMetric(
        "foreign_xdp_programs",
        "1",
        "interfaces with a foreign XDP program",
        f"number of interfaces with an XDP program that is not the agent's, {_WORST_NAMESPACE}",
        ("path_state.xdp_programs",),
    ),
    EvidenceMetric(
        "policer_drops_per_s",
        "1/s",
        "packets dropped by policers",
        "packets per second that filters of traffic control drop, sum of all network namespaces on the path",
        ("path_state.policer_drops",),
    ),
    EvidenceMetric(
        "carrier_changes",
        "1",
        "link changes",
        "number of times that a link failed or returned, of the interface on the path with the most",
        ("interfaces[].carrier_changes", "carrier_changes"),
    ),
)
PROGRAM_EVIDENCE_METRICS = (
    EvidenceMetric(
        "busiest_program_percent",
        CPU_SUM_UNIT,
        "busiest other program",
        "CPU time of the busiest other program, 100 % = one full CPU, at most 100 % for each of its threads. "
        "Threads of the kernel are no programs",
        ("processes[].cpu_s", "processes[].threads", "processes_interval_s"),
    ),
)


def path_state_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of PATH_STATE_EVIDENCE_METRICS and PROGRAM_EVIDENCE_METRICS."""
    part = data.steady_part
    endpoints = endpoints_on_path(part)
    states = [path_state(each) for each in endpoints]
    trial_s = part.trial.idle_s + part.trial.duration_s

    def worst(key: str) -> float | None:
        return largest(to_number(state.get(key)) for state in states)

    policer_drops = sum_known_values(*(to_number(state.get("policer_drops")) for state in states))
    return {
        "netfilter_rules": worst("netfilter_rules"),
        "conntrack_entries": worst("conntrack_entries"),
        "foreign_packet_sockets": largest(
            _foreign_packet_sockets(data, endpoint, state)
            for endpoint, state in zip(endpoints, states, strict=True)
        ),
        "tc_filters": worst("tc_filters"),
        "foreign_xdp_programs": worst("xdp_programs"),
        "policer_drops_per_s": ratio(policer_drops, trial_s),
        "carrier_changes": largest(_carrier_changes(endpoints)),
        "busiest_program_percent": _busiest_other_program_cpu_percent(data),
    }


def _foreign_packet_sockets(
    data: TrialData, endpoint: EndpointRecord, state: Mapping[str, Any]
) -> float | None:
    """Return the packet sockets at a hop that are on the path and that the virtual switch does not use."""
    count = to_number(state.get("packet_sockets"))
    own = data.switch_packet_sockets if endpoint.name == HOST else 0
    elsewhere = _count_packet_sockets_off_path(data, endpoint, state)
    return None if count is None else max(0.0, count - own - elsewhere)


def _count_packet_sockets_off_path(
    data: TrialData, endpoint: EndpointRecord, state: Mapping[str, Any]
) -> float:
    """Return the packet sockets that get only packets of interfaces which are not on the path."""
    on_path = path_interfaces_or_none_for_all(data, endpoint)
    if on_path is None:
        return 0.0
    others = (each for each in _list_of_mappings(state.get("interfaces")) if each.get("name") not in on_path)
    return sum(to_number(each.get("packet_sockets")) or 0.0 for each in others)


def path_state_location_by_metric(data: TrialData) -> dict[str, str]:
    """Return the hop with the most of each of these metrics, where there is any."""
    locations = {}
    endpoints = endpoints_on_path(data.steady_part)
    for metric in ("foreign_packet_sockets", "tc_filters", "netfilter_rules"):
        counts = [(_count_at_hop(data, each, metric) or 0.0, each.name) for each in endpoints]
        most, name = max(counts, default=(0.0, ""))
        if most:
            locations[metric] = name
    return locations


def _count_at_hop(data: TrialData, endpoint: EndpointRecord, metric: str) -> float | None:
    state = path_state(endpoint)
    if metric == "foreign_packet_sockets":
        return _foreign_packet_sockets(data, endpoint, state)
    return to_number(state.get(metric))


def _carrier_changes(endpoints: Sequence[EndpointRecord]) -> Iterator[float | None]:
    for endpoint in endpoints:
        yield to_number(mapping_or_empty(endpoint.totals.get("counters")).get("carrier_changes"))
        for interface in _list_of_mappings(endpoint.totals.get("interfaces")):
            yield to_number(interface.get("carrier_changes"))


def _busiest_other_program_cpu_percent(data: TrialData) -> float | None:
    """Return the busiest program's use of CPUs on the kernels that carry the load; 0 without any program."""
    trial = data.steady_part.trial
    kernels = {kernel.endpoint_or_host: kernel for kernel in data.kernels}
    uses: list[float | None] = []
    for endpoint in trial.endpoints:
        kernel = kernels.get(endpoint.name)
        programs = (
            None if kernel is None else list_other_programs(endpoint, has_shared_kernel=kernel.is_shared)
        )
        if programs is not None:
            interval_s = programs_interval_s(trial, endpoint)
            uses += [0.0, *(_other_program_cpu_percent(program, interval_s) for program in programs)]
    return largest(uses)


def _other_program_cpu_percent(program: Mapping[str, Any], interval_s: float) -> float | None:
    use = percent(to_number(program.get("cpu_s")), interval_s)
    threads = to_number(program.get("threads"))
    return use if use is None or not threads else min(use, 100 * threads)


def _list_of_mappings(value: object) -> list[Mapping[str, Any]]:
    return [mapping_or_empty(each) for each in value] if isinstance(value, list) else []
