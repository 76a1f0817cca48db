"""Levels that cannot be together in one treatment on any machine: one rule for each kind of contradiction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from vnetbench.study.factors import adapter_limits
from vnetbench.study.factors.cpu_lists import format_cpu_list, parse_cpu_list
from vnetbench.study.factors.directions import MAX_ENDPOINT_STREAMS, streams_per_direction
from vnetbench.study.factors.load_factors import BATCH_SEND_MODES, VSOCK, ZERO_COPY_SEND_MODES
from vnetbench.study.factors.registry import complete_levels, format_level
from vnetbench.study.factors.testbed_factors import LINK_IMPAIRMENTS, MIN_IPV6_MTU, NO_IMPAIRMENT
from vnetbench.study.model import Level, Study
from vnetbench.study.problems import Problem, StudyLocation, WrongValue
from vnetbench.study.rules.frame_rules import FRAME_RULES, frame_words
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelRule, TreatmentLevels
from vnetbench.study.workloads import RATE_FACTORS, TCP_CRR


def find_contradictions(
    study: Study, treatments: Iterable[TreatmentLevels], place: Callable[..., StudyLocation]
) -> Iterator[Problem]:
    """Each kind of contradiction among the treatments once, by the first treatment that has it."""
    open_rules = list(_RULES)
    for treatment in treatments:
        levels = complete_levels(treatment, study.workload, study.testbed.backend)
        for rule in [rule for rule in open_rules if rule.is_broken(levels, study)]:
            open_rules.remove(rule)
            spelled = {name: format_level(name, level) for name, level in levels.items()}
            forward, reverse = map(str, streams_per_direction(levels))
            spelled |= {"shaper": study.testbed.shaper, "missing": _cpus_of_others(levels),
                        "forward": forward, "reverse": reverse, "workload": study.workload,
                        **_of_adapter(levels), **frame_words(levels)}  # fmt: skip
            wrong = WrongValue(rule.what.format_map(spelled), fix=rule.fix.format_map(spelled))
            yield place("factors", rule.factor).make_problem(wrong)


def _are(**wanted: Level) -> Callable[[TreatmentLevels, Study], bool]:
    """Whether all these factors have these levels."""
    return lambda levels, _: all(levels.get(name) == level for name, level in wanted.items())


def _has(levels: TreatmentLevels, name: str, without: Level = "none") -> bool:
    """Whether the factor has another level than the one that leaves it out."""
    return levels.get(name, without) != without


def _is_vsock_with(factor: str, without: Level) -> Callable[[TreatmentLevels, Study], bool]:
    return lambda levels, _: levels.get("transport") == VSOCK and _has(levels, factor, without)


def _has_too_long_a(ring: str) -> Callable[[TreatmentLevels, Study], bool]:
    return lambda levels, _: adapter_limits.is_ring_out_of_range(levels, ring)


def _is_gso_with(rate: str) -> Callable[[TreatmentLevels, Study], bool]:
    return lambda levels, _: levels.get("udp_gso") == "on" and _has(levels, rate)


def _too_many_threads(levels: TreatmentLevels, _: Study) -> bool:
    return _has(levels, "threads", "auto") and int(levels["threads"]) > sum(streams_per_direction(levels))


def _too_many_beside(levels: TreatmentLevels, _: Study) -> bool:
    """Of `mixed`, whose connections are streams too; where the transfers alone are too many is told apart."""
    if "streams" not in levels or "connections" not in levels:
        return False
    transfers = sum(streams_per_direction(levels))
    return transfers <= MAX_ENDPOINT_STREAMS < transfers + int(levels["connections"])


def _cpus_of_others(levels: TreatmentLevels) -> str:
    """The CPUs that `thread_cpus` names and `cpus` does not, where both are lists; empty for none."""
    threads, vms = (str(levels.get(name, "any")) for name in ("thread_cpus", "cpus"))
    if not threads[0].isdigit() or not vms[0].isdigit() or vms.endswith("each"):
        return ""
    missing: set[int] = set()
    for side in (0, -1):
        missing |= set(parse_cpu_list(threads.split("/")[side])) - set(parse_cpu_list(vms.split("/")[side]))
    return format_cpu_list(missing)


def _exceeds(factor: str) -> Callable[[TreatmentLevels, Study], bool]:
    """Whether the adapter cannot have so much of it."""

    def exceeds(levels: TreatmentLevels, _: Study) -> bool:
        limits = adapter_limits.find_adapter_limits(levels)
        return limits is not None and factor in levels and int(levels[factor]) > getattr(limits, factor)

    return exceeds


def _has_not(factor: str, without: Level) -> Callable[[TreatmentLevels, Study], bool]:
    """Whether the adapter has no such thing, and is asked for another level than `without`."""

    def has_not(levels: TreatmentLevels, _: Study) -> bool:
        limits = adapter_limits.find_adapter_limits(levels)
        return limits is not None and _has(levels, factor, without) and not getattr(limits, factor)

    return has_not


def _of_adapter(levels: TreatmentLevels) -> dict[str, str]:
    """What its rules say of the adapter's limits."""
    limits = adapter_limits.find_adapter_limits(levels)
    if limits is None:
        return {}
    rings = {f"{name}s": "{} to {}".format(*getattr(limits, name)) for name in ("rx_ring", "tx_ring")}
    most = {"most_mtu": str(limits.mtu), "most_queues": str(limits.queues)}
    return {**rings, **most, "own_queues": str(adapter_limits.vmxnet3_queues(levels))}


