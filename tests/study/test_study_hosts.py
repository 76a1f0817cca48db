"""Studies of the lab `hosts`: how its machines are named, and what cannot be asked of them."""

from __future__ import annotations

import pytest

from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.factors.testbed_factors import TESTBED_FACTORS
from vnetbench.study.file.host_value_types import iperf3_servers, split_host_port
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import HOSTS, IPERF3, IPERF3_FACTORS
from vnetbench.study.model import HostSpec
from vnetbench.study.problems import StudyError, WrongValue
from vnetbench.study.workloads import TCP_STREAM

HEAD = 'title = "x"\n[testbed]\nlab = "hosts"\n'
SERVER = '[[testbed.host]]\nname = "esx-07"\niperf3 = "192.0.2.7"\n'
WEB_1 = '[[testbed.host]]\nname = "web-01"\nssh = "root@web-01"\n'
WEB_2 = '[[testbed.host]]\nname = "web-02"\nssh = "ssh://root@192.0.2.8:2222"\ninterface = "ens192"\n'
THIS = '[[testbed.host]]\nname = "me"\nlocal = true\n'
FACTORS = "[factors]\nstreams = 1\n"


def problems(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    assert all(problem.fix for problem in caught.value.problems)
    return [(problem.line, problem.what) for problem in caught.value.problems]


def test_an_endpoint_with_an_iperf3_server_and_this_machine_are_read() -> None:
    local = (
        '[[testbed.host]]\nname = "web-01"\nlocal = true\ninterface = "ens192"\naddress = "2001:DB8:0::1"\n'
    )
    study = parse_study(HEAD + SERVER + local + FACTORS, None)
    assert study.testbed.lab == HOSTS
    assert study.testbed.hosts == (
        HostSpec("esx-07", iperf3="192.0.2.7:5201"),
        HostSpec("web-01", local=True, interface="ens192", address="2001:db8::1"),
    )


def test_hosts_reached_by_ssh_and_this_machine_make_pairs_in_order() -> None:
    study = parse_study(
        HEAD + 'ports = "5300 - 5399"\n' + WEB_1 + WEB_2 + FACTORS + "mtu = [1500, 9000]\n", None
    )
    assert study.testbed.hosts == (
        HostSpec("web-01", ssh="root@web-01"),
        HostSpec("web-02", ssh="ssh://root@192.0.2.8:2222", interface="ens192"),
    )
    assert (study.testbed.ports, study.testbed.backend) == ("5300-5399", HOSTS)
    assert parse_study(HEAD + WEB_1 + THIS + FACTORS, None).testbed.backend == HOSTS


def test_only_what_a_trial_has_to_choose_has_a_default_on_hosts() -> None:
    """What nobody asks for is left as it is: no MTU, no placement."""
    assert not set(complete_levels({}, TCP_STREAM, HOSTS)) & {factor.name for factor in TESTBED_FACTORS}
    assert complete_levels({}, TCP_STREAM, HOSTS)["congestion_control"] == "cubic"


@pytest.mark.parametrize(
    "factor", ['vswitch = "bridge"', "pairs = 2", 'link_rate = "1 Gbit/s"', "guests = 2"]
)
def test_what_hosts_have_not_is_refused_with_its_line(factor: str) -> None:
    ((line, what),) = problems(HEAD + WEB_1 + THIS + FACTORS + factor + "\n")
    assert (line, what) == (12, f"{factor.split()[0]} cannot be set in the lab hosts")


@pytest.mark.parametrize(
    ("written", "wrong"),
    [('"80-99"', True), ('"5399-5300"', True), ('"5300-70000"', True), ('"any"', True), ("5300", True),
     ('"5300"', False), ('"5300-5399"', False)],
)  # fmt: skip
def test_a_range_of_ports_is_one_that_every_user_may_listen_on(written: str, wrong: bool) -> None:
    text = f"{HEAD}ports = {written}\n{WEB_1}{THIS}{FACTORS}"
    if wrong:
        assert "is no range of ports" in problems(text)[0][1]
    else:
        assert parse_study(text, None).testbed.ports


def test_ports_are_of_hosts_that_an_agent_listens_on() -> None:
    ((line, what),) = problems(f'{HEAD}ports = "5300-5399"\n{SERVER}{FACTORS}')
    assert (line, what) == (4, "ports has no meaning here: it is the server that listens")
    ((line, what),) = problems(f'title = "x"\n[testbed]\nports = "5300-5399"\n{FACTORS}')
    assert (line, what) == (3, "ports is of the lab hosts: nothing is in the way here")


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        ("192.0.2.7", "192.0.2.7", 5201),
        ("192.0.2.7:5202", "192.0.2.7", 5202),
        ("esx-07.example.org:80", "esx-07.example.org", 80),
        ("[2001:db8:0::7]:5201", "2001:db8::7", 5201),
        ("[2001:db8::7]", "2001:db8::7", 5201),
        ("2001:db8::7", "2001:db8::7", 5201),
    ],
)
def test_a_server_is_named_in_every_usual_way(written: str, host: str, port: int) -> None:
    kind = iperf3_servers()
    assert split_host_port(str(kind.parse(written))) == (host, port)
    assert kind.parse(kind.format(kind.parse(written))) == kind.parse(written)


@pytest.mark.parametrize(
    "written",
    ["", "a b", "esx:0", "esx:65536", "esx:", "[esx]:1", "1.2.3.4:x", "[fe80::1%eth0]:1", "-o", 7, None],
)
def test_what_names_no_server_is_turned_down(written: object) -> None:
    with pytest.raises(WrongValue, match="names no server"):
        iperf3_servers().parse(written)


