"""Finds the source files that name a factor, by the syntax trees of Python and Rust.

In Python a name counts where it stands for the factor: a key of a treatment's levels, an argument, an
operand, a member of a collection of such names, or a module named after the factor. Many factors have the
name of an ordinary thing too (`streams`, `mtu`, `role`), so a key of other mappings does not count: it names
a field of a message or a stored value. Docstrings and sentences do not count either. A file that imports the
factor itself (`MTU.read_level(levels)`) follows a change of the name and does not count.

In Rust the knobs of the factor count, and the fields of requests that carry its level.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from vnetbench.study.factors.factor import Factor

_LEVEL_MAPPINGS = ("levels", "factors", "completed", "treatment")
"""Parts of the names of variables that hold a treatment's levels, or functions that take them."""
_LOOKUPS = ("get", "pop", "setdefault")
_AGENT_NAMES = ("agent_parameter", "knobs")
"""Fields of a factor that hold names of the agent, which other factors may have too."""
_RUST = Parser(Language(tree_sitter_rust.language()))


def names_in_python(source: str, names: frozenset[str]) -> set[str]:
    """Return the factors that a Python file names."""
    tree = ast.parse(source)
    others = {id(node) for node in _names_of_other_things(tree, names)}
    found = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in others
    }
    # A module with an ordinary word as its name, such as `threads`, is about the thing, not the factor.
    found |= {name for name in _imported_names(tree) if "_" in name}
    return found & names


def _names_of_other_things(tree: ast.AST, names: frozenset[str]) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                yield docstring
            case ast.Subscript(value=mapping, slice=key) if not _is_mapping_of_levels(mapping):
                yield key
            case ast.Call(func=ast.Attribute(value=mapping, attr=attr), args=[key, *_]) if attr in _LOOKUPS:
                if not _is_mapping_of_levels(mapping):
                    yield key
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[mapping]):
                if not isinstance(mapping, ast.Tuple | ast.List | ast.Set | ast.Dict) and (
                    not _is_mapping_of_levels(mapping)
                ):
                    yield key
            case ast.Dict(keys=members) | ast.Tuple(elts=members) | ast.List(elts=members):
                texts = [member for member in members if isinstance(member, ast.Constant)]
                if not all(text.value in names for text in texts):
                    yield from texts
            case ast.Call(func=ast.Name(id="Factor"), keywords=keywords):
                for keyword in keywords:
                    if keyword.arg in _AGENT_NAMES:
                        yield from ast.walk(keyword.value)


def _is_mapping_of_levels(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Call(func=ast.Attribute(attr=name)):
            return any(part in name for part in _LEVEL_MAPPINGS)
    return False


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in (*modules, *(alias.name for alias in node.names)):
                yield name.rpartition(".")[2]


def rust_file_sets(source: str, factor: Factor) -> bool:
    """Return whether a Rust file names a knob of the factor, or takes its level in a request."""
    strings, fields = _strings_and_request_fields(source)
    return not strings.isdisjoint(factor.knobs) or factor.agent_parameter in fields


@cache
def _strings_and_request_fields(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Parse a Rust file once for all factors."""
    root = _RUST.parse(source.encode()).root_node
    return frozenset(_strings(root)), frozenset(_request_fields(root))


def _strings(node: Node) -> Iterator[str]:
    """Yield the string literals outside of tests, but not the keys of JSON replies and parts of paths."""
    if _has_attribute(node, b"cfg(test)") or _is_path_part(node):
        return
    follower = node.next_sibling
    if node.type == "string_literal" and not (follower is not None and follower.type == ":"):
        yield _text(node).strip('"')
    for child in node.children:
        yield from _strings(child)


def _is_path_part(node: Node) -> bool:
    """Return whether the node is the arguments of `Path::join`."""
    function = node.prev_sibling
    return node.type == "arguments" and function is not None and _text(function).endswith(".join")


def _request_fields(node: Node) -> Iterator[str]:
    if node.type == "struct_item" and _has_attribute(node, b"Deserialize"):
        for child in _descendants(node):
            if child.type == "field_declaration" and (name := child.child_by_field_name("name")):
                yield _text(name)
    for child in node.children:
        yield from _request_fields(child)


def _descendants(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _descendants(child)


def _has_attribute(node: Node, text: bytes) -> bool:
    """Return whether one of the attributes in front of an item contains the text."""
    previous = node.prev_sibling
    while previous is not None and previous.type in ("attribute_item", "line_comment"):
        if previous.type == "attribute_item" and text in (previous.text or b""):
            return True
        previous = previous.prev_sibling
    return False


def _text(node: Node) -> str:
    return (node.text or b"").decode()
