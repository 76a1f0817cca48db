"""`vnetbench team predict`: its answer, JSON, advice and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dpkt
import pytest

from tests.docs.pages import ROOT
from tests.faults import bench_process as bench
from vnetbench.cli import cli
from vnetbench.errors import BenchError
from vnetbench.teaming.flow_syntax import MAX_FLOWS

pytestmark = pytest.mark.pure

DUMPS = ROOT / "tests" / "data" / "teams"
PUBLISHED = [f"--flow=192.168.100.101-192.168.100.{last}" for last in (120, 130, 140, 150)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    cli.main(["team", "predict", *map(str, arguments)], standalone_mode=False)
    return capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(run(capsys, *arguments, "--json"))
    return fields


def uplinks(fields: dict[str, Any], direction: str = "forward") -> list[int | None]:
    return [flow[direction]["uplink"] for flow in fields["flows"]]


def test_the_first_sentence_answers_the_question() -> None:
    code, output = bench.run_warm(
        "team", "predict", "--policy", "ip-hash", "--links", "4", *PUBLISHED, "--speed", "1G"
    )
    assert code == 0
    assert output.splitlines()[0] == "4 flows use 2 of 4 uplinks: at most 2 Gbit/s of 4 Gbit/s."


def test_the_json_has_the_documented_form(capsys: pytest.CaptureFixture[str]) -> None:
    fields = run_json(
        capsys, "--policy", "ip-hash", "--links", "4", "--flow", "192.168.100.101-192.168.100.120"
    )
    (flow,) = fields["flows"]
    assert (flow["source"], flow["destination"]) == ("192.168.100.101", "192.168.100.120")
    assert flow["forward"] == flow["reverse"] == {"uplink": 1, "ambiguous": False, "candidates": [1]}
    assert [uplink["uplink"] for uplink in fields["uplinks"]] == [0, 1, 2, 3]
    assert fields["uplinks"][1]["forward"] == {"flows": [0], "certain_flows": 1, "expected_flows": 1.0}
    assert fields["random_flows"]["mean_uplinks_used"] == 1.0


def test_the_published_uplinks_are_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert uplinks(run_json(capsys, "--policy", "ip-hash", "--links", "4", *PUBLISHED)) == [1, 3, 1, 3]
    flows = [f"--flow=10.0.0.10-10.0.0.{last}" for last in (20, 22, 21)]
    assert uplinks(run_json(capsys, "--policy", "ip-hash", "--links", "2", *flows)) == [0, 0, 1]


def test_an_ambiguous_uplink_has_both_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    fields = run_json(capsys, "--policy", "ip-hash", "--links", "3", "--flow", "10.0.0.1-11.0.0.2")
    forward = fields["flows"][0]["forward"]
    assert (forward["uplink"], forward["ambiguous"], forward["candidates"]) == (None, True, [0, 1])
    assert "power of two" in fields["advice"]["sentences"][0]


def test_one_vm_uses_one_uplink_of_port_id(capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "--policy", "port-id", "--links", "4", *PUBLISHED, "--speed", "1G")
    assert output.startswith("4 flows use 1 of 4 uplinks: at most 1 Gbit/s of 4 Gbit/s.\n")
    assert "esxcli network vm port list" in output


def test_ipv4_and_ipv6_between_the_same_macs_differ_for_layer2(capsys: pytest.CaptureFixture[str]) -> None:
    macs = ",src-mac=02:00:00:00:00:01,dst-mac=02:00:00:00:00:02"
    flows = (f"--flow=10.0.0.1-10.0.0.2{macs}", f"--flow=[fd00::1]-[fd00::2]{macs}")
    fields = run_json(capsys, "--policy", "layer2", "--links", "2", *flows)
    assert uplinks(fields) in ([0, 1], [1, 0])
    assert fields["random_flows"]["mean_uplinks_used"] == 1.5


def test_unequal_speeds_give_the_sum_of_used_links_and_the_limit_of_equal_flows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--policy", "ip-hash", "--links", "4", "--speed", "10G,1G,10G,10G", *PUBLISHED)
    output = run(capsys, *arguments)
    assert output.startswith("4 flows use 2 of 4 uplinks: at most 11 Gbit/s of 31 Gbit/s.\n")
    # Two flows share the uplink of 1 Gbit/s: 4 × 0.5 Gbit/s.
    assert "limits them to 2 Gbit/s" in output


@pytest.mark.parametrize(
    "team",
    [
        ("--policy", "balance-xor/layer3+4", "--links", "2", "--speed", "10G,1G"),
        ("--policy", "802.3ad/layer3+4", "--links", "2", "--speed", "10G"),
        # The link of the other speed is in another aggregator, which the dump says.
        ("--state", str(DUMPS / "bonding-802.3ad.txt"), "--speed", "10G,10G,1G"),
    ],
)
def test_speeds_that_the_team_can_have_are_predicted(
    capsys: pytest.CaptureFixture[str], team: tuple[str, ...]
) -> None:
    assert set(uplinks(run_json(capsys, *team, "--random", "50"))) == {0, 1}


@pytest.mark.parametrize(
    ("policy", "links", "flow_texts"),
    [
        ("ip-hash", 4, PUBLISHED),
        ("layer3+4", 4, [f"--flow=10.0.0.1:{50000 + 16 * i}-10.0.0.2:5201" for i in range(6)]),
        ("layer2", 4, [f"--flow=02:00:00:00:00:{i}0-02:00:00:00:00:01" for i in range(6)]),
        ("switch-src-ip", 2, [f"--flow=10.0.0.{2 * i}-10.0.1.1" for i in range(1, 5)]),
    ],
)
def test_advice_spreads_the_flows_evenly_and_a_new_prediction_agrees(
    capsys: pytest.CaptureFixture[str], policy: str, links: int, flow_texts: list[str]
) -> None:
    team = ("--policy", policy, "--links", str(links))
    fields = run_json(capsys, *team, *flow_texts)
    after = uplinks(fields)
    loads = [after.count(i) for i in range(links)]
    assert max(loads) - min(loads) > 1
    for change in fields["advice"]["changes"]:
        flow = fields["flows"][change["flow"]]
        source, destination = flow["source"], flow["destination"]
        if change["field"] == "source port":
            source = f"{source.rpartition(':')[0]}:{change['after']}"
        elif change["field"].startswith("source"):
            source = change["after"]
        else:
            destination = change["after"]
        (changed,) = uplinks(run_json(capsys, *team, f"--flow={source}-{destination}"))
        assert changed == change["uplink"] != after[change["flow"]]
        after[change["flow"]] = changed
    loads = [after.count(i) for i in range(links)]
    assert max(loads) - min(loads) <= 1


def test_the_state_of_a_bond_gives_policy_uplinks_and_speeds(capsys: pytest.CaptureFixture[str]) -> None:
    fields = run_json(
        capsys, "--state", DUMPS / "bonding-802.3ad.txt", "--flow", "10.0.0.1:50000..50007-10.0.0.2:5201"
    )
    assert fields["policy"] == "layer3+4"
    assert [(u["name"], u["speed_bps"], u["up"]) for u in fields["uplinks"]] == [
        ("eth0", 10**9, True), ("eth1", 10**9, True), ("eth2", 10**8, False),
    ]  # fmt: skip
    assert set(uplinks(fields)) == {0, 1}
    assert "eth2 carries nothing: it is in aggregator 2, the active one is 1." in fields["notes"]
    assert fields["answer"][0].startswith("8 flows use 2 of 3 uplinks (1 down): at most 2 Gbit/s of 2 Gbit/s")


def test_answers_of_a_policy_without_a_channel_return_where_the_address_was_learned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = run_json(
        capsys, "--state", DUMPS / "esxcli-failover-srcport.txt", "--state", DUMPS / "esxcli-ports.txt",
        "--flow", "10.0.0.1-10.0.0.2,src-port-id=67108877",
    )  # fmt: skip
    assert fields["reverse_policy"] == "mac-learning"
    assert uplinks(fields) == uplinks(fields, "reverse") == [1]


def test_the_policy_of_the_other_side_is_used_or_said_to_be_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--policy", "ip-hash", "--links", "4", "--flow", "10.0.0.1:50000-10.0.0.2:5201")
    other = run_json(capsys, *arguments, "--reverse-policy", "switch-src-ip")
    assert uplinks(other, "reverse") == [2] and other["reverse_policy"] == "switch-src-ip"
    unknown = run_json(capsys, *arguments, "--reverse-policy", "unknown")
    assert uplinks(unknown, "reverse") == [None]
    assert "unknown" in unknown["flows"][0]["reverse"]["depends_on"]


def test_random_flows_and_socket_lists_are_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    first = run_json(capsys, "--policy", "layer3+4", "--links", "4", "--random", "100", "--seed", "3")
    assert len(first["flows"]) == 100 and set(uplinks(first)) == {0, 1, 2, 3}
    assert "seed 3" in first["notes"][0]
    listed = run_json(capsys, "--policy", "ip-hash", "--links", "4", "--ss", DUMPS / "ss-tin.txt")
    assert uplinks(listed)[:3] == [1, 1, 3]


def test_what_no_file_shows_can_be_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--policy", "encap3+4", "--links", "2", "--flow", "10.0.0.1:50000-10.0.0.2:5201")
    assert uplinks(run_json(capsys, *arguments)) == [None]
    assert uplinks(run_json(capsys, *arguments, "--assume", "no-packet-hash")) != [None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "ip-hsh", "--links", "2", *PUBLISHED), 'no policy "ip-hsh"'),
        (("--policy", "ip-hash", "--links", "0", *PUBLISHED), "a team of 0 uplinks"),
        (("--policy", "ip-hash", "--links", "-1", *PUBLISHED), "a team of -1 uplinks"),
        (("--policy", "ip-hash", "--links", "65", *PUBLISHED), "a team of 65 uplinks is outside 1 to 64"),
        (("--policy", "ip-hash", "--links", "2", "--random", "20001"), "1 to 20000 flows, not 20001"),
        (("--policy", "cisco-src-ip", "--links", "9", *PUBLISHED), "at most 8 uplinks, not 9"),
        (("--policy", "layer3+4", "--links", "2", *PUBLISHED), "needs the source port of a flow"),
        (("--policy", "ip-hash", "--links", "2", "--flow", "10.0.0.1-2001:db8::1"), "mixes IPv4 and IPv6"),
        (("--policy", "ip-hash", "--links", "2"), "there is no flow to predict"),
        (("--links", "2", *PUBLISHED), "the policy is unknown"),
        (("--policy", "ip-hash", *PUBLISHED), "the uplinks are unknown"),
        (("--policy", "ip-hash", "--links", "2", "--random", "0"), "--random draws 1 to 20000 flows, not 0"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "-1G", *PUBLISHED), "a speed is not negative"),
        (("--policy", "lacp", "--links", "2", *PUBLISHED), "has no policy of its own"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "11000G", *PUBLISHED), "more than 10 Tbit/s"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "fast", *PUBLISHED), "--speed"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "0G", *PUBLISHED), "0 bit/s carries nothing"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "1G,1G,1G", *PUBLISHED), "3 rates for 2 uplinks"),
        (("--policy", "ip-hash", "--links", "2", "--state", DUMPS / "bonding-xor.txt"), "remove --links"),
        (
            ("--policy", "802.3ad/layer3+4", "--links", "2", "--speed", "10G,1G", "--random", "9"),
            "LACP bundles links of one speed, and these have 10 Gbit/s and 1 Gbit/s",
        ),
        (("--state", DUMPS / "bonding-802.3ad.txt", "--speed", "10G,1G,1G", "--random", "9"), "of one speed"),
        (("--policy", "ip-hash", "--links", "2", "--team", "b", *PUBLISHED), "--team selects"),
        (("--policy", "ip-hash", "--state", DUMPS / "README.md", *PUBLISHED), "no known format"),
        (("--policy", "ip-hash", "--links", "2", "--reverse-policy", "x", *PUBLISHED), 'no policy "x"'),
    ],
)
def test_bad_input_is_one_sentence_with_its_fix(arguments: tuple[str | Path, ...], message: str) -> None:
    with pytest.raises(BenchError) as error:
        cli.main(["team", "predict", *map(str, arguments)], standalone_mode=False)
    assert message in str(error.value)
    assert error.value.fix


def test_bad_input_exits_with_2_and_without_a_traceback(tmp_path: Path) -> None:
    code, output = bench.run_warm("team", "predict", "--policy", "layer3+4", "--links", "2", *PUBLISHED)
    assert code == 2 and "fix: " in output and "Traceback" not in output
    code, output = bench.run_warm(
        "team", "predict", "--policy", "ip-hash", "--state", tmp_path / "none", *PUBLISHED
    )
    assert code == 2 and "Traceback" not in output


def test_policies_are_listed_with_what_they_need() -> None:
    code, output = bench.run_warm("team", "policies")
    assert code == 0 and "layer3+4" in output and "balance-slb" in output and "cisco-src-dst-mixed" in output


def test_output_that_cannot_show_a_character_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, output = bench.run_warm("team", "predict", "--policy", "ip-hash", "--links", "2", "--random", "2")
    assert code == 0 and "2 random flows, seed 1" in output and "Traceback" not in output


def test_each_of_many_flows_is_listed_once_over_all_uplinks(capsys: pytest.CaptureFixture[str]) -> None:
    fields = run_json(capsys, "--policy", "ip-hash", "--links", "63", "--random", str(MAX_FLOWS))
    assert len(fields["flows"]) == MAX_FLOWS
    assert sum(len(uplink["forward"]["flows"]) for uplink in fields["uplinks"]) == sum(
        uplink is not None for uplink in uplinks(fields)
    )


def test_each_formula_of_ip_hash_is_counted_for_all_flows(capsys: pytest.CaptureFixture[str]) -> None:
    flows = [
        f"--flow={ends}" for ends in ("10.0.0.10-10.0.0.20", "10.0.1.10-10.0.0.21", "10.0.2.10-10.0.7.22")
    ]
    output = run(capsys, "--policy", "ip-hash", "--links", "5", "--speed", "1G", *flows)
    assert output.startswith("3 flows use 3 of 5 uplinks: at most 3 Gbit/s of 5 Gbit/s.\n")
    assert (
        "1 flow depends on which of ESXi's two formulas holds: 3 uplinks by the last octets, 3"
        in " ".join(output.split())
    )
    assert "Use 2, 4 or 8 uplinks (a power of two)" in " ".join(output.split())


def test_one_flow_and_one_packet_have_no_plural(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = run(capsys, "--policy", "ip-hash", "--links", "2", "--random", "1")
    assert "1 random flow, seed 1" in output and "random flow use" not in output
    frame = bytes(12) + b"\x08\x00" + bytes(
        dpkt.ip.IP(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", p=17, data=dpkt.udp.UDP(sport=7, dport=8))
    )  # fmt: skip
    with (tmp_path / "one.pcap").open("wb") as file:
        dpkt.pcap.Writer(file).writepkt(frame, ts=1.0)
    output = run(capsys, "--policy", "ip-hash", "--links", "2", "--pcap", tmp_path / "one.pcap")
    assert "1 flow in 1 packet." in " ".join(output.split())
    (tmp_path / "one.pcap").write_bytes((tmp_path / "one.pcap").read_bytes()[:-9])
    with pytest.raises(BenchError, match="no flow with IP addresses in 0 packets, and is damaged"):
        run(capsys, "--policy", "ip-hash", "--links", "2", "--pcap", tmp_path / "one.pcap")


def test_the_flows_of_a_capture_take_the_uplinks_of_the_same_flows_as_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ports, team = range(50000, 50006), ("--policy", "layer3+4", "--links", "4")
    with (tmp_path / "six.pcap").open("wb") as file:
        writer = dpkt.pcap.Writer(file)
        for port in ports:
            segment = dpkt.tcp.TCP(sport=port, dport=5201)
            packet = dpkt.ip.IP(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", p=6, data=segment)
            writer.writepkt(bytes(12) + b"\x08\x00" + bytes(packet), ts=1.0)
    captured = run_json(capsys, *team, "--pcap", tmp_path / "six.pcap")
    assert [each["source"] for each in captured["flows"]] == [f"10.0.0.1:{port}" for port in ports]
    listed = run_json(capsys, *team, "--flow", f"10.0.0.1:{ports[0]}..{ports[-1]}-10.0.0.2:5201")
    assert uplinks(captured) == uplinks(listed)


def test_a_switch_of_a_vsphere_inventory_gives_policy_and_uplinks(capsys: pytest.CaptureFixture[str]) -> None:
    inventory = ("--state", DUMPS / "vsphere-network.json", "--team", "vSwitch1")
    fields = run_json(capsys, *inventory, "--flow", "10.0.0.1-10.0.0.2")
    assert fields["policy"] == "ip-hash"
    assert [(each["name"], each["up"]) for each in fields["uplinks"]] == [
        ("vmnic2", True), ("vmnic1", False), ("vmnic3", True),
    ]  # fmt: skip
    # 1 XOR 2 = 3, modulo the two uplinks that are up: the second of them.
    assert uplinks(fields) == [2]
    with pytest.raises(BenchError, match="has the switches vSwitch0, vSwitch1, DSwitch"):
        run(capsys, "--state", DUMPS / "vsphere-network.json", "--flow", "10.0.0.1-10.0.0.2")


def test_a_damaged_capture_is_named_in_the_notes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    frame = bytes(12) + b"\x08\x00" + bytes(
        dpkt.ip.IP(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", p=17, data=dpkt.udp.UDP(sport=7, dport=8))
    )  # fmt: skip
    with path.open("wb") as file:
        writer = dpkt.pcap.Writer(file)
        for _ in range(3):
            writer.writepkt(frame, ts=1.0)
    path.write_bytes(path.read_bytes()[:-9])
    fields = run_json(capsys, "--policy", "ip-hash", "--links", "2", "--pcap", path)
    assert "The capture is damaged or cut off after packet 2; nothing after it was read." in fields["notes"]


def test_flows_with_the_same_fields_count_once_among_random_flows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ports = "--flow=10.0.0.1:50000..50099-10.0.0.2:5201"
    fields = run_json(capsys, "--policy", "ip-hash", "--links", "4", ports)
    assert fields["random_flows"]["flows"] == 1
    output = run(capsys, "--policy", "ip-hash", "--links", "4", ports, "--flow=10.0.0.1-10.0.0.3")
    assert "ip-hash reads only 2 different flows in these 101" in " ".join(output.split())
    assert "2 random flows use 1.75 uplinks" in output
    fields = run_json(capsys, "--policy", "layer3+4", "--links", "4", ports)
    assert fields["random_flows"]["flows"] == 100


def test_conditions_name_the_flows(capsys: pytest.CaptureFixture[str]) -> None:
    flows = ("--flow=10.0.0.1:1-10.0.0.2:2", "--flow=10.0.0.1-10.0.0.2,protocol=esp")
    fields = run_json(capsys, "--policy", "layer3+4", "--links", "2", *flows)
    assert any(s.startswith("The uplink of flow 1 depends on the SPI") for s in fields["answer"])
    known = "10.0.0.1-10.0.0.2,protocol=esp,spi=1"
    fields = run_json(capsys, "--policy", "layer3+4", "--links", "2", f"--flow={known}")
    assert uplinks(fields) != [None] and uplinks(fields, "reverse") == [None]
    assert any(s.startswith("The uplink of the answers depends on the SPI") for s in fields["answer"])
    fields = run_json(capsys, "--policy", "layer3+4", "--links", "2", f"--flow={known},answer-spi=2")
    assert uplinks(fields, "reverse") != [None]


def test_notes_say_what_the_policy_option_replaces_or_leaves_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = ("--state", DUMPS / "bonding-802.3ad.txt")
    fields = run_json(capsys, *state, "--policy", "ip-hash", *PUBLISHED)
    assert "The dump states layer3+4; --policy replaces it." in fields["notes"]
    fields = run_json(capsys, *state, "--policy", "layer3+4", "--random", "2")
    assert not any("replaces it" in note for note in fields["notes"])
    fields = run_json(capsys, "--policy", "balance-xor", "--links", "2", "--random", "2")
    assert any("balance-xor hashes by layer2 unless" in note for note in fields["notes"])


@pytest.mark.parametrize(("text", "speed_bps"), [("1g", 10**9), ("400M", 4 * 10**8)])
def test_speeds_have_any_case(capsys: pytest.CaptureFixture[str], text: str, speed_bps: int) -> None:
    fields = run_json(capsys, "--policy", "ip-hash", "--links", "2", "--speed", text, *PUBLISHED)
    assert fields["uplinks"][0]["speed_bps"] == speed_bps


def test_a_quarter_of_a_flow_is_not_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "--policy", "balance-rr", "--links", "4", "--random", "1")
    assert "0.25" in output and "0.2 " not in output
