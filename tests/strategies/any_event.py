"""Hypothesis strategies: any event of any type, with any values that its fields allow, in no order at all."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from holdfast.codec import TYPES
from holdfast.events import Event

INT64 = st.integers(-(2**63), 2**63 - 1)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_PLAIN: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.IntType: INT64,
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.StrType: st.text(max_size=20),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.RawType: JSON.map(msgspec.json.encode).map(msgspec.Raw),
    inspect.CustomType: JSON,
}


def value_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Any value of a type that events are made of."""
    match kind:
        case inspect.Metadata():
            return value_of(kind.type)
        case inspect.StructType():
            return struct_of(kind)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of([value_of(one) for one in kind.types])
        case inspect.VarTupleType():
            return st.lists(value_of(kind.item_type), max_size=3).map(tuple)
        case inspect.DictType():
            return st.dictionaries(value_of(kind.key_type), value_of(kind.value_type), max_size=3)
        case _:
            return _PLAIN[type(kind)]


def struct_of(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    """Fields with a default are sometimes left out."""
    required = {f.name: value_of(f.type) for f in kind.fields if f.required}
    optional = {f.name: value_of(f.type) for f in kind.fields if not f.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: kind.cls(**fields))


def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Any event of this type."""
    return value_of(inspect.type_info(kind))


def any_events() -> st.SearchStrategy[Event]:
    """Any event of any type."""
    return st.sampled_from(list(TYPES.values())).flatmap(events_of)
