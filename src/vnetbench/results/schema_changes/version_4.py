"""Changes from schema version 3 to version 4: new names for keys of stored JSON and of studies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from vnetbench.results.schema_changes.json_columns import (
    JsonChange,
    JsonObject,
    change_columns,
    rename_keys,
)
from vnetbench.study.file.document import KeyPath
from vnetbench.study.file.key_renames import rename_study_keys

_STUDY_KEYS: Mapping[KeyPath, str] = {
    ("testbed", "vf_of"): "vf_interface",
    ("search", "least_load"): "min_load",
    ("search", "most_load"): "max_load",
    ("precision", "fewest_trials"): "min_trials",
    ("precision", "most_trials"): "max_trials",
}
"""New names of study keys, by section and key."""

_EFFECTIVE_KEYS = {
    "device_not_apart": "device_cpus_unavailable",
    "delay_line_runs_first": "delay_line_has_priority",
    "link_impaired_by": "link_impairment_backend",
    "refused_frames": "rejected_frames",
}
_ZERO_COPY_KEYS = {"unsettled": "uncompleted"}
_FOREIGN_FRAME_KEYS = {"others": "other_senders", "kinds": "by_protocol", "own": "own_returned"}
_TOTAL_KEYS = {"load_began_s": "load_start_s", "foreign": "foreign_frames", "connect": "connect_time"}
_STREAM_KEYS = {
    "lent": "zero_copy", "highest": "highest_number", "other_clock": "impossible_transits",
    "refused": "rejected", "foreign": "foreign_datagrams",
}  # fmt: skip
_LATENESS_KEYS = {f"late_{name}_us": f"lateness_{name}_us" for name in ("mean", "p50", "p99", "max")}
_PACING_KEYS = {"by": "method", **_LATENESS_KEYS}
_DELAY_LINE_COUNTS = {
    "held_back": "reordered", "overflowed": "queue_drops", "overflowed_bytes": "queue_drop_bytes",
    "refused": "port_drops", "waiting": "backlog_frames", "waiting_bytes": "backlog_bytes",
    "most_waiting_bytes": "max_backlog_bytes", **_LATENESS_KEYS,
}  # fmt: skip
_TESTBED_KEYS = {
    "why_no_kvm": "kvm_unavailable_reason",
    "guest_kernel_from": "guest_kernel_source",
    "starts_s": "guest_start_s",
}
_SHAPE_KEYS = {"line": "delay_line", "ends": "host_endpoints", "vf_of": "vf_interface"}
_ENDPOINT_KEYS = {"address6": "ipv6_address", "prefix6_length": "ipv6_prefix_length"}


def _rename_keys_in_object(values: JsonObject, key: str, names: Mapping[str, str]) -> None:
    """Rename keys of the object at `key`, if there is one."""
    if isinstance(value := values.get(key), dict):
        values[key] = rename_keys(value, names)


def _rename_keys_in_list(values: JsonObject, key: str, names: Mapping[str, str]) -> list[JsonObject]:
    """Rename keys of each object in the list at `key`, if there is one, and return these objects."""
    if not isinstance(elements := values.get(key), list):
        return []
    values[key] = [rename_keys(each, names) if isinstance(each, dict) else each for each in elements]
    return [each for each in values[key] if isinstance(each, dict)]


def _migrate_step_details(details: JsonObject) -> JsonObject:
    details = rename_keys(details, {"refused": "rejected", "foreign": "foreign_frames"})
    if isinstance(foreign := details.get("foreign_frames"), dict):
        for endpoint in foreign:
            _rename_keys_in_object(foreign, endpoint, _FOREIGN_FRAME_KEYS)
    _rename_keys_in_object(details, "path_counters", {"refused": "rejected"})
    return details


def _migrate_effective_settings(settings: JsonObject) -> JsonObject:
    settings = rename_keys(settings, _EFFECTIVE_KEYS)
    _rename_keys_in_object(settings, "zero_copy_sends", _ZERO_COPY_KEYS)
    return settings


def _migrate_totals(totals: JsonObject) -> JsonObject:
    totals = rename_keys(totals, _TOTAL_KEYS)
    _rename_keys_in_object(totals, "foreign_frames", _FOREIGN_FRAME_KEYS)
    for stream in _rename_keys_in_list(totals, "streams", _STREAM_KEYS):
        _rename_keys_in_object(stream, "zero_copy", _ZERO_COPY_KEYS)
        _rename_keys_in_object(stream, "pacing", _PACING_KEYS)
    _rename_keys_in_object(totals, "instrument", {"sampler_late_max_s": "sampler_lateness_max_s"})
    if isinstance(instrument := totals.get("instrument"), dict):
        _rename_keys_in_object(instrument, "pacing", _LATENESS_KEYS)
    for line in _rename_keys_in_list(totals, "delay_lines", {}):
        for direction in ("forward", "reverse"):
            _rename_keys_in_object(line, direction, {"is_ranked": "has_priority"})
            if isinstance(line.get(direction), dict):
                _rename_keys_in_object(line[direction], "counts", _DELAY_LINE_COUNTS)
    _rename_keys_in_list(totals, "queues", {"kind": "direction"})
    for observed in ("threads", "interfaces"):
        _rename_keys_in_list(totals, observed, {"gone": "is_gone"})
    return totals


def _migrate_testbed(description: JsonObject) -> JsonObject:
    description = rename_keys(description, _TESTBED_KEYS)
    _rename_keys_in_object(description, "shape", _SHAPE_KEYS)
    _rename_keys_in_list(description, "endpoints", _ENDPOINT_KEYS)
    return description


def _migrate_stream_details(details: JsonObject) -> JsonObject:
    return rename_keys(details, {"foreign": "foreign_datagrams"})


_JSON_COLUMNS: Mapping[tuple[str, str], JsonChange] = {
    ("step", "details"): _migrate_step_details,
    ("trial", "effective"): _migrate_effective_settings,
    ("endpoint", "totals"): _migrate_totals,
    ("stream_sample", "details"): _migrate_stream_details,
    ("testbed", "description"): _migrate_testbed,
}


def _migrate_study(text: str) -> str:
    return rename_study_keys(text, _STUDY_KEYS)


def _migrate_overrides(text: str) -> str:
    """Rename the study keys in the `--set` arguments of a campaign."""
    names = {".".join(map(str, path)): f"{path[0]}.{name}" for path, name in _STUDY_KEYS.items()}

    def migrate_override(override: Any) -> Any:
        name, equals, value = str(override).partition("=")
        return f"{names[name.strip()]}{equals}{value}" if name.strip() in names else override

    return json.dumps([migrate_override(each) for each in json.loads(text)], separators=(",", ":"))


def change_to_version_4(db: sqlite3.Connection) -> None:
    """Change a file of version 3 to version 4, inside the caller's transaction."""
    change_columns(db, _JSON_COLUMNS)
    db.execute("UPDATE treatment SET state = 'trial limit' WHERE state = 'most trials'")
    db.execute("UPDATE histogram SET kind = 'connect_time' WHERE kind = 'connect'")
    db.create_function("migrate_study", 1, _migrate_study, deterministic=True)
    db.create_function("migrate_overrides", 1, _migrate_overrides, deterministic=True)
    db.execute(
        "UPDATE campaign SET study_text = migrate_study(study_text), overrides = migrate_overrides(overrides)"
    )
