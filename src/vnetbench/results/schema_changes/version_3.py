"""Changes from schema versions 1 and 2 to version 3.

Version 1 has no table for steps. Version 2 has other names for some tables, columns and keys of stored JSON,
and for the level `unspecified` of imported results.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping

from vnetbench.results.schema_changes.json_columns import (
    JsonChange,
    JsonObject,
    change_columns,
    make_json_text_changer,
    rename_keys,
)

_CREATE_STEP_TABLE = """
CREATE TABLE IF NOT EXISTS step (
    treatment_id INTEGER NOT NULL REFERENCES treatment (id), block INTEGER NOT NULL, number INTEGER NOT NULL,
    session_id INTEGER NOT NULL REFERENCES session (id), purpose TEXT NOT NULL, load_fps REAL,
    burst_frames INTEGER, duration_s REAL NOT NULL, started_s REAL NOT NULL, took_s REAL NOT NULL,
    sent INTEGER NOT NULL, received INTEGER NOT NULL, details TEXT NOT NULL,
    PRIMARY KEY (treatment_id, block, number)
) STRICT, WITHOUT ROWID
"""
"""The table as in version 2: version 1 has none."""

_RENAME_STATEMENTS = (
    "ALTER TABLE side RENAME TO endpoint",
    "ALTER TABLE endpoint RENAME COLUMN endpoint TO name",
    "ALTER TABLE fact RENAME COLUMN place TO subject",
    "ALTER TABLE session RENAME COLUMN vnetbench TO vnetbench_version",
    "ALTER TABLE trial RENAME COLUMN shape TO testbed_shape",
    "ALTER TABLE step RENAME COLUMN took_s TO elapsed_s",
    "ALTER TABLE stream_sample RENAME COLUMN stream TO stream_id",
    "ALTER TABLE stream_sample RENAME COLUMN part TO load_part",
    "ALTER TABLE stream_sample RENAME COLUMN info TO details",
    "UPDATE fact SET name = 'fixed_factors' WHERE subject = 'imported' AND name = 'set'",
)


def _migrate_counters(counters: JsonObject) -> JsonObject:
    counters = rename_keys(counters, {"watched": "observation"})
    if isinstance(observation := counters.get("observation"), dict):
        names = {"threads": "thread_cpu_s", "interfaces": "interface_counters", "waited": "thread_wait_s"}
        counters["observation"] = rename_keys(observation, names)
    return counters


def _migrate_step_details(details: JsonObject) -> JsonObject:
    return rename_keys(details, {"ways": "direction_count", "counted": "path_counters"})


def _migrate_effective_settings(settings: JsonObject) -> JsonObject:
    settings = rename_keys(settings, {"lent": "zero_copy_sends", "frames_why": "fallback_reason"})
    if isinstance(search := settings.get("search"), dict):
        names = {
            "asked": "parameters",  # codespell:ignore asked
            "answers": "goal_results", "ways": "direction_count",
            "run_fps": "final_load_fps",
        }  # fmt: skip
        search = settings["search"] = rename_keys(search, names)
        if isinstance(parameters := search.get("parameters"), dict):
            names = {"least_fps": "min_load_fps", "most_fps": "max_load_fps", "width": "relative_width"}
            search["parameters"] = rename_keys(parameters, names)
    if isinstance(log := settings.get("imported"), dict):
        names = {
            "told_by": "reported_by",  # codespell:ignore told
            "figures": "metrics",
            "also": "other_results",
        }
        settings["imported"] = rename_keys(log, names)
    return settings


_DELAY_LINE_KEYS = {"asked": "requested"}  # codespell:ignore asked


def _migrate_totals(totals: JsonObject) -> JsonObject:
    totals = rename_keys(totals, {"speaks": "protocol"})
    for line in totals.get("delay_lines") or ():
        for direction in ("forward", "reverse"):
            if isinstance(line, dict) and isinstance(line.get(direction), dict):
                line[direction] = rename_keys(line[direction], _DELAY_LINE_KEYS)
    return totals


def _migrate_testbed(description: JsonObject) -> JsonObject:
    description = rename_keys(description, {"watched": "observed_interfaces"})
    if isinstance(endpoints := description.get("endpoints"), list):
        description["endpoints"] = [
            rename_keys(each, {"speaks": "protocol"}) if isinstance(each, dict) else each
            for each in endpoints
        ]
    return description


def _migrate_import_fact(fact: JsonObject) -> JsonObject:
    fact = rename_keys(
        fact,
        {
            "copies": "duplicate_logs", "not_whole": "incomplete_runs", "not_read": "skipped",
            "lines_of_no_tool": "unrecognized_lines",
        },
    )  # fmt: skip
    for key, names in (
        ("duplicate_logs", {"of": "original"}),
        ("skipped", {"why": "reason", "text": "first_text"}),
    ):
        if isinstance(entries := fact.get(key), list):
            fact[key] = [rename_keys(each, names) if isinstance(each, dict) else each for each in entries]
    return fact


_UNSPECIFIED_2, _UNSPECIFIED_3 = "untold", "unspecified"  # codespell:ignore untold
"""The level of a factor that a log does not specify, in version 2 and now."""


def _migrate_levels(levels: JsonObject) -> JsonObject:
    return {name: _UNSPECIFIED_3 if level == _UNSPECIFIED_2 else level for name, level in levels.items()}


def _migrate_study(text: str) -> str:
    """Rename the level in the study of an import, where it is the last one of a factor's line."""
    return re.sub(rf'(?m)^(\w+ = \[(?:.*, )?)"{_UNSPECIFIED_2}"\]$', rf'\1"{_UNSPECIFIED_3}"]', text)


_JSON_COLUMNS: Mapping[tuple[str, str], JsonChange] = {
    ("sample", "counters"): _migrate_counters,
    ("step", "details"): _migrate_step_details,
    ("trial", "effective"): _migrate_effective_settings,
    ("endpoint", "totals"): _migrate_totals,
    ("testbed", "description"): _migrate_testbed,
    ("treatment", "factors"): _migrate_levels,
}


def change_to_version_3(db: sqlite3.Connection) -> None:
    """Change a file of version 1 or 2 to version 3, inside the caller's transaction."""
    db.execute(_CREATE_STEP_TABLE)
    for statement in _RENAME_STATEMENTS:
        db.execute(statement)
    change_columns(db, _JSON_COLUMNS)
    db.create_function("migrate_fact", 1, make_json_text_changer(_migrate_import_fact), deterministic=True)
    db.execute("UPDATE fact SET value = migrate_fact(value) WHERE subject = 'imported' AND name = 'read'")
    db.create_function("migrate_study", 1, _migrate_study, deterministic=True)
    db.execute(
        "UPDATE campaign SET study_text = migrate_study(study_text)"
        " WHERE study_text LIKE '%lab = \"imported\"%'"
    )
