"""Checks values against the settings, key by key, so that all errors are reported at once."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import msgspec
from msgspec import inspect

from holdfast.config.consistency import issues_in
from holdfast.config.fields import TextFormat
from holdfast.config.secret_values import References, Unresolved
from holdfast.config.settings import Secret, Settings
from holdfast.config.sources import ConfigIssue, KeyPath, dotted
from holdfast.config.value_formats import format_error, name_error

Tree: TypeAlias = dict[str, object]

HINTS_MAX = 100  # finding the nearest key takes time, and nobody reads more of them
SETTINGS = cast("inspect.StructType", inspect.type_info(Settings))
_WANTED: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.CustomType: "text",
    inspect.LiteralType: "text",
    inspect.VarTupleType: "a list",
    inspect.DictType: "a table",
    inspect.StructType: "a table",
}
_GOT: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
)


def plain(kind: inspect.Type, of: object = None) -> tuple[inspect.Type, TextFormat]:
    """A key's bare type, and the format of its text; of several types, the one that a list `of` needs."""
    meaning: TextFormat = ""
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        if isinstance(kind, inspect.Metadata):
            extra = cast("dict[str, TextFormat]", kind.extra or {})  # pyright: ignore[reportUnknownMemberType]
            meaning = extra.get("meaning", meaning)
            kind = kind.type
        else:
            several = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            wants_list = [one for one in several if isinstance(one, inspect.VarTupleType)]
            kind = (wants_list if isinstance(of, list) and wants_list else several)[0]
    return kind, meaning


def list_beside(kind: inspect.Type) -> inspect.VarTupleType | None:
    """The list that a key of other types also takes, if any."""
    bare, _ = plain(kind)
    other, _ = plain(kind, [])
    return other if isinstance(other, inspect.VarTupleType) and other is not bare else None


