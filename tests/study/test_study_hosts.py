"""Studies of the lab `hosts`: how they name machines, and what these machines cannot do."""

from __future__ import annotations

import pytest

from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.factors.testbed_factors import TESTBED_FACTORS
from vnetbench.study.file.host_value_types import iperf3_servers, split_canonical_server
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import HOSTS, IPERF3_BACKEND
from vnetbench.study.model import ExistingEndpointSpec
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
    return [(problem.study_line, problem.what) for problem in caught.value.problems]


def test_an_endpoint_with_an_iperf3_server_and_this_machine_are_read() -> None:
    local = (
        '[[testbed.host]]\nname = "web-01"\nlocal = true\ninterface = "ens192"\naddress = "2001:DB8:0::1"\n'
    )
    study = parse_study(HEAD + SERVER + local + FACTORS, None)
    assert study.testbed.lab == HOSTS
    assert study.testbed.existing_endpoints == (
        ExistingEndpointSpec("esx-07", iperf3_server="192.0.2.7:5201"),
        ExistingEndpointSpec("web-01", is_bench_machine=True, interface="ens192", address="2001:db8::1"),
    )


def test_hosts_reached_by_ssh_and_this_machine_make_pairs_in_order() -> None:
    study = parse_study(
        HEAD + 'ports = "5300 - 5399"\n' + WEB_1 + WEB_2 + FACTORS + "mtu = [1500, 9000]\n", None
    )
    assert study.testbed.existing_endpoints == (
        ExistingEndpointSpec("web-01", ssh_destination="root@web-01"),
        ExistingEndpointSpec("web-02", ssh_destination="ssh://root@192.0.2.8:2222", interface="ens192"),
    )
    assert (study.testbed.load_destination_ports, study.testbed.backend) == ("5300-5399", HOSTS)
    assert parse_study(HEAD + WEB_1 + THIS + FACTORS, None).testbed.backend == HOSTS


def test_testbed_factors_have_no_defaults_on_hosts() -> None:
    """Existing hosts keep their own settings, such as MTU and CPU placement."""
    assert not set(complete_levels({}, TCP_STREAM, HOSTS)) & {factor.name for factor in TESTBED_FACTORS}
    assert complete_levels({}, TCP_STREAM, HOSTS)["congestion_control"] == "cubic"


@pytest.mark.parametrize(
    "factor", ['vswitch = "bridge"', "pairs = 2", 'link_rate = "1 Gbit/s"', "guests = 2"]
)
def test_a_factor_that_hosts_do_not_have_is_reported_with_its_line(factor: str) -> None:
    ((line, what),) = problems(HEAD + WEB_1 + THIS + FACTORS + factor + "\n")
    assert (line, what) == (12, f"{factor.split()[0]} cannot be set in the lab hosts")


@pytest.mark.parametrize(
    ("written", "wrong"),
    [('"80-99"', True), ('"5399-5300"', True), ('"5300-70000"', True), ('"any"', True), ("5300", True),
     ('"5300"', False), ('"5300-5399"', False)],
)  # fmt: skip
def test_a_range_of_ports_excludes_privileged_ports(written: str, wrong: bool) -> None:
    text = f"{HEAD}ports = {written}\n{WEB_1}{THIS}{FACTORS}"
    if wrong:
        assert "is not a range of ports" in problems(text)[0][1]
    else:
        assert parse_study(text, None).testbed.load_destination_ports


def test_ports_need_hosts_on_which_an_agent_listens() -> None:
    ((line, what),) = problems(f'{HEAD}ports = "5300-5399"\n{SERVER}{FACTORS}')
    assert (line, what) == (
        4,
        "ports has no effect with an iperf3 server, because the load goes to the server's own port",
    )
    ((line, what),) = problems(f'title = "x"\n[testbed]\nports = "5300-5399"\n{FACTORS}')
    assert (line, what) == (
        3,
        "only labs of existing machines have the key ports, because others have no firewalls",
    )


VM = '[[testbed.host]]\nname = "{0}"\nssh = "{0}"\ndomain = "{0}"\n'
LIBVIRT = 'title = "x"\n[testbed]\nlab = "libvirt"\nconnection = "qemu:///system"\n'


