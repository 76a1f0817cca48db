"""Level rules of the load: transports, rates, streams and threads that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.cpu_lists import format_cpu_list, parse_cpu_list
from vnetbench.study.factors.directions import MAX_ENDPOINT_STREAMS
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.guest_factors import GUEST_ROLE
from vnetbench.study.factors.load_factors import (
    BATCH_SEND_MODES,
    BIT_RATE,
    CONNECTIONS,
    DATAGRAM_PACING,
    DIRECTION,
    IP_FRAGMENTATION,
    MESSAGES_PER_SEND_CALL,
    PACING_RATE,
    REQUEST_OR_DATAGRAM_RATE,
    SEND_MODE,
    SOCKET_BUFFER,
    SOURCE_PORTS,
    STREAMS,
    THREAD_CPUS,
    THREADS,
    TRANSPORT,
    UDP_GSO,
    VSOCK,
    WAITING,
    ZERO_COPY_SEND_MODES,
)
from vnetbench.study.factors.port_ranges import parse_port_range
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.factors.testbed_factors import VM_CPUS
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import (
    EXCLUDE_FIX,
    LevelPredicate,
    LevelRule,
    TreatmentLevels,
    match_levels,
)
from vnetbench.study.workloads import WORKLOADS


def format_thread_cpus_outside_vm(levels: TreatmentLevels) -> str:
    """Return the CPUs that `thread_cpus` names and `cpus` does not, if both are lists; empty for none."""
    threads, vms = (str(factor.read_level(levels)) for factor in (THREAD_CPUS, VM_CPUS))
    if not threads[0].isdigit() or not vms[0].isdigit() or vms.endswith("each"):
        return ""
    missing: set[int] = set()
    for endpoint in (0, -1):
        thread_cpus = parse_cpu_list(threads.split("/")[endpoint])
        missing |= set(thread_cpus) - set(parse_cpu_list(vms.split("/")[endpoint]))
    return format_cpu_list(missing)


def _vsock_with_factor_predicate(factor: Factor) -> LevelPredicate:
    return lambda levels, _: TRANSPORT.is_at(levels, VSOCK) and factor.has_non_default_level(levels)


def _gso_with_rate_predicate(rate: Factor) -> LevelPredicate:
    return lambda levels, _: UDP_GSO.is_at(levels, "on") and rate.has_non_default_level(levels)


def _has_idle_threads(levels: TreatmentLevels, _: Study) -> bool:
    return THREADS.has_non_default_level(levels) and int(levels[THREADS.name]) > sum(
        count_streams_per_direction(levels)
    )


def _has_too_many_mixed_connections(levels: TreatmentLevels, _: Study) -> bool:
    """Return whether the connections of `mixed` are too many; another rule reports too many transfers."""
    if not STREAMS.is_present_in(levels) or not CONNECTIONS.is_present_in(levels):
        return False
    transfers = sum(count_streams_per_direction(levels))
    return transfers <= MAX_ENDPOINT_STREAMS < transfers + int(levels[CONNECTIONS.name])


def count_needed_source_ports(levels: TreatmentLevels, workload_name: str) -> int:
    """Return how many source ports an endpoint of a pair needs: the endpoint that needs most of them."""
    forward, reverse = count_streams_per_direction(levels)
    workload = WORKLOADS[workload_name]
    if workload.has_datagrams:
        return max(forward, reverse)
    requests = int(CONNECTIONS.read_level(levels)) if workload.has_requests_and_transfers else 0
    return requests + forward + reverse


def _has_too_few_source_ports(levels: TreatmentLevels, study: Study) -> bool:
    if not SOURCE_PORTS.is_present_in(levels):
        return False
    ports = parse_port_range(levels[SOURCE_PORTS.name])
    return ports is not None and len(ports) < count_needed_source_ports(levels, study.workload)


LOAD_RULES = (
    LevelRule(
        WAITING,
        lambda levels, _: (
            WAITING.is_at(levels, "busy_poll") and REQUEST_OR_DATAGRAM_RATE.has_non_default_level(levels)
        ),
        "waiting = busy_poll cannot be combined with a rate: "
        "no request can leave while the kernel polls for responses",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    LevelRule(
        WAITING,
        match_levels((WAITING, "busy_poll"), (TRANSPORT, "mptcp")),
        "waiting = busy_poll is not possible with transport = mptcp: Linux does not poll for MPTCP sockets",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    LevelRule(
        PACING_RATE,
        lambda levels, _: TRANSPORT.is_at(levels, "mptcp") and PACING_RATE.has_non_default_level(levels),
        "pacing_rate is not possible with transport = mptcp: Linux has no SO_MAX_PACING_RATE for MPTCP "
        "sockets",
        f'{EXCLUDE_FIX}, or write "none"',
    ),
    LevelRule(
        SEND_MODE,
        lambda levels, _: TRANSPORT.is_at(levels, "mptcp") and SEND_MODE.is_at(levels, *ZERO_COPY_SEND_MODES),
        "send_mode = {send_mode} is not possible with transport = mptcp: "
        "Linux has no zero-copy send for MPTCP sockets",
        f'{EXCLUDE_FIX}, or write "copy"',
    ),
    LevelRule(
        TRANSPORT,
        lambda levels, _: TRANSPORT.is_at(levels, VSOCK) and not GUEST_ROLE.is_at(levels, "guest-to-host"),
        "transport = vsock works only between a guest and its host",
        f'use the lab "qemu" with role = "guest-to-host", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        TRANSPORT,
        lambda levels, study: (
            TRANSPORT.is_at(levels, VSOCK) and WORKLOADS[study.workload].has_connection_per_request
        ),
        "transport = vsock is not possible with {workload}, which measures connections over TCP only",
        "use the workload tcp_stream or tcp_rr",
    ),
    LevelRule(
        TRANSPORT,
        lambda levels, _: TRANSPORT.is_at(levels, VSOCK) and WAITING.is_at(levels, "busy_poll"),
        "waiting = busy_poll is not possible with transport = vsock, which has no adapter to poll",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    *(
        LevelRule(
            factor,
            _vsock_with_factor_predicate(factor),
            f"{factor.name} is not possible with transport = vsock, because VSOCK does not support this "
            "factor",
            f'{EXCLUDE_FIX}, or write "{factor.default}"',
        )
        for factor in (SOCKET_BUFFER, SOURCE_PORTS, PACING_RATE)
    ),
    LevelRule(
        MESSAGES_PER_SEND_CALL,
        lambda levels, _: (
            MESSAGES_PER_SEND_CALL.has_non_default_level(levels)
            and levels.get(SEND_MODE.name, BATCH_SEND_MODES[0]) not in BATCH_SEND_MODES
        ),
        "send_batch above 1 is not possible with send_mode = {send_mode}: one call sends one message",
        f"{EXCLUDE_FIX}, or use {' or '.join(BATCH_SEND_MODES)}",
    ),
    LevelRule(
        BIT_RATE,
        lambda levels, _: (
            BIT_RATE.has_non_default_level(levels) and REQUEST_OR_DATAGRAM_RATE.has_non_default_level(levels)
        ),
        "bit_rate cannot be combined with rate: both set how often a stream sends a datagram",
        f"use rate or bit_rate, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            UDP_GSO,
            _gso_with_rate_predicate(rate),
            f"udp_gso = on cannot be combined with {rate.name}: "
            "segmentation sends many datagrams at once, but a rate sends datagrams one by one",
            f'{EXCLUDE_FIX}, or write udp_gso = "off"',
        )
        for rate in (REQUEST_OR_DATAGRAM_RATE, BIT_RATE)
    ),
    LevelRule(
        IP_FRAGMENTATION,
        match_levels((IP_FRAGMENTATION, "on"), (UDP_GSO, "on")),
        "fragments = on is not possible with udp_gso = on: the kernel does not fragment segmented datagrams",
    ),
    LevelRule(
        DIRECTION,
        lambda levels, _: sum(count_streams_per_direction(levels)) > MAX_ENDPOINT_STREAMS,
        "{forward} forward and {reverse} reverse streams are too many for one VM",
        f"use at most {MAX_ENDPOINT_STREAMS} streams, both directions together",
    ),
    LevelRule(
        CONNECTIONS,
        _has_too_many_mixed_connections,
        "{connections} connections with {forward} forward and {reverse} reverse transfers are too many for "
        "one VM",
        f"use at most {MAX_ENDPOINT_STREAMS} connections and transfers together",
    ),
    LevelRule(
        SOURCE_PORTS,
        _has_too_few_source_ports,
        "source_ports = {source_ports} has too few ports: an endpoint needs {needed_source_ports}, one for "
        "each stream",
        f"name at least {{needed_source_ports}} ports, use fewer streams, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        DATAGRAM_PACING,
        lambda levels, _: (
            DATAGRAM_PACING.has_non_default_level(levels)
            and not any(rate.has_non_default_level(levels) for rate in (REQUEST_OR_DATAGRAM_RATE, BIT_RATE))
        ),
        "pacing = {pacing} needs a rate: at full speed, sources do not wait",
        f"add a {REQUEST_OR_DATAGRAM_RATE.name} or a {BIT_RATE.name}, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        THREADS,
        _has_idle_threads,
        "threads = {threads} is more than the number of streams: some threads would have none",
        f'{EXCLUDE_FIX}, or write "auto"',
    ),
    LevelRule(
        THREAD_CPUS,
        lambda levels, _: bool(format_thread_cpus_outside_vm(levels)),
        "thread_cpus = {thread_cpus} names CPU {missing_cpus}, which cpus = {cpus} does not give to the VM",
        f"{EXCLUDE_FIX}, or name CPUs that the VM has",
    ),
)
