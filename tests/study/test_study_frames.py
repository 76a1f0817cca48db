"""Frames in a study: their sizes and loads, the search, and what contradicts each other."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import the_problem
from vnetbench.study.factors.frame_sizes import largest_packet_bytes, mean_frame_bytes
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import SearchSpec
from vnetbench.study.workloads import FRAME_WORKLOADS, deciding_metric


def frames(factors: str, more: str = "", workload: str = "frames") -> str:
    return f'title = "x"\nworkload = "{workload}"\n[factors]\n{factors}\n{more}'


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ("frame_size = 64\nip_version = 6", "take 84"),
        ("frame_size = 64\nvlan_tags = 1", "take 68"),
        ('frame_size = "imix"\nip_version = 6', "take 84"),
        ("frame_size = 1519\nmtu = 1500", "a packet of 1501 bytes does not fit"),
        ('frame_size = 64\ndirection = "3/1"', "direction = 3/1 with frames"),
        ('frame_load = "50 %"', "no throughput is searched"),
    ],
)
def test_frames_are_not_asked_for_in_ways_that_cannot_be(factors: str, what: str) -> None:
    problem = the_problem(frames(factors))
    assert what in problem.what and problem.line is not None and problem.line >= 4


def test_frames_of_1518_bytes_fill_an_mtu_of_1500_and_tags_come_on_top() -> None:
    assert largest_packet_bytes({"frame_size": 1518}) == 1500
    assert largest_packet_bytes({"frame_size": 1522, "vlan_tags": 1}) == 1500
    # Linux lets a frame be one tag longer, and no more.
    assert largest_packet_bytes({"frame_size": 1522, "vlan_tags": 2}) == 1500
    parse_study(frames("frame_size = [1518, 1519]\nmtu = [1500, 1501]", EXCLUDED), None)


EXCLUDED = "[[exclude]]\nframe_size = 1519\nmtu = 1500\n"


def test_frames_that_nobody_names_are_the_smallest_and_the_mtu_follows_large_ones() -> None:
    assert complete_levels({}, "frames")["frame_size"] == 64
    assert complete_levels({"ip_version": "6", "vlan_tags": 2}, "frames")["frame_size"] == 92
    assert complete_levels({}, "frames")["mtu"] == 1500
    assert complete_levels({"frame_size": 9018}, "frames")["mtu"] == 9000
    assert complete_levels({"frame_size": 9018, "mtu": 9216}, "frames")["mtu"] == 9216


def test_the_mix_is_seven_four_and_one_of_twelve() -> None:
    assert mean_frame_bytes("imix") == pytest.approx((7 * 64 + 4 * 570 + 1518) / 12)
    assert mean_frame_bytes(128) == 128


def test_a_router_takes_no_tags() -> None:
    guest = '[testbed]\nlab = "qemu"\n'
    problem = the_problem(frames('frame_size = 128\nvlan_tags = 1\nrole = ["bridge", "router"]', guest))
    assert "with a router" in problem.what


def test_a_fixed_mtu_of_the_vswitch_is_held_against_the_frames() -> None:
    problem = the_problem(frames("frame_size = 9018", "[testbed]\nvswitch_mtu = 1500\n"))
    assert "does not fit testbed.vswitch_mtu" in problem.what


def test_frames_search_where_the_section_stands_and_the_other_tests_always() -> None:
    factors = "frame_size = 64"
    assert parse_study(frames(factors), None).search is None
    assert parse_study(frames(factors, "[search]\n"), None).search == SearchSpec()
    assert parse_study(frames(factors), None, ["search.width=2%"]).search == SearchSpec(width=0.02)
    for workload in ("frame_latency", "frame_loss", "back_to_back"):
        assert parse_study(frames(factors, workload=workload), None).search == SearchSpec()


def test_goals_are_a_text_or_a_list_of_ascending_shares() -> None:
    for written in ('"0 %, 0.01 %, 0.5 %"', '["0 %", "0.01 %", "0.5 %"]'):
        study = parse_study(frames("frame_size = 64", f"[search]\nloss = {written}\n"), None)
        assert study.search is not None and study.search.goals == pytest.approx((0, 0.0001, 0.005))
    for wrong in (
        '["0.5 %", "0 %"]',
        "[]",
        '["0 %", "0 %"]',
        '"60 %"',
        "0",
        '["1 %","2 %","3 %","4 %","5 %"]',
    ):
        problem = the_problem(frames("frame_size = 64", f"[search]\nloss = {wrong}\n"))
        assert problem.what.startswith("loss: ") and problem.line == 6


def test_a_search_is_of_frames_and_leaves_the_loads_to_itself() -> None:
    problem = the_problem('title = "x"\n[factors]\nmtu = 1500\n[search]\nwidth = "1 %"\n')
    assert (problem.what, problem.line) == ("the workload tcp_stream has no search", 4)
    problem = the_problem(frames('frame_load = "1 kframe/s"', "[search]\n"))
    assert "the search chooses the loads" in problem.what
    bounds = '[search]\nmost_load = "1 kframe/s"\nleast_load = "2 kframe/s"\n'
    assert "leave nothing to search" in the_problem(frames("frame_size = 64", bounds)).what


def test_what_is_soaked_for_how_long_has_to_be_said() -> None:
    problem = the_problem(frames('frame_load = "90 %"', workload="soak"))
    assert "no duration is" in problem.what
    parse_study(frames('frame_load = "90 %"', '[timing]\nduration = "1 h"\n', "soak"), None)


@pytest.mark.parametrize(("told", "warmup_s"), [("", 0.0), ('warmup = "auto"', 0.0), ('warmup = "5 s"', 5.0)])
def test_all_of_a_soak_counts_unless_the_study_says_otherwise(told: str, warmup_s: float) -> None:
    timing = f'[timing]\nduration = "1 h"\n{told}\n'
    assert parse_study(frames('frame_load = "90 %"', timing, "soak"), None).timing.warmup_s == warmup_s


@pytest.mark.parametrize(("factor", "nearest"), [("streams = 4", "flows"), ('rate = "1 k/s"', "frame_load")])
def test_a_factor_of_sockets_is_answered_with_that_of_frames(factor: str, nearest: str) -> None:
    problem = the_problem(frames(factor))
    assert problem.what.endswith("is not a factor of the workload frames")
    assert problem.fix == f'did you mean "{nearest}"?'


def test_a_search_decides_by_the_throughput_and_a_load_by_what_is_forwarded() -> None:
    decided = {
        workload: deciding_metric(
            parse_study(frames("flows = 1", '[timing]\nduration = "1 s"\n', workload), None)
        )
        for workload in FRAME_WORKLOADS
    }
    assert decided == {
        "frames": "forwarding_rate_fps",
        "frame_latency": "delay_p99_us",
        "frame_loss": "max_forwarding_rate_fps",
        "back_to_back": "back_to_back_frames",
        "soak": "forwarding_rate_fps",
    }
    assert deciding_metric(parse_study(frames("flows = 1", "[search]\n"), None)) == "throughput_fps"
