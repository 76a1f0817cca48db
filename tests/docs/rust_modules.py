"""Which modules of a crate use which, read from the `use` lines and paths of its sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
"""The path of a module below its crate; the crate's root is empty."""

COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL)
TEST_MODULE_INLINE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{.*", re.DOTALL)
TEST_MODULE_FILE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^]]*\]\s*)?mod (\w+);")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:$])(?:\w+::)+\w+")


def module_files(source: Path) -> dict[Module, Path]:
    """Return each module below a `src` folder with its file, without those that only tests have."""
    files = {}
    for file in source.rglob("*.rs"):
        parts = file.relative_to(source).with_suffix("").parts
        if parts in {("lib",), ("main",)}:
            parts = ()
        files[parts[:-1] if parts and parts[-1] == "mod" else parts] = file
    only_in_tests = {
        (*module, name)
        for module, file in files.items()
        for name in TEST_MODULE_FILE.findall(file.read_text(encoding="utf-8"))
    }
    return {module: file for module, file in files.items() if module not in only_in_tests}


def use_leaves(tree: str) -> Iterator[str]:
    """Yield each path of a `use` line: `a::{b, c::d}` has `a::b` and `a::c::d`."""
    start, brace, rest = tree.strip().partition("{")
    if not brace:
        yield start.partition(" as ")[0].strip()
        return
    depth, branch = 0, ""
    for character in rest[: rest.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if branch.strip():
                yield from (start + leaf for leaf in use_leaves(branch))
            branch = ""
        else:
            branch += character


def resolve(path: str, module: Module, modules: set[Module]) -> Module | None:
    """Return the module of this crate that a path in `module` leads to, or `None` for a path elsewhere."""
    first, *rest = (part.strip() for part in path.split("::"))
    if first == "crate":
        absolute: Module = tuple(rest)
    elif first == "super":
        base = module[:-1]
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        absolute = (*base, *rest)
    elif first == "self":
        absolute = (*module, *rest)
    elif (*module, first) in modules:
        absolute = (*module, first, *rest)
    else:
        return None
    while absolute not in modules:
        absolute = absolute[:-1]
    return absolute


def uses(source: Path) -> dict[Module, set[Module]]:
    """Return for each module of a crate the other modules that it names outside its tests."""
    files = module_files(source)
    modules = set(files)
    graph: dict[Module, set[Module]] = {}
    for module, file in files.items():
        text = COMMENT_OR_TEXT.sub('""', file.read_text(encoding="utf-8"))
        text = TEST_MODULE_INLINE.sub("", text)
        paths = [leaf for tree in USE.findall(text) for leaf in use_leaves(tree)]
        paths += PATH.findall(USE.sub("", text))
        targets = {resolve(path, module, modules) for path in paths}
        graph[module] = {target for target in targets if target is not None and target != module}
    return graph


def between_siblings(graph: dict[Module, set[Module]], parent: Module) -> dict[Module, set[Module]]:
    """Return which children of a module use which, each child standing for all modules below it."""
    depth = len(parent) + 1
    children: dict[Module, set[Module]] = {}
    for module, targets in graph.items():
        if len(module) >= depth and module[: depth - 1] == parent:
            below = {target[:depth] for target in targets if target[: depth - 1] == parent}
            child = children.setdefault(module[:depth], set())
            child |= {target for target in below if len(target) == depth and target != module[:depth]}
    return children


def find_cycle(graph: dict[Module, set[Module]]) -> list[Module]:
    """Return modules that use each other in a circle, empty if there is no such circle."""
    done: set[Module] = set()

    def visit(module: Module, trail: list[Module]) -> list[Module]:
        if module in trail:
            return trail[trail.index(module) :]
        if module in done:
            return []
        for target in sorted(graph.get(module, ())):
            if cycle := visit(target, [*trail, module]):
                return cycle
        done.add(module)
        return []

    return next((cycle for module in sorted(graph) if (cycle := visit(module, []))), [])
