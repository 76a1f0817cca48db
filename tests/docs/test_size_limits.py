"""Limits of docs/architecture.md for the length of files and functions, in Python and in Rust."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from tests.docs.pages import ROOT

pytestmark = pytest.mark.pure

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

FUNCTIONS = {
    "long.py": ("class Long:\n    @property\n    def long(self):\n", "        call()\n", ""),
    "long.rs": ("mod inner {\n    fn long() {\n", "        call();\n", "    }\n}\n"),
}
"""Start, repeated line and end of a file with one function, by its name."""


def source_files() -> list[Path]:
    """Return the Python and Rust files that git tracks or would add."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py", "*.rs")
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).exists()]


def function_lengths(name: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the lines of each function, from its signature to its end."""
    if name.endswith(".py"):
        for statement in ast.walk(ast.parse(text)):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield statement.name, (statement.end_lineno or 0) - statement.lineno + 1
        return
    pending: list[Node] = [Parser(Language(tree_sitter_rust.language())).parse(text.encode()).root_node]
    while pending:
        node = pending.pop()
        pending += node.children
        if node.type == "function_item":
            identifier = node.child_by_field_name("name")
            assert identifier is not None and identifier.text is not None
            yield identifier.text.decode(), node.end_point[0] - node.start_point[0] + 1


def too_long(name: str, text: str) -> list[str]:
    """Return the file and those of its functions that exceed the limits."""
    line_count = text.count("\n")
    files = [f"{name}: {line_count} lines"] if line_count > MAX_FILE_LINES else []
    return files + [
        f"{name}: {function} has {length} lines"
        for function, length in function_lengths(name, text)
        if length > MAX_FUNCTION_LINES
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_past_the_limit_is_found(name: str) -> None:
    start, line, end = FUNCTIONS[name]
    signature_and_end = 2 if end else 1
    longest = MAX_FUNCTION_LINES - signature_and_end
    assert too_long(name, start + line * longest + end) == []
    assert too_long(name, start + line * (longest + 1) + end) == [f"{name}: long has 61 lines"]


def test_a_file_past_the_limit_is_found() -> None:
    assert too_long("long.py", "call()\n" * 400) == []
    assert too_long("long.py", "call()\n" * 401) == ["long.py: 401 lines"]


def test_no_file_and_no_function_is_past_its_limit() -> None:
    files = source_files()
    assert {path.suffix for path in files} == {".py", ".rs"}
    excess = [
        each for path in files for each in too_long(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    assert not excess, "\n".join(excess)
