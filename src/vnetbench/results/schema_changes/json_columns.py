"""Changes of JSON that is stored in columns of the results file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]
JsonChange = Callable[[JsonObject], JsonObject]


def rename_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> JsonObject:
    """Return an object with new names for some keys, in the same order."""
    return {names.get(key, key): value for key, value in values.items()}


def change_columns(db: sqlite3.Connection, changes: Mapping[tuple[str, str], JsonChange]) -> None:
    """Change the JSON objects in these columns, given by table and column.

    SQLite changes the rows one at a time, so memory does not grow with the file.
    """
    for (table, column), change in changes.items():
        db.create_function("change_json", 1, make_json_text_changer(change), deterministic=True)
        db.execute(f"UPDATE {table} SET {column} = change_json({column})")


def make_json_text_changer(change: JsonChange) -> Callable[[str], str]:
    """Return a function for SQLite that changes JSON text. Text that is no JSON object stays as it is."""

    def changed_text(text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return json.dumps(change(value), separators=(",", ":")) if isinstance(value, dict) else text

    return changed_text
