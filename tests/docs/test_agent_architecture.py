"""The agent's crates keep the order of docs/architecture.md, and the modules of a crate form no cycle."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.rust_modules import Module, between_siblings, find_cycle, uses

pytestmark = pytest.mark.pure

AGENT = ROOT / "agent"
CRATES = (
    "mutations", "system", "interfaces", "counters", "streams", "bpf-build", "bpf", "frames", "traffic",
    "teams", "delay-line", "iperf3", "agent",
)  # fmt: skip
"""In the order of the page: a crate depends only on those before it."""


def folder(crate: str) -> Path:
    return AGENT if crate == "agent" else AGENT / "crates" / crate


@lru_cache
def dependencies(crate: str) -> frozenset[str]:
    """Return the crates of the workspace that a crate depends on, in builds and in tests."""
    manifest = tomllib.loads((folder(crate) / "Cargo.toml").read_text(encoding="utf-8"))
    assert manifest["package"]["name"] == f"vnetbench-{crate}"
    tables = [manifest.get(kind, {}) for kind in ("dependencies", "dev-dependencies", "build-dependencies")]
    prefix = "vnetbench-"
    return frozenset(
        name.removeprefix(prefix) for table in tables for name in table if name.startswith(prefix)
    )


def cycle_in(graph: dict[Module, set[Module]]) -> list[Module]:
    """Return a cycle between files, or between folders; empty if there is none."""
    parents = {module[:depth] for module in graph for depth in range(len(module))}
    folders = (find_cycle(between_siblings(graph, parent)) for parent in sorted(parents))
    return find_cycle(graph) or next((cycle for cycle in folders if cycle), [])


def test_the_order_names_every_crate() -> None:
    members = {manifest.parent.name for manifest in AGENT.glob("crates/*/Cargo.toml")}
    assert members | {"agent"} == set(CRATES)


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_depends_only_on_crates_before_it(crate: str) -> None:
    assert dependencies(crate) <= set(CRATES[: CRATES.index(crate)])


def test_the_page_lists_the_crates_in_their_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [page.index(f"\n| `{crate}` | ") for crate in CRATES if crate != "agent"]
    assert rows == sorted(rows)


@pytest.mark.parametrize("crate", CRATES)
def test_the_modules_of_a_crate_form_no_cycle(crate: str) -> None:
    assert cycle_in(uses(folder(crate) / "src")) == []


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_opens_with_a_page_of_documentation(crate: str) -> None:
    root = folder(crate) / "src" / ("main.rs" if crate == "agent" else "lib.rs")
    opening = [line for line in root.read_text(encoding="utf-8").splitlines() if line.startswith("//!")]
    assert len(opening) >= 12


def test_the_uses_between_modules_are_found() -> None:
    graphs = {crate: uses(folder(crate) / "src") for crate in CRATES}
    assert sum(len(targets) for graph in graphs.values() for targets in graph.values()) > 300
    assert ("histogram",) in graphs["system"]
    assert ("tcp_stream",) in graphs["traffic"]["load",]
    assert ("packet", "sink") in graphs["frames"]["sink",]
    assert ("own_network",) not in graphs["frames"], "only tests have it"


@pytest.mark.parametrize(
    ("sources", "cycle"),
    [
        ({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::{self, B};", "b.rs": "fn f() {}"}, []),
        ({"a.rs": "use crate::b::B;", "b.rs": "fn f() -> super::a::A {}"}, [("a",), ("b",)]),
        ({"a.rs": "use crate::{c, b::{d, B}};", "b.rs": "use crate::a;"}, [("a",), ("b",)]),
        ({"a/mod.rs": "use self::b::B;", "a/b.rs": "use super::A;"}, [("a",), ("a", "b")]),
        ({"lib.rs": "pub use a::A;", "a.rs": "use crate::A;"}, [(), ("a",)]),
        (
            {"a/b.rs": "use crate::c::d;", "a/e.rs": "", "c/d.rs": "", "c/f.rs": "use crate::a::e;"}
            | {"a/mod.rs": "", "c/mod.rs": ""},
            [("a",), ("c",)],
        ),
        ({"a.rs": 'use crate::b;\n// crate::a\nconst A: &str = "crate::a";', "b.rs": "// crate::a"}, []),
        ({"a.rs": "use crate::b;", "b.rs": "#[cfg(test)]\nmod tests {\n use crate::a;\n}"}, []),
    ],
)
def test_a_cycle_is_found_in_use_lines_and_paths(
    tmp_path: Path, sources: dict[str, str], cycle: list[Module]
) -> None:
    for name, text in ({"lib.rs": ""} | sources).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert cycle_in(uses(tmp_path)) == cycle
