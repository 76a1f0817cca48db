"""Every tcpdump of the benchmarks keeps root's rights. Else it would give /dev/null to a user of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
COMMAND = re.compile(r"\btcpdump\s+-")


def find_commands(source: str) -> list[str]:
    """Return the texts of a Python file that contain a command line of tcpdump."""
    return [text for text in _texts(ast.parse(source)) if COMMAND.search(text)]


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield each string, each f-string as its source, and the words of each list or tuple as one text."""
    if isinstance(node, ast.JoinedStr):
        yield ast.unparse(node)
        return  # Its parts are no texts of their own.
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.List | ast.Tuple):
        words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
        yield " ".join(word for word in words if isinstance(word, str))
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


@pytest.mark.parametrize(
    "source",
    [
        'run("tcpdump -n -i any")',
        'run("exec tcpdump "\n    "-n -w /dev/null")',
        'run(f"tcpdump -s {size} -w /dev/null")',
        'run(["tcpdump", "-n", "-i", interface])',
    ],
)
def test_a_command_is_found_however_it_is_written(source: str) -> None:
    assert len(find_commands(source)) == 1


def test_every_tcpdump_of_the_benchmarks_runs_as_root() -> None:
    commands = [
        (path.relative_to(BENCH), text)
        for path in sorted(BENCH.rglob("*.py"))
        for text in find_commands(path.read_text())
    ]
    folders = {path.parts[1] for path, _ in commands if path.parts[0] == "redteam"}
    assert folders == {"causes", "causes_second", "causes_third"}
    assert [each for each in commands if "-Z root" not in each[1]] == []