def test_only_what_this_side_can_set_is_a_factor_and_has_a_default() -> None:
    assert set(complete_levels({}, TCP_STREAM, IPERF3)) <= set(IPERF3_FACTORS)
    assert complete_levels({}, TCP_STREAM, IPERF3)["congestion_control"] == "cubic"


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ("mtu = 9000", "mtu cannot be set in the lab hosts"),
        ("tso = true", "tso cannot be set in the lab hosts"),
        ("pairs = 2", "pairs cannot be set in the lab hosts"),
        ("streams = 129", "does not take 129 streams"),
        ('message_size = "2 MiB"', "does not take messages of 2 MiB"),
        ('cpus = "0/1"', "CPUs cannot be set from here"),
    ],
)
def test_a_factor_that_cannot_be_applied_is_refused_with_its_line(factors: str, what: str) -> None:
    ((line, said),) = problems(f"{HEAD}{SERVER}[factors]\n{factors}\n")
    assert line == 8
    assert what in said


def test_a_workload_that_iperf3_does_not_know_is_refused() -> None:
    text = f'workload = "tcp_rr"\n{HEAD}{SERVER}[factors]\nconnections = 1\n'
    assert problems(text) == [
        (1, "an iperf3 server does not take part in tcp_rr"),
        (9, "connections cannot be set in the lab hosts: hosts are left as they are"),
    ]


@pytest.mark.parametrize(
    ("hosts", "line", "what"),
    [
        ("", 2, "0 hosts: load runs between two"),
        (WEB_1, 4, "1 host: load runs between two"),
        (WEB_1 + WEB_2 + THIS, 4, "3 hosts: load runs between two"),
        (THIS + THIS.replace('"me"', '"me-too"'), 4, "several hosts are this machine"),
        (WEB_1 + WEB_2.replace("web-02", "web-01", 1), 5, 'another endpoint is called "web-01"'),
        (WEB_1 + WEB_1.replace("web-01", "alias", 1), 6, "another host is reached as root@web-01 too"),
        (WEB_1 + "local = true\n" + WEB_2, 4, "web-01 has to be reached in one way"),
        (WEB_1 + SERVER, 4, "1 hosts with an iperf3 server and 1 others: there must be one server"),
        (WEB_1.replace("root@web-01", "-oProxyCommand=x"), 6, "is no name here"),
        (WEB_1.replace("root@web-01", "root@web 01"), 6, "is no name here"),
        (SERVER + SERVER.replace("07", "08"), 4, "2 hosts with an iperf3 server"),
        (SERVER + '[[testbed.host]]\nname = "b"\n', 7, "b has to be reached in one way"),
        (SERVER + "local = true\n", 4, "esx-07 has to be reached in one way"),
        (SERVER + 'interface = "eth0"\n', 7, "interface is of hosts that an agent runs on"),
        (SERVER.replace("esx-07", "here"), 5, 'another endpoint is called "here"'),
        (SERVER.replace("esx-07", "bench"), 5, 'another endpoint is called "bench"'),
        ('[[testbed.host]]\niperf3 = "192.0.2.7"\n', 4, "this host has no name"),
        (SERVER + 'iperf = "x"\n', 7, '"iperf" is not a key under [[testbed.host]]'),
        (SERVER.replace("[[testbed.host]]", "[testbed.host]"), 4, "host is a list of tables"),
    ],
)
def test_hosts_that_make_no_testbed_are_refused_with_their_line(hosts: str, line: int, what: str) -> None:
    assert any(at == line and what in said for at, said in problems(HEAD + hosts + FACTORS))


FRAMES = HEAD.replace("[testbed]", 'workload = "frames"\n[testbed]')
P0, P1 = (
    f'[[testbed.host]]\nname = "{port}"\nssh = "root@web-01"\ninterface = "{port}"\n' for port in ("p0", "p1")
)


def test_two_interfaces_of_one_machine_are_two_ports_for_frames() -> None:
    study = parse_study(FRAMES + P0 + P1 + "[factors]\nflows = 1\n", None)
    assert [host.interface for host in study.testbed.hosts] == ["p0", "p1"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (HEAD + P0 + P1, 6, "another host is reached as root@web-01 too"),
        (FRAMES + P0 + P1.replace('interface = "p1"\n', ""), 9, "each has to be an interface of its own"),
        (FRAMES + P0 + P1.replace('interface = "p1"', 'interface = "p0"'), 5, "each has to be an interface"),
        (HEAD + WEB_1 + 'next_hop = "52:54:00:00:00:01"\n' + WEB_2, 7, "next_hop is of frames"),
        (FRAMES + P0 + 'next_hop = "10.0.0.1"\n' + P1, 9, "is no name here"),
    ],
)
def test_ports_that_could_not_be_told_apart_are_refused_with_their_line(
    text: str, line: int, what: str
) -> None:
    said = problems(text + "[factors]\nmtu = 1500\n")
    assert any(at == line and what in message for at, message in said), said


def test_what_builds_a_testbed_is_of_the_other_lab() -> None:
    text = HEAD + "uplink = true\nvswitch_mtu = 9000\n" + SERVER + FACTORS
    assert [(line, what.split()[0]) for line, what in problems(text)] == [(4, "uplink"), (5, "vswitch_mtu")]
    ((line, what),) = problems('title = "x"\n[testbed]\n' + SERVER + FACTORS)
    assert (line, what) == (3, "the lab netns makes its own endpoints")
