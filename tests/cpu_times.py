"""CPU time of tests, fixtures and imports.

Run pytest with `--cpu-times=FOLDER`, then `python -m tests.cpu_times FOLDER`.

Each pytest process writes a file of its own, so the report shows what several processes do again. CPU time is
the user and system time of the process, its children, and their ended children. Work of the kernel on packets
is not in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

_MAIN = "main"
"""File name of the process that starts the others. Its time contains theirs, so the report leaves it out."""


class CpuTimeRecorder:
    """Writes the CPU time of each step of one pytest process to a file, one JSON line a step."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._record("test", item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        return (yield from self._record("fixture", f"{fixturedef.baseid}::{fixturedef.argname}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, object]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        return (yield from self._record("import", collector.nodeid))

    def pytest_collection_finish(self) -> None:
        self._write("until the first test", "", read_cpu_s(), time.process_time())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._write("all", "", read_cpu_s(), time.process_time())

    def _record(self, kind: str, name: str) -> Generator[None, object, object]:
        cpu_s, clock_s = read_cpu_s(), time.monotonic()
        result = yield
        self._write(kind, name, read_cpu_s() - cpu_s, time.monotonic() - clock_s)
        return result

    def _write(self, kind: str, name: str, cpu_s: float, clock_s: float) -> None:
        self._file.write(json.dumps([kind, name, cpu_s, clock_s]) + "\n")
        self._file.flush()


def read_cpu_s() -> float:
    """Return the CPU time of this process, of its children, and of their children that ended."""
    return sum(os.times()[:4]) + sum(map(_read_child_cpu_s, _list_children()))


def _list_children() -> list[str]:
    """Return the process identifiers of the children that run."""
    return [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


def _read_child_cpu_s(pid: str) -> float:
    """Return the CPU time of a child and of its ended children; 0 if it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", type=Path, metavar="FOLDER", help="write the CPU time of each test here")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("cpu_times")
    if folder is not None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", _MAIN)
        config.pluginmanager.register(CpuTimeRecorder(folder.absolute() / f"{worker}.jsonl"))


def print_report(folder: Path, rows: int = 60) -> None:
    """Print the sums over all processes, and the most expensive tests, fixtures and imports."""
    cpu_s: dict[str, Counter[str]] = {}
    clock_s: Counter[str] = Counter()
    paths = sorted(folder.glob("*.jsonl"))
    for path in [each for each in paths if each.stem != _MAIN] or paths:
        for kind, name, cpu, clock in map(json.loads, path.read_text().splitlines()):
            cpu_s.setdefault(kind, Counter())[name or path.stem] += cpu
            if kind == "test":
                clock_s[name] += clock
    for kind, seconds in cpu_s.items():
        print(f"{seconds.total():8.1f} s of CPU time: {kind}")
    files = _group(cpu_s["test"], lambda name: name.partition("::")[0])
    _print_rows("folder", _group(files, lambda name: name.rpartition("/")[0]), rows)
    _print_rows("file", files, rows)
    _print_rows("test", _group(cpu_s["test"], lambda name: name.partition("[")[0]), rows)
    for kind in ("fixture", "import"):
        _print_rows(kind, cpu_s.get(kind, Counter()), rows // 2)
    _print_rows("elapsed time of a file", _group(clock_s, lambda name: name.partition("::")[0]), rows)


def _group(seconds: Counter[str], group_of: Callable[[str], str]) -> Counter[str]:
    groups: Counter[str] = Counter()
    for name, value in seconds.items():
        groups[group_of(name)] += value
    return groups


def _print_rows(title: str, seconds: Counter[str], rows: int) -> None:
    print(f"\n{title}")
    for name, value in seconds.most_common(rows):
        print(f"{value:8.2f}  {name}")


if __name__ == "__main__":
    print_report(Path(sys.argv[1]))
