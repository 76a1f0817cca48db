"""Dataclasses as JSON values, and back by their type hints. Values of other types than hinted are refused.

Tuples and mappings with other keys than text, where a hint allows any object, are stored with a tag.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Decoder = Callable[[Any], Any]
_TUPLE_TAG, _ITEMS_TAG = "__tuple__", "__items__"
_NUMBER_TYPES = frozenset({int, float})


class UnexpectedValue(ValueError):
    """A JSON value does not have the hinted type."""


def to_json_value(value: object) -> Any:
    """Return a JSON value for a dataclass, or for a value in one.

    Raises:
        UnexpectedValue: The value has a type that JSON cannot represent.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json_value(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json_value(each) for key, each in value.items()}
        return {_ITEMS_TAG: [[to_json_value(key), to_json_value(each)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {_TUPLE_TAG: [to_json_value(each) for each in value]}
    if isinstance(value, list):
        return [to_json_value(each) for each in value]
    raise UnexpectedValue(f"{type(value).__name__} has no form in JSON")


def from_json_value(expected: type[T], value: object) -> T:
    """Return the dataclass of this type that a JSON value represents.

    Raises:
        UnexpectedValue: The value does not have this type.
    """
    hint: Any = expected
    try:
        decoded: T = _decoder_for_type(hint)(value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnexpectedValue(repr(error)) from error
    return decoded


@cache
def _decoder_for_type(hint: Any) -> Decoder:
    """Return the function that decodes values of a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(hint)
    if hint in (Any, object):
        return _decode_tagged_value
    if origin is typing.Literal:
        return _literal_decoder(set(arguments))
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_decoder(*arguments)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _list_decoder(*arguments)
    return _type_decoder(_NUMBER_TYPES if hint is float else {hint or type(None)})


def _type_decoder(allowed: Collection[Any]) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) not in allowed:
            raise UnexpectedValue(f"unexpected {type(value).__name__}")
        return value

    return decode


def _literal_decoder(values: Collection[Any]) -> Decoder:
    def decode(value: Any) -> Any:
        if value not in values:
            raise UnexpectedValue(f"unexpected {value!r}")
        return value

    return decode


def _dataclass_decoder(hint: Any) -> Decoder:
    hints = typing.get_type_hints(hint)
    names = [each.name for each in dataclasses.fields(hint)]

    def decode(value: Any) -> Any:
        if not isinstance(value, dict) or len(value) != len(names):
            raise UnexpectedValue(f"unexpected fields of {hint.__name__}")
        return hint(**{name: _decoder_for_type(hints[name])(value[name]) for name in names})

    return decode


def _union_decoder(options: Sequence[Any]) -> Decoder:
    def decode(value: Any) -> Any:
        for option in options:
            try:
                return _decoder_for_type(option)(value)
            except UnexpectedValue:
                continue
        raise UnexpectedValue(f"unexpected {type(value).__name__}")

    return decode


def _tuple_decoder(arguments: Sequence[Any]) -> Decoder:
    is_uniform = len(arguments) == 2 and arguments[1] is Ellipsis

    def decode(value: Any) -> Any:
        if not isinstance(value, dict) or len(value) != 1:
            raise UnexpectedValue(f"unexpected {type(value).__name__}")
        elements = value[_TUPLE_TAG]
        if is_uniform:
            return tuple(_decode_elements(arguments[0], elements))
        return tuple(_decoder_for_type(hint)(each) for hint, each in zip(arguments, elements, strict=True))

    return decode


def _list_decoder(element: Any) -> Decoder:
    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise UnexpectedValue(f"unexpected {type(value).__name__}")
        return _decode_elements(element, value)

    return decode


def _mapping_decoder(key_hint: Any, value_hint: Any) -> Decoder:
    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise UnexpectedValue(f"unexpected {type(value).__name__}")
        if _ITEMS_TAG in value:
            return {
                _decoder_for_type(key_hint)(key): _decoder_for_type(value_hint)(each)
                for key, each in value[_ITEMS_TAG]
            }
        if value and key_hint is not str:
            raise UnexpectedValue("unexpected key")
        keys = map(sys.intern, value)
        return dict(zip(keys, _decode_elements(value_hint, list(value.values())), strict=True))

    return decode


def _decode_elements(hint: Any, values: list[Any]) -> list[Any]:
    """Decode a list. Lists of numbers, which are most of the data, are checked as a whole."""
    if not isinstance(values, list):
        raise UnexpectedValue(f"unexpected {type(values).__name__}")
    if hint is float:
        if not _NUMBER_TYPES.issuperset(map(type, values)):
            raise UnexpectedValue("a list with something else than numbers")
        return values
    decode = _decoder_for_type(hint)
    return [decode(each) for each in values]


def share_texts(value: Any) -> Any:
    """Return an equal JSON value whose keys and texts are shared with all others: each is stored once."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, list):
        return [share_texts(each) for each in value]
    if isinstance(value, dict):
        return {sys.intern(key): share_texts(each) for key, each in value.items()}
    return value


def _decode_tagged_value(value: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, list):
        return [_decode_tagged_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    if _TUPLE_TAG in value:
        return tuple(_decode_tagged_value(each) for each in value[_TUPLE_TAG])
    if _ITEMS_TAG in value:
        return {_decode_tagged_value(key): _decode_tagged_value(each) for key, each in value[_ITEMS_TAG]}
    return {sys.intern(key): _decode_tagged_value(each) for key, each in value.items()}
