"""New names for keys in the text of a study, which keeps its layout and comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from vnetbench.study.file.document import KeyPath, parse_syntax_tree, read_own_key_path


def rename_study_keys(text: str, names: Mapping[KeyPath, str]) -> str:
    """Return the text of a study with new names for some keys.

    Args:
        text: The TOML text. A text with syntax errors changes only where the parser recognizes keys.
        names: The new name of each key, by its path: section and key.
    """
    encoded = text.encode()
    nodes = [
        (node, names[path])
        for above, pair in _pairs_with_heading_path(parse_syntax_tree(text))
        for path, node in _key_nodes_with_path(above, pair)
        if path in names
    ]
    for node, name in sorted(nodes, key=lambda each: each[0].start_byte, reverse=True):
        encoded = encoded[: node.start_byte] + name.encode() + encoded[node.end_byte :]
    return encoded.decode()


def _pairs_with_heading_path(tree: Node) -> Iterator[tuple[KeyPath, Node]]:
    """Yield each pair of a document with the path of the heading above it."""
    for node in tree.children:
        if node.type == "pair":
            yield (), node
        elif node.type == "table":
            for child in node.children:
                if child.type == "pair":
                    yield read_own_key_path(node), child


def _key_nodes_with_path(table_path: KeyPath, pair: Node) -> Iterator[tuple[KeyPath, Node]]:
    """Yield the path and the node of the name of a pair's key, and of the keys of its inline table."""
    path = (*table_path, *read_own_key_path(pair))
    key = pair.children[0]
    yield path, key.children[-1] if key.type == "dotted_key" else key
    value = pair.children[-1]
    if value.type == "inline_table":
        for child in value.children:
            if child.type == "pair":
                yield from _key_nodes_with_path(path, child)