def _has_not_the_cpus(levels: TreatmentLevels, _: Study) -> bool:
    """Whether `irq_pin` names CPUs that a guest lacks."""
    named = str(levels.get("irq_pin", "spread"))
    return "vcpus" in levels and named != "spread" and max(parse_cpu_list(named)) >= int(levels["vcpus"])


_SWITCHED_BY_OTHERS = ("macvtap", "vf")
"""Adapters that are not ports of a bridge."""


def _impairs_without_a_switch(impairment: str) -> Callable[[TreatmentLevels, Study], bool]:
    return lambda levels, _: (
        levels.get(impairment, NO_IMPAIRMENT) not in (NO_IMPAIRMENT, 0)
        and (levels.get("adapter") in _SWITCHED_BY_OTHERS or levels.get("role") in ("router", "bridge"))
    )


def _jitters_more_than_it_delays(levels: TreatmentLevels, _: Study) -> bool:
    delay, jitter = (levels.get(name, NO_IMPAIRMENT) for name in ("link_delay", "link_jitter"))
    return jitter != NO_IMPAIRMENT and (delay == NO_IMPAIRMENT or float(jitter) > float(delay))


_RULES = (
    *FRAME_RULES,
    LevelRule(
        "mtu",
        _exceeds("mtu"),
        "mtu = {mtu} with adapter = {adapter}: its driver takes {most_mtu} at most",
    ),
    LevelRule(
        "queues",
        _exceeds("queues"),
        "queues = {queues} with adapter = {adapter}: its driver has {most_queues} at most",
        f'{EXCLUDE_FIX}, or take "virtio-net"',
    ),
    LevelRule(
        "queues",
        lambda levels, _: (
            levels.get("adapter") == "vmxnet3"
            and int(levels.get("queues", 0)) not in (0, adapter_limits.vmxnet3_queues(levels))
        ),
        "queues = {queues} with adapter = vmxnet3 and vcpus = {vcpus}: its driver has one for each vCPU, "
        "{own_queues} here",
        f"{EXCLUDE_FIX}, or give the guests as many vCPUs",
    ),
    *(
        LevelRule(
            ring,
            _has_too_long_a(ring),
            f"{ring} = {{{ring}}} with adapter = {{adapter}}: it takes {{{ring}s}}",
        )
        for ring in ("rx_ring", "tx_ring")
    ),
    LevelRule(
        "lro",
        _has_not("lro", "off"),
        "lro = on with adapter = {adapter}: it has no LRO",
    ),
    LevelRule(
        "coalesce",
        _has_not("coalesce", "none"),
        "coalesce with adapter = {adapter}: when it interrupts cannot be set",
    ),
    LevelRule(
        "irq_pin",
        _has_not_the_cpus,
        "irq_pin = {irq_pin} with vcpus = {vcpus}: a guest's CPUs are counted from 0",
        f"{EXCLUDE_FIX}, or name CPUs that the guests have",
    ),
    LevelRule(
        "emulator_pin",
        lambda levels, _: (
            levels.get("emulator_pin") in ("own", "apart") and not _has(levels, "vcpu_pin", "any")
        ),
        "emulator_pin = {emulator_pin} without a vcpu_pin: vCPUs run everywhere then",
        f'name a vcpu_pin ("spread"), or {EXCLUDE_FIX}',
    ),
    LevelRule(
        "role",
        lambda levels, study: study.testbed.uplink and levels.get("role") in ("router", "bridge"),
        "role = {role} with testbed.uplink: the guest stands where the uplink would",
        "take testbed.uplink away",
    ),
    LevelRule(
        "adapter",
        lambda levels, study: (
            levels.get("adapter") in _SWITCHED_BY_OTHERS
            and (study.testbed.uplink or levels.get("role") != "guest-to-guest")
        ),
        "adapter = {adapter} is no port of a vSwitch: its only role is guest-to-guest, and it has no uplink",
        f"{EXCLUDE_FIX}, or take testbed.uplink away",
    ),
    LevelRule(
        "adapter",
        lambda levels, study: levels.get("adapter") == "vf" and study.testbed.vf_of is None,
        "adapter = vf, and no adapter of this machine is named that has virtual functions",
        'write vf_of = "ens1f0" under [testbed]',
    ),
    LevelRule(
        "vswitch",
        lambda levels, study: study.testbed.uplink and levels.get("vswitch") in ("direct", "router"),
        "vswitch = {vswitch} has no vSwitch that could have an uplink",
        'take the level "{vswitch}" away, or testbed.uplink',
    ),
    *(
        LevelRule(
            "vswitch",
            _are(**{"vswitch": "openvswitch", offload: "on"}),
            f"{offload} = on with vswitch = openvswitch: its userspace datapath takes whole packets only",
            f'{EXCLUDE_FIX}, or take {offload} = "off"',
        )
        for offload in ("checksum_offload", "tso", "uso")
    ),
    LevelRule(
        "device_cpus",
        lambda levels, _: (
            levels.get("device_cpus", "auto") not in ("auto", "any")
            and levels.get("vswitch") in ("direct", "macvlan")
        ),
        "device_cpus = {device_cpus} with vswitch = {vswitch}: its work is done on the CPU that sends",
        f'{EXCLUDE_FIX}, or take "auto"',
    ),
    LevelRule(
        "vswitch",
        lambda levels, study: study.testbed.vswitch_mtu is not None and levels.get("vswitch") == "direct",
        "VMs joined by a direct link have no vSwitch, so no MTU of it",
        'take the level "direct" away, or testbed.vswitch_mtu',
    ),
    LevelRule(
        "link_queue",
        lambda levels, _: _has(levels, "link_queue", "auto") and not _has(levels, "link_rate"),
        "link_queue without a link_rate: nothing waits before a link that is not shaped",
        f"name a link_rate, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "link_queue",
        lambda levels, study: (
            not isinstance(levels.get("link_queue", "auto"), str)
            and _has(levels, "link_rate")
            and study.testbed.shaper != "tbf"
        ),
        "a link_queue of a duration with the shaper {shaper}: its own counts packets",
        'take the shaper "tbf"',
    ),
    LevelRule(
        "link_jitter",
        _jitters_more_than_it_delays,
        "link_jitter = {link_jitter} is more than the link_delay: no packet leaves before it came",
        f"name a link_delay that is no less, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            impairment,
            _impairs_without_a_switch(impairment),
            f"{impairment}: with this adapter and role there is no link between switches that could have it",
            f"take role = guest-to-guest and an adapter on a vSwitch, or {EXCLUDE_FIX}",
        )
        for impairment in LINK_IMPAIRMENTS
    ),
    LevelRule(
        "waiting",
        lambda levels, _: levels.get("waiting") == "busy_poll" and _has(levels, "rate"),
        "waiting = busy_poll with a rate: while the kernel waits for answers nothing can be asked",
        f'{EXCLUDE_FIX}, or take "spin"',
    ),
    LevelRule(
        "waiting",
        _are(waiting="busy_poll", transport="mptcp"),
        "waiting = busy_poll with transport = mptcp: Linux does not poll for MPTCP sockets",
        f'{EXCLUDE_FIX}, or take "spin"',
    ),
    LevelRule(
        "pacing_rate",
        lambda levels, _: levels.get("transport") == "mptcp" and _has(levels, "pacing_rate"),
        "pacing_rate with transport = mptcp: Linux has no SO_MAX_PACING_RATE of MPTCP sockets",
        f'{EXCLUDE_FIX}, or take "none"',
    ),
    LevelRule(
        "send_mode",
        lambda levels, _: (
            levels.get("transport") == "mptcp" and levels.get("send_mode") in ZERO_COPY_SEND_MODES
        ),
        "send_mode = {send_mode} with transport = mptcp: Linux lends no memory to MPTCP sockets",
        f'{EXCLUDE_FIX}, or take "copy"',
    ),
    LevelRule(
        "transport",
        lambda levels, _: levels.get("transport") == VSOCK and levels.get("role") != "guest-to-host",
        "transport = vsock leads from a guest to its host, and nowhere else",
        f'take the lab "qemu" with role = "guest-to-host", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        "transport",
        lambda levels, study: levels.get("transport") == VSOCK and study.workload == TCP_CRR,
        "transport = vsock with tcp_crr: connections are counted over TCP only",
        "take tcp_stream or tcp_rr",
    ),
    LevelRule(
        "transport",
        lambda levels, _: levels.get("transport") == VSOCK and levels.get("waiting") == "busy_poll",
        "waiting = busy_poll with transport = vsock: there is no adapter to poll",
        f'{EXCLUDE_FIX}, or take "spin"',
    ),
    *(
        LevelRule(
            factor,
            _is_vsock_with(factor, without),
            f"{factor} with transport = vsock: VSOCK has no such thing",
            f'{EXCLUDE_FIX}, or take "{without}"',
        )
        for factor, without in (("socket_buffer", "auto"), ("pacing_rate", "none"))
    ),
    LevelRule(
        "send_batch",
        lambda levels, _: (
            _has(levels, "send_batch", 1)
            and levels.get("send_mode", BATCH_SEND_MODES[0]) not in BATCH_SEND_MODES
        ),
        "send_batch above 1 with send_mode = {send_mode}: one call sends one message",
        f"{EXCLUDE_FIX}, or take {' or '.join(BATCH_SEND_MODES)}",
    ),
    LevelRule(
        "bit_rate",
        lambda levels, _: _has(levels, "bit_rate") and _has(levels, "rate"),
        "bit_rate together with rate: both say how often a datagram is sent",
        f"name one of them, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            "udp_gso",
            _is_gso_with(rate),
            f"udp_gso = on with a {rate}: it sends many datagrams at once, a rate one at a time",
            f'{EXCLUDE_FIX}, or take udp_gso = "off"',
        )
        for rate in RATE_FACTORS
    ),
    LevelRule(
        "fragments",
        _are(fragments="on", udp_gso="on"),
        "fragments = on with udp_gso = on: what the kernel cuts into datagrams it does not fragment",
    ),
    LevelRule(
        "direction",
        lambda levels, _: sum(streams_per_direction(levels)) > MAX_ENDPOINT_STREAMS,
        "{forward} streams forward and {reverse} in reverse are too many for one VM",
        f"ask for {MAX_ENDPOINT_STREAMS} both ways together at most",
    ),
    LevelRule(
        "connections",
        _too_many_beside,
        "{connections} connections beside {forward} transfers forward and {reverse} in reverse are too many "
        "for one VM",
        f"ask for {MAX_ENDPOINT_STREAMS} together at most",
    ),
    LevelRule(
        "pacing",
        lambda levels, _: (
            _has(levels, "pacing", "spin") and not any(_has(levels, rate) for rate in RATE_FACTORS)
        ),
        "pacing = {pacing} without a rate: nothing waits that is sent as fast as it goes",
        f"name a {' or a '.join(RATE_FACTORS)}, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "threads",
        _too_many_threads,
        "threads = {threads} with fewer streams: a stream is one thread's, so some would have none",
        f'{EXCLUDE_FIX}, or take "auto"',
    ),
    LevelRule(
        "thread_cpus",
        lambda levels, _: bool(_cpus_of_others(levels)),
        "thread_cpus = {thread_cpus} with cpus = {cpus}: CPU {missing} is not the VM's",
        f"{EXCLUDE_FIX}, or name CPUs that the VM has",
    ),
    LevelRule(
        "ip_version",
        lambda levels, _: (
            levels.get("ip_version") == "6" and int(levels.get("mtu", MIN_IPV6_MTU)) < MIN_IPV6_MTU
        ),
        f"ip_version = 6 with mtu = {{mtu}}: a link of less than {MIN_IPV6_MTU} has no IPv6",
        f"{EXCLUDE_FIX}, or choose an MTU of {MIN_IPV6_MTU} at least",
    ),
    LevelRule(
        "tso",
        _are(tso="on", checksum_offload="off"),
        "tso = on with checksum_offload = off: the kernel has TSO off without checksum offload",
        'leave these out: [[exclude]] tso = "on", checksum_offload = "off" (a line each)',
    ),
    LevelRule(
        "irq_cpus",
        lambda levels, _: levels.get("irq_cpus") == "apart" and not _has(levels, "cpus", "any"),
        "irq_cpus = apart with cpus = any: a VM that may use every CPU leaves none apart from it",
        f'give the VMs CPUs of their own (cpus = "1 each"), or {EXCLUDE_FIX}',
    ),
)