class Checker:
    """Collects the issues of a tree, and returns the tree with references resolved."""

    def __init__(self, references: References) -> None:
        self._references = references
        self.issues: list[ConfigIssue] = []
        self._errors = 0

    def settings(self, tree: Tree) -> Tree:
        """The checked tree; use it only if there are no errors."""
        return self._struct(tree, SETTINGS, ())

    def _struct(self, tree: Tree, kind: inspect.StructType, path: KeyPath) -> Tree:
        errors = self._errors
        fields = {field.name: field for field in kind.fields}
        checked: Tree = {}
        for key, value in tree.items():
            if key in fields:
                checked[key] = self._value(value, fields[key].type, (*path, key))
            else:
                hint = _hint(key, path, fields) if self._errors < HINTS_MAX else ""
                self._error((*path, key), f"is not a setting{hint}")
        for field in kind.fields:
            if field.required and field.name not in tree:
                self._error(path, _missing(field))
            elif field.required and tree[field.name] == "":
                self._error((*path, field.name), "must not be empty")
        if self._errors == errors:
            section = ".".join(key for key in path if isinstance(key, str))
            for issue in issues_in(msgspec.convert(checked, kind.cls), checked, section=section):
                self.issues.append(ConfigIssue((*path, *issue.path), issue.text, is_warning=issue.is_warning))
                self._errors += not issue.is_warning
        return checked

    def _value(self, value: object, kind: inspect.Type, path: KeyPath, meaning: TextFormat = "") -> object:
        beside = list_beside(kind)
        kind, own = plain(kind, value)
        meaning = own or meaning
        match kind:
            case inspect.StructType() if isinstance(value, dict):
                return self._struct(cast("Tree", value), kind, path)
            case inspect.VarTupleType() if isinstance(value, list):
                return self._list(cast("list[object]", value), kind, path, meaning=meaning)
            case inspect.DictType() if isinstance(value, dict):
                return self._table(cast("Tree", value), kind, path, meaning=meaning)
            case inspect.StrType() | inspect.CustomType() if isinstance(value, str):
                return self._text(value, kind, path, meaning=meaning)
            case inspect.LiteralType() if isinstance(value, str):
                return self._choice(value, kind, path, beside=beside)
            case inspect.IntType() | inspect.FloatType():
                return self._number(value, kind, path)
            case inspect.BoolType() if isinstance(value, bool):
                return value
            case _:
                self._unwanted(value, kind, path)
                return None

    def _list(
        self, items: list[object], kind: inspect.VarTupleType, path: KeyPath, *, meaning: TextFormat
    ) -> list[object]:
        seen: set[str] = set()
        for index, item in enumerate(items):
            name = cast("Tree", item).get("name") if isinstance(item, dict) else None
            if isinstance(name, str) and name in seen:
                self._error((*path, index, "name"), "is used twice; names must be unique")
            seen |= {name} if isinstance(name, str) else set()
        return [
            self._value(item, kind.item_type, (*path, index), meaning) for index, item in enumerate(items)
        ]

    def _table(self, table: Tree, kind: inspect.DictType, path: KeyPath, *, meaning: TextFormat) -> Tree:
        for name in table:
            if why := name_error(meaning, name):
                self._error((*path, name), why)
        takes_list = isinstance(plain(kind.value_type)[0], inspect.VarTupleType)
        return {
            # A list of one may be written without its brackets.
            name: self._value(
                [value] if takes_list and isinstance(value, str) else value,
                kind.value_type,
                (*path, name),
                meaning,
            )
            for name, value in table.items()
        }

    def _text(self, text: str, kind: inspect.Type, path: KeyPath, *, meaning: TextFormat) -> str:
        try:
            if isinstance(kind, inspect.CustomType):
                text = self._references.secret(text, path)
            elif meaning == "text or file":
                text = self._references.document(text, path)
            elif meaning == "path":
                text = self._references.expanded(text)
        except Unresolved as error:
            self._error(path, str(error))
            return Secret()
        if why := format_error(meaning, text):
            self._error(path, why)
        return text

    def _choice(
        self, text: str, kind: inspect.LiteralType, path: KeyPath, *, beside: inspect.VarTupleType | None
    ) -> str:
        choices = [str(value) for value in kind.values]
        if text not in choices:
            or_list = ', or a list: write ["…"], with each item in quotes' if beside else ""
            self._error(path, f"must be one of {', '.join(choices)}{or_list}{_nearest(text, choices)}")
        return text

    def _number(self, value: object, kind: inspect.IntType | inspect.FloatType, path: KeyPath) -> object:
        whole = isinstance(kind, inspect.IntType)
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            self._unwanted(value, kind, path)
            return None
        try:
            number = value if whole else float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) if isinstance(number, float) else False:
            self._error(path, "must be a finite number")
        elif kind.ge is not None and number < kind.ge:
            self._error(path, f"must be {kind.ge} or more")
        elif kind.le is not None and number > kind.le:
            self._error(path, f"must be {kind.le} or less")
        return number

    def _unwanted(self, value: object, kind: inspect.Type, path: KeyPath) -> None:
        got = next((word for known, word in _GOT if isinstance(value, known)), "a date or a time")
        tables = isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType)
        if tables and isinstance(value, dict):
            self._error(path, f"must be a list of tables: write [[{dotted(path)}]]")
        elif isinstance(kind, inspect.VarTupleType) and isinstance(value, str):
            self._error(path, 'must be a list, not text: write ["…"], with each item in quotes')
        else:
            self._error(path, f"must be {_WANTED[type(kind)]}, not {got}")

    def _error(self, path: KeyPath, text: str) -> None:
        self.issues.append(ConfigIssue(path, text))
        self._errors += 1


def _missing(field: inspect.Field) -> str:
    kind, _ = plain(field.type)
    if isinstance(kind, inspect.LiteralType):
        return f"needs a {field.name}: one of {', '.join(map(str, kind.values))}"
    return f"needs a {field.name}"


def _hint(key: str, path: KeyPath, fields: Mapping[str, inspect.Field]) -> str:
    """The nearest key of the same table, else the table that has this key."""
    if near := _nearest(key, fields):
        return near
    elsewhere = sorted(table for table, keys in known_keys().items() if key in keys)
    if elsewhere and len(path) < 2:  # noqa: PLR2004  # a key deeper down belongs to its own table
        return f"; it belongs in {' or '.join(elsewhere)}"
    return f"; the settings here are {', '.join(fields)}"


def _nearest(text: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(text.lower().replace("-", "_"), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def known_keys() -> dict[str, frozenset[str]]:
    """The keys of every table, by the table's header."""
    found: dict[str, frozenset[str]] = {}
    waiting: list[tuple[str, inspect.StructType, bool]] = [("", SETTINGS, False)]
    while waiting:
        name, kind, listed = waiting.pop()
        if name:
            found[f"[[{name}]]" if listed else f"[{name}]"] = frozenset(field.name for field in kind.fields)
        for field in kind.fields:
            inner, _ = plain(field.type)
            item = plain(inner.item_type)[0] if isinstance(inner, inspect.VarTupleType) else inner
            if isinstance(item, inspect.StructType):
                waiting.append((f"{name}.{field.name}".lstrip("."), item, item is not inner))
    return found
