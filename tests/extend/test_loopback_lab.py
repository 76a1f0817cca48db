"""The lab of docs/how-to/extend/add-a-lab.md carries a real trial."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.docs.pages import ROOT
from tests.extend.loopback_lab import LOOPBACK_MTU, LoopbackLab
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec


def load(mtu: int) -> TrialLoad:
    levels = complete_levels({"mtu": mtu}, "tcp_stream")
    return TrialLoad(levels, duration_s=0.4, interval_s=0.1)


@pytest.mark.pure
def test_the_page_quotes_the_lab_in_full() -> None:
    example = (ROOT / "tests" / "extend" / "loopback_lab.py").read_text(encoding="utf-8")
    assert example in (ROOT / "docs" / "how-to" / "extend" / "add-a-lab.md").read_text(encoding="utf-8")


def test_a_new_lab_carries_a_trial() -> None:
    with closing(LabInstrument(LoopbackLab(), TestbedSpec())) as instrument:
        trial = instrument.measure(load(LOOPBACK_MTU), lambda: False)
    source, sink = (each for each in trial.measurement.endpoints if each.role in ("source", "sink"))
    assert (source.name, sink.name) == ("a1", "b1")
    assert source.bytes_sent == sink.bytes_received > 0
    assert trial.measurement.effective["mtu"] == LOOPBACK_MTU


def test_a_new_lab_refuses_what_it_cannot_set() -> None:
    with (
        closing(LabInstrument(LoopbackLab(), TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match="the loopback's MTU is 65536"),
    ):
        instrument.measure(load(1500), lambda: False)
