"""Published tables, as rows with levels of a study."""

from __future__ import annotations

import pytest

from vnetbench.estimate.metrics import METRICS
from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.published.tables import ValueWithRange, load_table
from vnetbench.study.factors.registry import format_level, parse_level
from vnetbench.study.workloads import WORKLOADS


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_level_is_valid_in_a_study(name: str) -> None:
    result = load_table(name)
    assert result.rows and result.workload in WORKLOADS
    for figure in result.rows:
        for factor, level in figure.levels.items():
            assert parse_level(factor, format_level(factor, level)) == level
        assert result.metric in figure.values.keys() <= METRICS.keys()


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_all_rows_have_different_levels(name: str) -> None:
    levels = [frozenset(figure.levels.items()) for figure in load_table(name).rows]
    assert len(levels) == len(set(levels))


def test_a_row_of_packet_forwarding_is_read_as_published() -> None:
    # vhost,"4,4","#4,#6",bi,150940,141087,157335
    levels = {"adapter": "virtio-net-vhost", "queues": 4, "vcpu_pin": "4,6", "direction": "both"}
    (figure,) = [f for f in load_table("packet-forwarding-2011").rows if levels.items() <= f.levels.items()]
    assert (
        figure.values["throughput_fps"] == ValueWithRange(150940, 141087, 157335)
        and figure.non_factor_cells == "4,4"
    )


def test_a_blank_cell_gives_no_level() -> None:
    virtual_functions = [f for f in load_table("packet-forwarding-2011").rows if f.levels["adapter"] == "vf"]
    assert len(virtual_functions) == 10
    assert all(
        "queues" not in figure.levels and figure.non_factor_cells == "" for figure in virtual_functions
    )


def test_a_row_of_ntttcp_is_converted_to_base_units_without_a_range() -> None:
    # 2x Xeon 5620,Windows 2008R2,9000,8,2,1,16,262144,16300.43,46.5,1.10,11597
    levels = {"mtu": 9000, "streams": 8, "label_receiver_cpus": "2", "label_ip_pairs": "1"}
    (figure,) = [
        f
        for f in load_table("ntttcp-vmxnet3-2011").rows
        if levels.items() <= f.levels.items() and f.levels["label_host"] == "2x Xeon 5620"
    ]
    assert figure.levels["message_size"] == 262144 and figure.levels["adapter"] == "vmxnet3"
    assert figure.non_factor_cells == "2x Xeon 5620, Windows 2008R2, 2, 1, 16"
    assert figure.values == {
        "goodput_bps": ValueWithRange(16300.43e6),
        "receiver_busy_percent": ValueWithRange(46.5),
        "receiver_cycles_per_byte": ValueWithRange(1.10),
        "receiver_interrupts_per_s": ValueWithRange(11597.0),
    }
