"""What a lab cannot do of what a study asks: hosts that do not make a testbed, factors that it cannot set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from vnetbench.study.factors.imported_factors import UNSPECIFIED, is_label
from vnetbench.study.factors.registry import FACTORS, format_level, has_factor_on
from vnetbench.study.labs import HOSTS, IPERF3, LABS
from vnetbench.study.model import Study, TestbedSpec
from vnetbench.study.problems import Problem, StudyLocation, WrongValue
from vnetbench.study.workloads import FRAME_WORKLOADS, TCP_STREAM

BENCH_HOST_NAME = "here"
"""What the machine of the bench is called where no host is local."""
RESERVED_NAMES = ("host", "bench")
"""What else has facts in a results file."""

MAX_IPERF3_STREAMS = 128
"""Of one test each way (docs/iperf3.md)."""
MAX_IPERF3_MESSAGE_BYTES = 1 << 20
_OF_BUILT = ("uplink", "shaper", "vswitch_mtu", "vf_of")
"""The keys of testbeds that the bench builds."""

_COUNTERPARTS = {"pairs": "guests", "guests": "pairs"}
"""What stands for a factor in other labs, however unlike the words are."""

_PlaceOf = Callable[..., StudyLocation]


def check_lab(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    """The problems of a study with its lab; `place` tells where a key stands."""
    testbed = study.testbed
    yield from _factors_of_lab(study, place)
    if testbed.lab != HOSTS:
        if testbed.hosts:
            wrong = WrongValue(
                f"the lab {testbed.lab} makes its own endpoints", fix='write lab = "hosts" under [testbed]'
            )
            yield place("testbed", "host").make_problem(wrong)
        if testbed.ports:
            wrong = WrongValue("ports is of the lab hosts: nothing is in the way here", fix="take it away")
            yield place("testbed", "ports").make_problem(wrong)
        return
    for key in _OF_BUILT:
        if getattr(testbed, key) != getattr(TestbedSpec(), key):
            wrong = WrongValue(
                f"{key} is of labs that build networks: hosts are left as they are", fix="take it away"
            )
            yield place("testbed", key).make_problem(wrong)
    yield from _each_host(testbed, study.workload in FRAME_WORKLOADS, place)
    if testbed.backend != IPERF3:
        yield from _pairs_of_hosts(testbed, study.workload in FRAME_WORKLOADS, place)
        return
    yield from _server_and_here(testbed, place)
    if study.workload != TCP_STREAM:
        wrong = WrongValue(
            f"an iperf3 server does not take part in {study.workload}", fix=f'write workload = "{TCP_STREAM}"'
        )
        yield place("workload").make_problem(wrong)
    yield from _levels_for_iperf3(study, place)


def _each_host(testbed: TestbedSpec, is_for_frames: bool, place: _PlaceOf) -> Iterator[Problem]:
    """One name and one way for each, and no two of them alike."""
    names = Counter(host.name for host in testbed.hosts)
    if testbed.backend == IPERF3 and not any(host.local for host in testbed.hosts):
        names[BENCH_HOST_NAME] += 1
    ways = Counter(host.ssh for host in testbed.hosts if host.ssh)
    machines = Counter(host.machine_key for host in testbed.hosts)
    ports = Counter((host.machine_key, host.interface) for host in testbed.hosts)
    for number, host in enumerate(testbed.hosts):
        if names[host.name] > 1 or host.name in RESERVED_NAMES:
            wrong = WrongValue(f'another endpoint is called "{host.name}"', fix="give it another name")
            yield place("testbed", "host", number, "name").make_problem(wrong)
        if bool(host.ssh) + bool(host.iperf3) + host.local != 1:
            wrong = WrongValue(
                f"{host.name} has to be reached in one way",
                fix="write ssh = and what ssh takes, iperf3 = and where its server listens, "
                "or local = true for this machine",
            )
            yield place("testbed", "host", number).make_problem(wrong)
        if host.ssh and ways[host.ssh] > 1 and not is_for_frames:
            wrong = WrongValue(f"another host is reached as {host.ssh} too", fix="name every machine once")
            yield place("testbed", "host", number, "ssh").make_problem(wrong)
        is_shared = is_for_frames and machines[host.machine_key] > 1
        if is_shared and (host.interface is None or ports[host.machine_key, host.interface] > 1):
            wrong = WrongValue(
                f"{host.name} and another host are one machine, so each has to be an interface of its own",
                fix='write interface = "ens192" below each of them, another for each',
            )
            yield place("testbed", "host", number).make_problem(wrong)
        if host.next_hop and not is_for_frames:
            wrong = WrongValue("next_hop is of frames: other load is routed", fix="take it away")
            yield place("testbed", "host", number, "next_hop").make_problem(wrong)
        for key in ("interface", "address"):
            if getattr(host, key) and host.iperf3:
                wrong = WrongValue(
                    f"{key} is of hosts that an agent runs on",
                    fix="write it below a [[testbed.host]] with local = true or ssh =",
                )
                yield place("testbed", "host", number, key).make_problem(wrong)


def _pairs_of_hosts(testbed: TestbedSpec, is_for_frames: bool, place: _PlaceOf) -> Iterator[Problem]:
    count, here = len(testbed.hosts), sum(host.local for host in testbed.hosts)
    if count < 2 or count % 2:
        wrong = WrongValue(
            f"{count} host{'' if count == 1 else 's'}: load runs between two, or between pairs of them",
            fix='write [[testbed.host]] twice, each with name = "web-01" and ssh = "root@web-01" below it; '
            "one of them may have local = true",
        )
        yield place("testbed", "host").make_problem(wrong)
    if here > 1 and not is_for_frames:
        wrong = WrongValue("several hosts are this machine", fix="write local = true below one of them")
        yield place("testbed", "host").make_problem(wrong)


def _server_and_here(testbed: TestbedSpec, place: _PlaceOf) -> Iterator[Problem]:
    servers = [host for host in testbed.hosts if host.iperf3]
    others = [host for host in testbed.hosts if host not in servers]
    if len(servers) != 1 or len(others) > 1 or any(host.ssh for host in others):
        wrong = WrongValue(
            f"{len(servers)} hosts with an iperf3 server and {len(others)} others: there must be one server",
            fix='write [[testbed.host]] and below it name = "esx-07" and iperf3 = "192.0.2.7"; beside it may '
            "stand one host with local = true",
        )
        yield place("testbed", "host").make_problem(wrong)
    if testbed.ports:
        wrong = WrongValue("ports has no meaning here: it is the server that listens", fix="take it away")
        yield place("testbed", "ports").make_problem(wrong)


def _factors_of_lab(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    testbed = study.testbed
    its_own = [name for name in FACTORS if has_factor_on(testbed.backend, name)]
    for factor in study.factors:
        if is_label(factor.name) or UNSPECIFIED in factor.levels:
            what = f"{factor.name} is a label" if is_label(factor.name) else f'the level "{UNSPECIFIED}"'
            wrong = WrongValue(f"{what}: only imported results have such", fix="take it away")
            yield place("factors", factor.name).make_problem(wrong)
            continue
        if factor.name in its_own:
            continue
        others = [lab for lab in LABS if lab != testbed.lab and has_factor_on(lab, factor.name)]
        if (alike := _COUNTERPARTS.get(factor.name)) in its_own:
            fix = f'did you mean "{alike}"?'
        elif others and not testbed.hosts:
            fix = f"write lab = {' or '.join(map(_quoted, others))} under [testbed]"
        else:
            fix = f"take it away; its factors: {', '.join(its_own)}"
        why = ": hosts are left as they are" if testbed.backend == IPERF3 else ""
        wrong = WrongValue(f"{factor.name} cannot be set in the lab {testbed.lab}{why}", fix=fix)
        yield place("factors", factor.name).make_problem(wrong)


def _quoted(word: str) -> str:
    return f'"{word}"'


def _levels_for_iperf3(study: Study, place: _PlaceOf) -> Iterator[Problem]:
    for factor in study.factors:
        at = place("factors", factor.name)
        for level in factor.levels:
            spelled = format_level(factor.name, level)
            if factor.name == "streams" and int(level) > MAX_IPERF3_STREAMS:
                fix = f"write {MAX_IPERF3_STREAMS} at most"
                yield at.make_problem(
                    WrongValue(f"an iperf3 server does not take {spelled} streams", fix=fix)
                )
            if factor.name == "message_size" and int(level) > MAX_IPERF3_MESSAGE_BYTES:
                fix = 'write "1 MiB" at most'
                yield at.make_problem(
                    WrongValue(f"an iperf3 server does not take messages of {spelled}", fix=fix)
                )
            if factor.name == "direction" and "/" in spelled:
                fix = "write forward, reverse or both"
                yield at.make_problem(
                    WrongValue("an iperf3 server takes as many streams each way, or one way alone", fix=fix)
                )
            if factor.name == "cpus" and "/" in spelled:
                fix = f'name this side\'s alone: "{spelled.partition("/")[0]}"'
                yield at.make_problem(WrongValue("an iperf3 server's CPUs cannot be set from here", fix=fix))
