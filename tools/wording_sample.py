"""Draw identifiers and user-facing sentences at random, for a reader who has never seen the project.

Usage: python -m tools.wording_sample [--seed 1] [--count 60]. The same seed draws the same sample from the
same sources. Give the list to a reader without the code. They say what each item means; at least 57 of 60 of
each kind have to be right on the first try (CONTRIBUTING.md, "Wording").
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from tools.user_sentences import AGENT, PACKAGE, ROOT, user_sentences

MAX_SIGNATURE = 240
"""Maximum length of an item of the agent: a long struct or constant is cut."""

_RUST = Language(tree_sitter_rust.language())
_RUST_ITEMS = ("function_item", "struct_item", "enum_item", "trait_item", "const_item", "type_item")


def python_identifiers(source: str, module: str) -> Iterator[str]:
    """Yield each definition of a module: functions, methods, classes, fields and constants."""
    yield from _python_definitions(ast.parse(source).body, module)


def _python_definitions(body: list[ast.stmt], owner: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            prefix = "@property " if "property" in decorators or "cached_property" in decorators else ""
            yield f"{owner}: {prefix}def {node.name}({ast.unparse(node.args)}){result}"
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(map(ast.unparse, node.bases))
            yield (
                f"{owner}: class {node.name}" + (f"({bases})" if bases else "") + _annotated_field_names(node)
            )
            yield from _python_definitions(node.body, f"{owner}.{node.name}")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield f"{owner}: {node.target.id}: {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield f"{owner}: {node.targets[0].id} = {ast.unparse(node.value)[:60]}"


def _annotated_field_names(node: ast.ClassDef) -> str:
    """Return a class's first fields, which are the signature of a dataclass."""
    fields = [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    return f" {{ {', '.join(fields)} }}" if fields else ""


def rust_identifiers(source: str, module: str) -> Iterator[str]:
    """Yield each item of a Rust file with its signature, unit tests left out."""
    code = source.encode()
    yield from _rust_definitions(Parser(_RUST).parse(code).root_node, code, module)


def _rust_definitions(node: Node, code: bytes, owner: str) -> Iterator[str]:
    is_test = False
    for child in node.children:
        if child.type == "attribute_item":
            is_test = is_test or b"test" in (child.text or b"")
            continue
        if child.type in ("line_comment", "block_comment"):
            continue
        if not is_test:
            if child.type in _RUST_ITEMS:
                body = child.child_by_field_name("body") if child.type != "struct_item" else None
                head = code[child.start_byte : body.start_byte if body else child.end_byte].decode()
                head = re.sub(r"//[^\n]*|#\[[^\]]*\]", "", head)
                yield f"{owner}: {' '.join(head.split())[:MAX_SIGNATURE]}"
            inner = child.child_by_field_name("body")
            if child.type in ("impl_item", "mod_item", "trait_item") and inner is not None:
                of = child.child_by_field_name("type") or child.child_by_field_name("name")
                name = (of.text or b"").decode() if of is not None else ""
                yield from _rust_definitions(inner, code, f"{owner}::{name}")
        is_test = False


def identifiers() -> list[str]:
    """Return every identifier that the bench and the agent define, with where it stands and its signature."""
    found: list[str] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        found += python_identifiers(file.read_text(encoding="utf-8"), module)
    for file in sorted(AGENT.rglob("*.rs")):
        if "tests" not in file.parts and "target" not in file.parts:
            module = str(file.relative_to(ROOT))
            found += rust_identifiers(file.read_text(encoding="utf-8"), module)
    return found


def sentences() -> list[str]:
    """Return every user-facing sentence once, with the first module that has it and its context."""
    first: dict[str, str] = {}
    for sentence in user_sentences():
        context = f" [{sentence.context}]" if sentence.context else ""
        first.setdefault(" ".join(sentence.text.split()), f"{sentence.file.relative_to(ROOT)}{context}")
    return sorted(f"{module}: {text}" for text, module in first.items())


def main() -> None:
    """Print the sample."""
    parser = argparse.ArgumentParser(description="Draw identifiers and user-facing sentences at random.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="how many of each")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for title, items in (("Identifiers", identifiers()), ("Sentences", sentences())):
        print(f"{title} ({options.count} of {len(items)})\n")
        for number, item in enumerate(draw.sample(items, options.count), 1):
            print(f"{number:3}. {item}")
        print()


if __name__ == "__main__":
    main()
