"""Values of pyvmomi as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

_MAX_DEPTH = 20


def to_json(value: Any, depth: int = 0) -> Any:
    """Return a value of pyvmomi as JSON in govc's form: types in `_typeName`, no unset properties."""
    from pyVmomi.VmomiSupport import DataObject, ManagedObject

    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, ManagedObject):
        return {"type": type(value).__name__.rpartition(".")[2], "value": value._GetMoId()}
    if isinstance(value, DataObject):
        properties = {
            each.name: to_json(found, depth + 1)
            for each in value._GetPropertyList()
            if each.name != "dynamicProperty" and (found := getattr(value, each.name)) is not None
        }
        return {"_typeName": type(value).__name__.rpartition(".")[2], **properties}
    if isinstance(value, list):
        return [to_json(each, depth + 1) for each in value]
    for plain in (bool, int, float):  # pyvmomi has types of its own below these.
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, str) else None
