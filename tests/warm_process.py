"""Runs Python modules as programs in processes of their own, without the import time of a new interpreter.

A server imports the libraries of the bench once. For each program it forks a process, so that a test sees a
true exit code, true output and no state of the test. The server has only one thread, so forking is safe.
Tests of the start of the program itself (its imports, its environment, signals) start a new interpreter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_LIBRARIES = (
    "altair", "jinja2.ext", "openpyxl", "pyroute2", "rich.table", "ruptures", "scipy.special", "scipy.stats",
    "vl_convert", "vnetbench.audit", "vnetbench.cli", "vnetbench.commands.summaries",
    "vnetbench.estimate.summarize",
    "vnetbench.explain", "vnetbench.importers.log_parser", "vnetbench.importers.table",
    "vnetbench.report.page.html", "vnetbench.study.file.load",
)  # fmt: skip
"""What most programs of the tests import."""


class WarmServer:
    """The server's process, as its tests see it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm_process"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, module: str, arguments: Sequence[str | Path], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder, with this process's environment, and return what it printed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.TemporaryDirectory() as output_folder:
            outputs = [str(Path(output_folder) / name) for name in ("stdout", "stderr")]
            command = [module, *map(str, arguments)]
            request = {
                "command": command,
                "environment": dict(os.environ),
                "folder": str(folder),
                "outputs": outputs,
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            exit_code = int(self._process.stdout.readline())
            stdout, stderr = (Path(each).read_text(encoding="utf-8") for each in outputs)
        return subprocess.CompletedProcess(command, exit_code, stdout, stderr)

    def close(self) -> None:
        self._process.communicate()


_servers: list[WarmServer] = []
"""The server of this process, once a test needs it."""


def run_module(
    module: str, *arguments: str | Path, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENT…` in a forked process, without input, in a folder or the current one."""
    if not _servers:
        _servers.append(WarmServer())
    return _servers[0].run(module, arguments, folder or Path.cwd())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    while _servers:
        _servers.pop().close()


def _serve() -> None:
    """Run programs until the end of the input. Each returns from here, in a process of its own."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(**json.loads(line))
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(command: list[str], environment: dict[str, str], folder: str, outputs: list[str]) -> None:
    """Turn this process into that of the program and run it."""
    for descriptor, path in enumerate([os.devnull, *outputs]):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
