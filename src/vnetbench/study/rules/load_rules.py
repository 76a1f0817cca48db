"""Level rules of the load: transports, rates, streams and threads that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.cpu_lists import format_cpu_list, parse_cpu_list
from vnetbench.study.factors.directions import MAX_ENDPOINT_STREAMS, streams_per_direction
from vnetbench.study.factors.load_factors import BATCH_SEND_MODES, VSOCK, ZERO_COPY_SEND_MODES
from vnetbench.study.model import Level, Study
from vnetbench.study.rules.rule import (
    EXCLUDE_FIX,
    LevelPredicate,
    LevelRule,
    TreatmentLevels,
    has_other_level,
    have_levels,
)
from vnetbench.study.workloads import RATE_FACTORS, WORKLOADS


def missing_cpus_text(levels: TreatmentLevels) -> str:
    """Return the CPUs that `thread_cpus` names and `cpus` does not, if both are lists; empty for none."""
    threads, vms = (str(levels.get(name, "any")) for name in ("thread_cpus", "cpus"))
    if not threads[0].isdigit() or not vms[0].isdigit() or vms.endswith("each"):
        return ""
    missing: set[int] = set()
    for endpoint in (0, -1):
        thread_cpus = parse_cpu_list(threads.split("/")[endpoint])
        missing |= set(thread_cpus) - set(parse_cpu_list(vms.split("/")[endpoint]))
    return format_cpu_list(missing)


def _uses_vsock_with(factor: str, neutral: Level) -> LevelPredicate:
    return lambda levels, _: levels.get("transport") == VSOCK and has_other_level(levels, factor, neutral)


def _uses_gso_with(rate: str) -> LevelPredicate:
    return lambda levels, _: levels.get("udp_gso") == "on" and has_other_level(levels, rate)


def _has_idle_threads(levels: TreatmentLevels, _: Study) -> bool:
    return has_other_level(levels, "threads", "auto") and int(levels["threads"]) > sum(
        streams_per_direction(levels)
    )


def _has_too_many_connections(levels: TreatmentLevels, _: Study) -> bool:
    """Return whether the connections of `mixed` are too many; another rule reports too many transfers."""
    if "streams" not in levels or "connections" not in levels:
        return False
    transfers = sum(streams_per_direction(levels))
    return transfers <= MAX_ENDPOINT_STREAMS < transfers + int(levels["connections"])


LOAD_RULES = (
    LevelRule(
        "waiting",
        lambda levels, _: levels.get("waiting") == "busy_poll" and has_other_level(levels, "rate"),
        "waiting = busy_poll cannot be combined with a rate: "
        "no request can leave while the kernel polls for responses",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    LevelRule(
        "waiting",
        have_levels(waiting="busy_poll", transport="mptcp"),
        "waiting = busy_poll is not possible with transport = mptcp: Linux does not poll for MPTCP sockets",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    LevelRule(
        "pacing_rate",
        lambda levels, _: levels.get("transport") == "mptcp" and has_other_level(levels, "pacing_rate"),
        "pacing_rate is not possible with transport = mptcp: Linux has no SO_MAX_PACING_RATE for MPTCP "
        "sockets",
        f'{EXCLUDE_FIX}, or write "none"',
    ),
    LevelRule(
        "send_mode",
        lambda levels, _: (
            levels.get("transport") == "mptcp" and levels.get("send_mode") in ZERO_COPY_SEND_MODES
        ),
        "send_mode = {send_mode} is not possible with transport = mptcp: "
        "Linux has no zero-copy send for MPTCP sockets",
        f'{EXCLUDE_FIX}, or write "copy"',
    ),
    LevelRule(
        "transport",
        lambda levels, _: levels.get("transport") == VSOCK and levels.get("role") != "guest-to-host",
        "transport = vsock works only between a guest and its host",
        f'use the lab "qemu" with role = "guest-to-host", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        "transport",
        lambda levels, study: (
            levels.get("transport") == VSOCK and WORKLOADS[study.workload].has_connection_per_request
        ),
        "transport = vsock is not possible with {workload}, which measures connections over TCP only",
        "use the workload tcp_stream or tcp_rr",
    ),
    LevelRule(
        "transport",
        lambda levels, _: levels.get("transport") == VSOCK and levels.get("waiting") == "busy_poll",
        "waiting = busy_poll is not possible with transport = vsock, which has no adapter to poll",
        f'{EXCLUDE_FIX}, or write "spin"',
    ),
    *(
        LevelRule(
            factor,
            _uses_vsock_with(factor, neutral),
            f"{factor} is not possible with transport = vsock: VSOCK does not support it",
            f'{EXCLUDE_FIX}, or write "{neutral}"',
        )
        for factor, neutral in (("socket_buffer", "auto"), ("pacing_rate", "none"))
    ),
    LevelRule(
        "send_batch",
        lambda levels, _: (
            has_other_level(levels, "send_batch", 1)
            and levels.get("send_mode", BATCH_SEND_MODES[0]) not in BATCH_SEND_MODES
        ),
        "send_batch above 1 is not possible with send_mode = {send_mode}: one call sends one message",
        f"{EXCLUDE_FIX}, or use {' or '.join(BATCH_SEND_MODES)}",
    ),
    LevelRule(
        "bit_rate",
        lambda levels, _: has_other_level(levels, "bit_rate") and has_other_level(levels, "rate"),
        "bit_rate cannot be combined with rate: both set how often a stream sends a datagram",
        f"use one of them, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            "udp_gso",
            _uses_gso_with(rate),
            f"udp_gso = on cannot be combined with {rate}: "
            "it sends many datagrams at once, and a rate sends them one by one",
            f'{EXCLUDE_FIX}, or write udp_gso = "off"',
        )
        for rate in RATE_FACTORS
    ),
    LevelRule(
        "fragments",
        have_levels(fragments="on", udp_gso="on"),
        "fragments = on is not possible with udp_gso = on: the kernel does not fragment segmented datagrams",
    ),
    LevelRule(
        "direction",
        lambda levels, _: sum(streams_per_direction(levels)) > MAX_ENDPOINT_STREAMS,
        "{forward} forward and {reverse} reverse streams are too many for one VM",
        f"use at most {MAX_ENDPOINT_STREAMS} streams, both directions together",
    ),
    LevelRule(
        "connections",
        _has_too_many_connections,
        "{connections} connections with {forward} forward and {reverse} reverse transfers are too many for "
        "one VM",
        f"use at most {MAX_ENDPOINT_STREAMS} connections and transfers together",
    ),
    LevelRule(
        "pacing",
        lambda levels, _: (
            has_other_level(levels, "pacing", "spin")
            and not any(has_other_level(levels, rate) for rate in RATE_FACTORS)
        ),
        "pacing = {pacing} needs a rate: at full speed, sources do not wait",
        f"add a {' or a '.join(RATE_FACTORS)}, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "threads",
        _has_idle_threads,
        "threads = {threads} is more than the number of streams: some threads would have none",
        f'{EXCLUDE_FIX}, or write "auto"',
    ),
    LevelRule(
        "thread_cpus",
        lambda levels, _: bool(missing_cpus_text(levels)),
        "thread_cpus = {thread_cpus} names CPU {missing_cpus}, which cpus = {cpus} does not give to the VM",
        f"{EXCLUDE_FIX}, or name CPUs that the VM has",
    ),
)
