"""What a run's label says of programs outside the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.redteam import groups, outside_programs
from bench.redteam.outside_programs import OutsideMeter

STAT = "812 (a (b) c) {state} 1 812 0 0 -1 {flags} 0 0 0 0 100 50 20 30 20 0 1 0 5 0 0" + " 0" * 14 + " 3 0 0"
SPIN = "while True: pass"
MEASURED_S = 1.0


@pytest.mark.parametrize(("flags", "is_kernel_thread"), [(0x40_0000, False), (0x20_8040, True)])
def test_a_process_is_read_with_its_ended_children(flags: int, is_kernel_thread: bool) -> None:
    process = outside_programs._parse_process(STAT.format(state="S", flags=flags))
    assert (process.name, process.cpu, process.is_kernel_thread) == ("a (b) c", 3, is_kernel_thread)
    assert process.used_s == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))


def test_without_control_groups_nothing_is_known_of_programs_outside() -> None:
    work = OutsideMeter(None, [min(os.sched_getaffinity(0))]).read()
    assert (work.programs_share, work.program_s) == (None, {})


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.usefixtures("real_root")
def test_a_program_outside_the_group_is_measured_and_one_inside_is_not(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for program in (outside, inside):
        shutil.copy(sys.executable, program)
    command = ["taskset", "-c", str(cpu)]
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
    with subprocess.Popen([*command, outside, "-c", SPIN], env=environment) as hog:
        try:
            with groups.confined([cpu]) as accounting:
                if accounting is None:
                    pytest.skip("needs control groups")
                alone = _measure(accounting, cpu)
                with subprocess.Popen([inside, "-c", SPIN], env=environment) as own:
                    shared = _measure(accounting, cpu)
                    own.kill()
        finally:
            hog.kill()
    assert alone.programs_share is not None
    assert shared.programs_share is not None
    # Other work of the machine may use the same CPU, but the group's own program ranks before it.
    assert alone.programs_share > 0.5 > shared.programs_share
    assert "outside" in alone.program_s
    assert "inside" not in shared.program_s


def _measure(accounting: Path, cpu: int) -> outside_programs.OutsideWork:
    meter = OutsideMeter(accounting, [cpu])
    time.sleep(MEASURED_S)
    return meter.read()