def test_a_study_of_vms_keeps_their_own_settings_unless_it_names_them() -> None:
    study = parse_study(f'{LIBVIRT}{VM.format("web")}{VM.format("db")}[factors]\nadapter = "e1000"\n', None)
    assert study.testbed.connection == "qemu:///system"
    assert [host.domain for host in study.testbed.existing_endpoints] == ["web", "db"]
    assert complete_levels({"adapter": "e1000"}, study.workload, study.testbed.backend).get("mtu") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIBVIRT.replace('connection = "qemu:///system"\n', "") + VM.format("a") + VM.format("b"),
         "the lab libvirt needs the hypervisor"),
        (LIBVIRT + VM.format("a").replace("domain", "#") + VM.format("b").replace("domain", "#"),
         "the lab libvirt has no VM to change"),
        (LIBVIRT + VM.format("a") + VM.format("b").replace('domain = "b"', 'domain = "a"'),
         "another host is the same VM, a"),
        (HEAD + VM.format("a") + VM.format("b"), "the lab hosts changes no VM"),
        (LIBVIRT.replace("qemu:///system", "qemu+ssh://u:secret@h/system") + VM.format("a") + VM.format("b"),
         "is not a valid name"),
    ],
)  # fmt: skip
def test_a_study_of_vms_that_lacks_something_gives_one_sentence(text: str, message: str) -> None:
    assert message in problems(text + FACTORS)[0][1]


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
def test_the_address_of_a_server_has_all_usual_forms(written: str, host: str, port: int) -> None:
    server_type = iperf3_servers()
    assert split_canonical_server(str(server_type.parse(written))) == (host, port)
    assert server_type.parse(server_type.format(server_type.parse(written))) == server_type.parse(written)


@pytest.mark.parametrize(
    "written",
    ["", "a b", "esx:0", "esx:65536", "esx:", "[esx]:1", "1.2.3.4:x", "[fe80::1%eth0]:1", "-o", 7, None],
)
def test_an_invalid_server_address_is_rejected(written: object) -> None:
    with pytest.raises(WrongValue, match="is not the address of a server"):
        iperf3_servers().parse(written)


def test_only_factors_of_the_local_endpoint_have_defaults_with_an_iperf3_server() -> None:
    assert set(complete_levels({}, TCP_STREAM, IPERF3_BACKEND)) <= {
        "streams",
        "direction",
        "message_size",
        "pacing_rate",
        "socket_buffer",
        "source_ports",
        "congestion_control",
        "cpus",
    }
    assert complete_levels({}, TCP_STREAM, IPERF3_BACKEND)["congestion_control"] == "cubic"


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ("mtu = 9000", "mtu cannot be set with an iperf3 server"),
        ("tso = true", "tso cannot be set with an iperf3 server"),
        ("pairs = 2", "pairs cannot be set with an iperf3 server"),
        ("streams = 129", "does not support 129 streams"),
        ('message_size = "2 MiB"', "does not support messages of 2 MiB"),
        ('cpus = "0/1"', "cannot set the CPUs of an iperf3 server"),
    ],
)
def test_a_level_that_an_iperf3_server_cannot_have_is_reported_with_its_line(factors: str, what: str) -> None:
    ((line, message),) = problems(f"{HEAD}{SERVER}[factors]\n{factors}\n")
    assert line == 8
    assert what in message


def test_a_workload_that_iperf3_does_not_support_is_reported() -> None:
    text = f'workload = "tcp_rr"\n{HEAD}{SERVER}[factors]\nconnections = 1\n'
    assert problems(text) == [
        (1, "an iperf3 server does not support the workload tcp_rr"),
        (9, "connections cannot be set with an iperf3 server"),
    ]


