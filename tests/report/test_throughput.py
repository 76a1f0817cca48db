"""The table of `vnetbench throughput`: a line per frame size and loss goal in 80 columns."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.campaign.simulated_frames import SimulatedPorts
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.commands.throughput import DEFAULT_STUDY_TOML
from vnetbench.estimate.summarize import summarize
from vnetbench.report.tables.throughput_table import throughput_table
from vnetbench.results.file import ResultsFile
from vnetbench.study.file.load import parse_study
from vnetbench.study.plan import make_plan


def run_and_print(path: Path, ports: SimulatedPorts, *overrides: str) -> str:
    study = parse_study(DEFAULT_STUDY_TOML, None, ["search.method=rfc2544", *overrides])
    plan = make_plan(study, 7)
    file = ResultsFile.create(path, study, plan)
    campaign = CampaignSession(file, study, plan, ports, lambda *_: None, lambda: None)
    with SignalHandler() as signal_handler:
        campaign.run(signal_handler)
    console = Console(width=80, record=True, file=path.with_suffix(".txt").open("w"))
    console.print(throughput_table(summarize(file)))
    file.close("finished")
    return console.export_text()


def test_each_size_and_goal_has_a_line_with_its_limit(tmp_path: Path) -> None:
    sizes = ("frame_size=64,1518", "search.loss=0 %, 0.5 %")
    lines = run_and_print(tmp_path / "r.vnb", SimulatedPorts(), *sizes).splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("64", "1518"))]
    assert [row[:3] for row in rows] == [
        [size, loss, "%"] for size in ("64", "1518") for loss in ("0", "0.5")
    ]
    assert all(row[-1] == "device" for row in rows)
    assert all(99 < float(row[3]) < 101 and row[4] == "kframe/s" for row in rows)
    assert any("Each search reports its own interval" in line for line in lines)


def test_a_throughput_limited_by_the_generator_is_a_lower_bound(tmp_path: Path) -> None:
    ports = SimulatedPorts(SimulatedDevice(DeviceModel(limit_fps=1e9), 1))
    text = run_and_print(tmp_path / "r.vnb", ports)
    (row,) = [line for line in text.splitlines() if line.strip().startswith("64")]
    assert "≥ " in row and row.split()[-1] == "generator"
