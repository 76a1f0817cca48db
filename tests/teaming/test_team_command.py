"""`vnetbench team predict`: its answer, JSON, advice and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.faults import bench_process as bench
from vnetbench.cli import cli
from vnetbench.errors import BenchError

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
    code, output = bench.run(
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


def test_unequal_speeds_give_the_sum_of_used_links_and_the_limit_of_equal_flows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--policy", "ip-hash", "--links", "4", "--speed", "10G,1G,10G,10G", *PUBLISHED)
    output = run(capsys, *arguments)
    assert output.startswith("4 flows use 2 of 4 uplinks: at most 11 Gbit/s of 31 Gbit/s.\n")
    # Two flows share the uplink of 1 Gbit/s: 4 × 0.5 Gbit/s.
    assert "limits them to 2 Gbit/s" in output


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
        (("--policy", "ip-hash", "--links", "1000", *PUBLISHED), "a team of 1000 uplinks"),
        (("--policy", "cisco-src-ip", "--links", "9", *PUBLISHED), "at most 8 uplinks, not 9"),
        (("--policy", "layer3+4", "--links", "2", *PUBLISHED), "needs the source port of a flow"),
        (("--policy", "ip-hash", "--links", "2", "--flow", "10.0.0.1-2001:db8::1"), "mixes IPv4 and IPv6"),
        (("--policy", "ip-hash", "--links", "2"), "there is no flow to predict"),
        (("--links", "2", *PUBLISHED), "the policy is unknown"),
        (("--policy", "ip-hash", *PUBLISHED), "the uplinks are unknown"),
        (("--policy", "ip-hash", "--links", "2", "--random", "0"), "--random 0"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "fast", *PUBLISHED), "--speed"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "0G", *PUBLISHED), "0 bit/s carries nothing"),
        (("--policy", "ip-hash", "--links", "2", "--speed", "1G,1G,1G", *PUBLISHED), "3 rates for 2 uplinks"),
        (("--policy", "ip-hash", "--links", "2", "--state", DUMPS / "bonding-xor.txt"), "remove --links"),
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
    code, output = bench.run("team", "predict", "--policy", "layer3+4", "--links", "2", *PUBLISHED)
    assert code == 2 and "fix: " in output and "Traceback" not in output
    code, output = bench.run(
        "team", "predict", "--policy", "ip-hash", "--state", tmp_path / "none", *PUBLISHED
    )
    assert code == 2 and "Traceback" not in output


def test_policies_are_listed_with_what_they_need() -> None:
    code, output = bench.run("team", "policies")
    assert code == 0 and "layer3+4" in output and "balance-slb" in output and "cisco-src-dst-mixed" in output
