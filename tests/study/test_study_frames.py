"""Frame workloads in a study: frame sizes, loads, the search, and contradictions."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import only_problem
from vnetbench.study.factors.frame_factors import compute_largest_packet_bytes
from vnetbench.study.factors.frame_sizes import compute_mean_frame_bytes
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import SearchSpec
from vnetbench.study.workloads import FRAME_WORKLOAD_NAMES, choose_deciding_metric


def frames(factors: str, more: str = "", workload: str = "frames") -> str:
    return f'title = "x"\nworkload = "{workload}"\n[factors]\n{factors}\n{more}'


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ("frame_size = 64\nip_version = 6", "need 84"),
        ("frame_size = 64\nvlan_tags = 1", "need 68"),
        ('frame_size = "imix"\nip_version = 6', "need 84"),
        ("frame_size = 1519\nmtu = 1500", "its packet of 1501 bytes does not fit"),
        ('frame_size = 64\ndirection = "3/1"', "direction = 3/1 is not possible with frames"),
        ('frame_load = "50 %"', "which the workload frames does not search for"),
    ],
)
def test_impossible_frame_levels_are_reported(factors: str, what: str) -> None:
    problem = only_problem(frames(factors))
    assert what in problem.what and problem.study_line is not None and problem.study_line >= 4


def test_frames_of_1518_bytes_fill_an_mtu_of_1500_without_their_vlan_tags() -> None:
    assert compute_largest_packet_bytes({"frame_size": 1518}) == 1500
    assert compute_largest_packet_bytes({"frame_size": 1522, "vlan_tags": 1}) == 1500
    # Linux lets a frame be one tag longer, and no more.
    assert compute_largest_packet_bytes({"frame_size": 1522, "vlan_tags": 2}) == 1500
    parse_study(frames("frame_size = [1518, 1519]\nmtu = [1500, 1501]", EXCLUDED), None)


EXCLUDED = "[[exclude]]\nframe_size = 1519\nmtu = 1500\n"


def test_frames_are_the_smallest_by_default_and_large_frames_raise_the_mtu() -> None:
    assert complete_levels({}, "frames")["frame_size"] == 64
    assert complete_levels({"ip_version": "6", "vlan_tags": 2}, "frames")["frame_size"] == 92
    assert complete_levels({}, "frames")["mtu"] == 1500
    assert complete_levels({"frame_size": 9018}, "frames")["mtu"] == 9000
    assert complete_levels({"frame_size": 9018, "mtu": 9216}, "frames")["mtu"] == 9216


def test_the_mean_of_the_internet_mix_weighs_its_sizes_by_seven_four_and_one() -> None:
    assert compute_mean_frame_bytes("imix") == pytest.approx((7 * 64 + 4 * 570 + 1518) / 12)
    assert compute_mean_frame_bytes(128) == 128


def test_a_router_does_not_accept_vlan_tags() -> None:
    guest = '[testbed]\nlab = "qemu"\n'
    problem = only_problem(frames('frame_size = 128\nvlan_tags = 1\nrole = ["bridge", "router"]', guest))
    assert "with a router" in problem.what


def test_frames_larger_than_a_fixed_vswitch_mtu_are_reported() -> None:
    problem = only_problem(frames("frame_size = 9018", "[testbed]\nvswitch_mtu = 1500\n"))
    assert "too large for testbed.vswitch_mtu" in problem.what


def test_the_workload_frames_searches_only_with_a_search_section() -> None:
    factors = "frame_size = 64"
    assert parse_study(frames(factors), None).search is None
    assert parse_study(frames(factors, "[search]\n"), None).search == SearchSpec()
    assert parse_study(frames(factors), None, ["search.width=2%"]).search == SearchSpec(relative_width=0.02)
    for workload in ("frame_latency", "frame_loss", "back_to_back"):
        assert parse_study(frames(factors, workload=workload), None).search == SearchSpec()


def test_loss_goals_are_a_text_or_a_list_of_ascending_shares() -> None:
    for written in ('"0 %, 0.01 %, 0.5 %"', '["0 %", "0.01 %", "0.5 %"]'):
        study = parse_study(frames("frame_size = 64", f"[search]\nloss = {written}\n"), None)
        assert study.search is not None and study.search.loss_goal_ratios == pytest.approx((0, 0.0001, 0.005))
    for wrong in (
        '["0.5 %", "0 %"]',
        "[]",
        '["0 %", "0 %"]',
        '"60 %"',
        "0",
        '["1 %","2 %","3 %","4 %","5 %"]',
    ):
        problem = only_problem(frames("frame_size = 64", f"[search]\nloss = {wrong}\n"))
        assert problem.what.startswith("loss: ") and problem.study_line == 6


def test_a_search_needs_frames_and_chooses_the_loads_itself() -> None:
    problem = only_problem('title = "x"\n[factors]\nmtu = 1500\n[search]\nwidth = "1 %"\n')
    assert (problem.what, problem.study_line) == ("the workload tcp_stream has no search", 4)
    problem = only_problem(frames('frame_load = "1 kframe/s"', "[search]\n"))
    assert "the search chooses the loads" in problem.what
    bounds = '[search]\nmax_load = "1 kframe/s"\nmin_load = "2 kframe/s"\n'
    assert "has no range of loads" in only_problem(frames("frame_size = 64", bounds)).what


def test_a_soak_needs_a_duration() -> None:
    problem = only_problem(frames('frame_load = "90 %"', workload="soak"))
    assert "needs a duration" in problem.what
    parse_study(frames('frame_load = "90 %"', '[timing]\nduration = "1 h"\n', "soak"), None)


@pytest.mark.parametrize(
    ("timing_line", "warmup_s"), [("", 0.0), ('warmup = "auto"', 0.0), ('warmup = "5 s"', 5.0)]
)
def test_a_soak_has_no_warmup_unless_the_study_sets_one(timing_line: str, warmup_s: float) -> None:
    timing = f'[timing]\nduration = "1 h"\n{timing_line}\n'
    assert parse_study(frames('frame_load = "90 %"', timing, "soak"), None).timing.warmup_s == warmup_s


@pytest.mark.parametrize(("factor", "nearest"), [("streams = 4", "flows"), ('rate = "1 k/s"', "frame_load")])
def test_a_socket_factor_is_answered_with_the_equivalent_frame_factor(factor: str, nearest: str) -> None:
    problem = only_problem(frames(factor))
    assert problem.what.endswith("is not a factor of the workload frames")
    assert problem.fix == f'did you mean "{nearest}"?'


def test_a_search_decides_by_throughput_and_a_constant_load_by_forwarding_rate() -> None:
    deciding_metrics = {
        workload: choose_deciding_metric(
            parse_study(frames("flows = 1", '[timing]\nduration = "1 s"\n', workload), None)
        )
        for workload in FRAME_WORKLOAD_NAMES
    }
    assert deciding_metrics == {
        "frames": "forwarding_rate_fps",
        "frame_latency": "delay_p99_us",
        "frame_loss": "max_forwarding_rate_fps",
        "back_to_back": "back_to_back_frames",
        "soak": "forwarding_rate_fps",
    }
    assert choose_deciding_metric(parse_study(frames("flows = 1", "[search]\n"), None)) == "throughput_fps"
