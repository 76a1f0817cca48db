"""The ends of a path: their forms, the studies that they make, and ends that do not fit together."""

from __future__ import annotations

import pytest

from vnetbench.check.ends import parse_path
from vnetbench.check.parts import make_parts
from vnetbench.check.text import check_command
from vnetbench.errors import BenchError
from vnetbench.study.plan import make_plan

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("arguments", [[], ["local"], ["local", "local"]])
def test_this_machine_alone_is_a_lab(arguments: list[str]) -> None:
    path = parse_path(arguments)
    assert path.is_own_lab and path.has_both_agents
    assert [part.study.testbed.lab for part in make_parts(path, "quick", None)] == ["netns"] * 3


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["web-01"], ("here", "web-01")),
        (["local", "root@web-01"], ("here", "web-01")),
        (["web-01", "local"], ("web-01", "here")),
        (["web-01", "ssh://root@db-01:2222"], ("web-01", "db-01")),
        (["iperf3://esx-07"], ("here", "esx-07")),
        (["iperf3://[2001:db8::7]:5202", "local"], ("here", "2001-db8--7")),
        (["host"], ("here", "host-1")),
        (["a@web", "b@web"], ("web", "web-2")),
    ],
)
def test_ends_have_names_that_a_study_accepts(arguments: list[str], names: tuple[str, str]) -> None:
    path = parse_path(arguments)
    parts = make_parts(path, "normal", None)
    assert (path.first.name, path.second.name) == names
    for part in parts:
        assert tuple(end.name for end in part.study.testbed.existing_endpoints) == names
    assert [part.name for part in parts] == (
        ["goodput", "latency", "packets"] if path.has_both_agents else ["goodput"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "c"], "two ends"),
        (["-web"], "is not a valid name"),
        (["iperf3://"], "is not the address of a server"),
        (["iperf3://a", "iperf3://b"], "both ends are iperf3 servers"),
        (["web-01", "iperf3://b"], "from this machine only"),
        (["web-01", "web-01"], "the same machine"),
    ],
)
def test_ends_that_cannot_be_measured_are_refused_with_the_fix(arguments: list[str], message: str) -> None:
    with pytest.raises(BenchError) as refused:
        parse_path(arguments)
    assert message in str(refused.value)
    assert refused.value.fix


@pytest.mark.parametrize("depth", ["quick", "normal", "thorough"])
def test_every_part_allows_an_interval(depth: str) -> None:
    for part in make_parts(parse_path([]), depth, None):
        assert part.study.precision.min_trials >= 6
        assert part.max_duration_s > 0


@pytest.mark.parametrize("depth", ["quick", "normal", "thorough"])
def test_the_maximum_rate_bounds_all_streams_of_a_direction_together(depth: str) -> None:
    limit_bps = 10**8
    goodput, latency, packets = make_parts(parse_path([]), depth, limit_bps)
    for part in (goodput, latency):
        treatments = make_plan(part.study, 1).treatments
        assert treatments
        for each in treatments:
            total = int(each.factors["streams"]) * int(each.factors["pacing_rate"])
            assert 0.99 * limit_bps <= total <= limit_bps
    for each in make_plan(packets.study, 1).treatments:
        assert float(each.factors["rate"]) * 8 * 110 <= 1.001 * limit_bps


def test_an_override_applies_to_the_parts_that_have_the_factor() -> None:
    parts = make_parts(parse_path([]), "quick", None, ["link_rate=1 Gbit/s", "send_mode=copy"])
    factors = {part.name: {factor.name for factor in part.study.factors} for part in parts}
    assert all("link_rate" in names for names in factors.values())
    assert [name for name, names in factors.items() if "send_mode" in names] == ["goodput"]
    with pytest.raises(BenchError):
        make_parts(parse_path([]), "quick", None, ["no_factor=1"])


def test_a_lab_of_two_guests_has_all_parts_and_its_own_command() -> None:
    path = parse_path([], "qemu")
    parts = make_parts(path, "quick", None, ["adapter=vmxnet3"])
    assert [part.study.testbed.lab for part in parts] == ["qemu"] * 3
    assert check_command(path, "--quick") == "vnetbench check --lab qemu --quick"
    with pytest.raises(BenchError, match="creates both ends"):
        parse_path(["web-01"], "qemu")


def test_the_maximum_rate_also_limits_an_iperf3_server() -> None:
    (goodput,) = make_parts(parse_path(["iperf3://esx-07"]), "quick", 10**8)
    for each in make_plan(goodput.study, 1).treatments:
        assert int(each.factors["streams"]) * int(each.factors["pacing_rate"]) == 10**8


@pytest.mark.parametrize("depth", ["quick", "normal", "thorough"])
def test_trials_at_a_low_rate_last_until_the_first_packets_matter_little(depth: str) -> None:
    limit_bps = 10**7
    for part in make_parts(parse_path([]), depth, limit_bps)[:2]:
        duration_s = part.study.timing.duration_s or 0.5
        most_streams = max(int(each.factors["streams"]) for each in make_plan(part.study, 1).treatments)
        assert most_streams * 10 * 1500 * 8 / duration_s <= 0.101 * limit_bps