@pytest.mark.parametrize(
    ("hosts", "line", "what"),
    [
        ("", 2, "the study has 0 hosts, but hosts work in pairs"),
        (WEB_1, 4, "the study has 1 host, but hosts work in pairs"),
        (WEB_1 + WEB_2 + THIS, 4, "the study has 3 hosts, but hosts work in pairs"),
        (THIS + THIS.replace('"me"', '"me-too"'), 4, "more than one host is this machine"),
        (WEB_1 + WEB_2.replace("web-02", "web-01", 1), 5, 'another endpoint has the name "web-01"'),
        (
            WEB_1 + WEB_1.replace("web-01", "alias", 1),
            6,
            "another host has the same destination, root@web-01",
        ),
        (
            WEB_1 + "local = true\n" + WEB_2,
            4,
            "the host web-01 needs exactly one of the keys ssh, iperf3 and local",
        ),
        (
            WEB_1 + SERVER,
            4,
            "the study has 1 iperf3 server and 1 other host; a study needs exactly one server",
        ),
        (WEB_1.replace("root@web-01", "-oProxyCommand=x"), 6, "is not a valid name"),
        (WEB_1.replace("root@web-01", "root@web 01"), 6, "is not a valid name"),
        (SERVER + SERVER.replace("07", "08"), 4, "the study has 2 iperf3 servers"),
        (
            SERVER + '[[testbed.host]]\nname = "b"\n',
            7,
            "the host b needs exactly one of the keys ssh, iperf3 and local",
        ),
        (SERVER + "local = true\n", 4, "the host esx-07 needs exactly one of the keys ssh, iperf3 and local"),
        (SERVER + 'interface = "eth0"\n', 7, "the key interface applies only to hosts that run an agent"),
        (SERVER.replace("esx-07", "here"), 5, 'another endpoint has the name "here"'),
        (SERVER.replace("esx-07", "bench"), 5, 'another endpoint has the name "bench"'),
        ('[[testbed.host]]\niperf3 = "192.0.2.7"\n', 4, "this host has no name"),
        (SERVER + 'iperf = "x"\n', 7, '"iperf" is not a key under [[testbed.host]]'),
        (SERVER.replace("[[testbed.host]]", "[testbed.host]"), 4, "host is not a list of tables"),
    ],
)
def test_hosts_that_do_not_form_a_testbed_are_reported_with_their_line(
    hosts: str, line: int, what: str
) -> None:
    assert any(
        found_line == line and what in message for found_line, message in problems(HEAD + hosts + FACTORS)
    )


FRAMES = HEAD.replace("[testbed]", 'workload = "frames"\n[testbed]')
P0, P1 = (
    f'[[testbed.host]]\nname = "{port}"\nssh = "root@web-01"\ninterface = "{port}"\n' for port in ("p0", "p1")
)


def test_two_interfaces_of_one_machine_are_two_endpoints_for_frames() -> None:
    study = parse_study(FRAMES + P0 + P1 + "[factors]\nflows = 1\n", None)
    assert [host.interface for host in study.testbed.existing_endpoints] == ["p0", "p1"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (HEAD + P0 + P1, 6, "another host has the same destination, root@web-01"),
        (FRAMES + P0 + P1.replace('interface = "p1"\n', ""), 9, "each needs its own interface"),
        (FRAMES + P0 + P1.replace('interface = "p1"', 'interface = "p0"'), 5, "each needs its own interface"),
        (
            HEAD + WEB_1 + 'next_hop = "52:54:00:00:00:01"\n' + WEB_2,
            7,
            "next_hop applies to frame workloads only",
        ),
        (FRAMES + P0 + 'next_hop = "10.0.0.1"\n' + P1, 9, "is not a valid name"),
    ],
)
def test_interfaces_that_cannot_be_distinguished_are_reported_with_their_line(
    text: str, line: int, what: str
) -> None:
    found = problems(text + "[factors]\nmtu = 1500\n")
    assert any(found_line == line and what in message for found_line, message in found), found


def test_keys_that_build_a_testbed_are_reported_in_the_lab_hosts() -> None:
    text = HEAD + "uplink = true\nvswitch_mtu = 9000\n" + SERVER + FACTORS
    assert [(line, what.split()[6].rstrip(",")) for line, what in problems(text)] == [
        (4, "uplink"),
        (5, "vswitch_mtu"),
    ]
    ((line, what),) = problems('title = "x"\n[testbed]\n' + SERVER + FACTORS)
    assert (line, what) == (3, "the lab netns creates its own endpoints")
