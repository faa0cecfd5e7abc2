"""Writes what the page shares with the server; --check only compares.

frontend/src/events.ts has the types of events, from holdfast.events; frontend/src/bodies.ts those of HTTP
responses, from holdfast.api; frontend/src/activity_words.ts the tables of the live line, from
holdfast.folds.activity.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import msgspec.inspect as mi

from holdfast import values
from holdfast.api.operations import OPERATIONS
from holdfast.codec import TYPES
from holdfast.folds import activity

PAGE = Path(__file__).parents[1] / "frontend" / "src"
LINE_CHARS_MAX = 110
HEAD = "// Made by scripts/page_events.py from holdfast.{}; change it there and run the script again."


def aliases() -> dict[frozenset[Any], str]:
    """The names of the closed sets of words."""
    named = {name: value for name, value in vars(values).items() if get_origin(value) is Literal}
    return {frozenset(get_args(value)): name for name, value in named.items()}


def _wrapped(line: str) -> str:
    """A field as the page's formatter wants it: a choice that is too long for a line, a word a line."""
    if len(line) <= LINE_CHARS_MAX:
        return line
    head, _, words = line.partition(": ")
    return f"{head}:" + "".join(f"\n    | {word}" for word in words.split(" | "))


class Writer:
    """Turns msgspec's description of types into TypeScript, and gathers the structs on its way."""

    def __init__(self) -> None:
        self.structs: dict[str, str] = {}
        self._words = aliases()

    def written(self, kind: mi.Type) -> str:
        """One type as TypeScript."""
        match kind:
            case mi.StrType():
                return "string"
            case mi.IntType() | mi.FloatType():
                return "number"
            case mi.BoolType():
                return "boolean"
            case mi.NoneType():
                return "null"
            case mi.LiteralType():
                name = self._words.get(frozenset(kind.values))
                return name or " | ".join(f'"{value}"' for value in sorted(map(str, kind.values)))
            case mi.Metadata():
                words = (kind.extra_json_schema or {}).get("enum")
                return " | ".join(map(json.dumps, words)) if words else self.written(kind.type)
            case mi.UnionType():
                return " | ".join(self.written(one) for one in kind.types)
            case _:
                return self._made_of_others(kind)

    def _made_of_others(self, kind: mi.Type) -> str:
        match kind:
            case mi.TupleType():
                return f"readonly [{', '.join(map(self.written, kind.item_types))}]"
            case mi.VarTupleType() | mi.ListType():
                inner = self.written(kind.item_type)
                return (
                    f"readonly ({inner})[]"
                    if "|" in inner or " " in inner.split("<")[0]
                    else f"readonly {inner}[]"
                )
            case mi.DictType():
                return f"Readonly<Record<string, {self.written(kind.value_type)}>>"
            case mi.StructType():
                self._add(kind)
                return kind.cls.__name__
            case mi.RawType():
                return "AnyEvent"
            case mi.AnyType() | mi.CustomType():
                return "unknown"
            case _:
                raise TypeError(f"no TypeScript for {kind!r}")

    def sent(self, field: mi.Field) -> mi.Type:
        """The type of a field, as far as it is ever sent."""
        return field.type

    def _add(self, struct: mi.StructType) -> None:
        name = struct.cls.__name__
        if name in self.structs:
            return
        self.structs[name] = ""
        lines = [f"/** {(struct.cls.__doc__ or '').splitlines()[0]} */", f"export interface {name} {{"]
        if struct.tag is not None:
            lines.append(f'  readonly {struct.tag_field}: "{struct.tag}";')
        for field in struct.fields:
            optional = "" if field.required else "?"
            lines.append(
                _wrapped(f"  readonly {field.encode_name}{optional}: {self.written(self.sent(field))};")
            )
        self.structs[name] = "\n".join([*lines, "}"])


class BodyWriter(Writer):
    """The same for HTTP bodies; what events.ts has is imported from there."""

    def __init__(self) -> None:
        super().__init__()
        self.imported: set[str] = set()

    def written(self, kind: mi.Type) -> str:
        """See Writer."""
        text = super().written(kind)
        if isinstance(kind, mi.LiteralType) and text in self._words.values():
            self.imported.add(text)
        return text

    def sent(self, field: mi.Field) -> mi.Type:
        """See Writer; a field that holds its default is left out, so that None is never sent as null."""
        kind = field.type
        if field.default is not None or not isinstance(kind, mi.UnionType):
            return kind
        return mi.UnionType(tuple(one for one in kind.types if not isinstance(one, mi.NoneType)))

    def _add(self, struct: mi.StructType) -> None:
        module = struct.cls.__module__
        if module.startswith("holdfast.api") or module.endswith("bodies"):  # of the core, and of features
            super()._add(struct)
        else:
            self.imported.add(struct.cls.__name__)


def bodies() -> str:
    """The types of HTTP responses."""
    writer = BodyWriter()
    for operation in OPERATIONS:
        for kind in operation.response_types():
            if hasattr(kind, "__struct_fields__"):
                writer.written(mi.type_info(kind))
    names = "".join(f"\n  {name}," for name in sorted(writer.imported))
    asks = "export type OpenAsk = OpenApproval | OpenQuestion;"
    head = f'{HEAD.format("api")}\n\nimport type {{{names}\n}} from "./events.ts";'
    return "\n\n".join([head, *writer.structs.values(), asks]) + "\n"


def sets_of_words() -> Iterator[str]:
    """The closed sets as TypeScript."""
    for words, name in sorted(aliases().items(), key=lambda item: item[1]):
        lines = "".join(f'\n  | "{word}"' for word in sorted(words))
        yield f"export type {name} ={lines};"


def unions() -> Iterator[str]:
    """The named choices between structs as TypeScript."""
    for name, value in vars(values).items():
        if isinstance(value, UnionType):
            yield f"export type {name} = {' | '.join(one.__name__ for one in get_args(value))};"


def source(events: Mapping[str, type]) -> str:
    """The whole file."""
    writer = Writer()
    for event in events.values():
        writer.written(mi.type_info(event))
    names = "".join(f"\n  | {event.__name__}" for event in events.values())
    union = f"/** What can happen. */\nexport type AnyEvent ={names};"
    place = "/** An event at its place in the log. */"
    record = f"{place}\nexport type LogRecord = AnyEvent & {{ readonly seq: number }};"
    types = 'export type EventType = AnyEvent["type"];'
    return (
        "\n\n".join(
            [
                HEAD.format("events"),
                *sets_of_words(),
                *writer.structs.values(),
                *unions(),
                union,
                record,
                types,
            ]
        )
        + "\n"
    )


def table(name: str, about: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table as TypeScript."""
    lines = "".join(
        f"  {key if key.isidentifier() else json.dumps(key)}: {json.dumps(value)},\n" for key, value in rows
    )
    return f"/** {about} */\nexport const {name} = {{\n{lines}}} as const;"


def activity_words() -> str:
    """The tables of the live line."""
    types = {event: word for word, event in TYPES.items()}
    after = [(types[event], name) for event, name in activity.AFTER.items()]
    about = "How a live line begins while the store rejects the run's events."
    delayed = f"/** {about} */\nexport const SAVING_DELAYED = {json.dumps(activity.SAVING_DELAYED)};"
    parts = [
        HEAD.format("folds.activity"),
        delayed,
        table("WORDS", "What people are told in each state.", activity.WORDS.items()),
        table(
            "AFTER", "What a run is doing after an event, unless a tool, a person or a stop says more.", after
        ),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """0, or 1 when a file is stale."""
    stale = False
    for name, wanted in (
        ("events.ts", source(TYPES)),
        ("bodies.ts", bodies()),
        ("activity_words.ts", activity_words()),
    ):
        path = PAGE / name
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
            print(
                f"frontend/src/{name} is stale; run: .venv/bin/python scripts/page_events.py", file=sys.stderr
            )
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
