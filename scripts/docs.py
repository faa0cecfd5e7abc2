"""Writes the documents that are made from the code: commands, HTTP, events, configuration.

`python scripts/docs.py` writes them; with --check it only says which are not as the code says.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import msgspec
import typer
from msgspec import inspect

from holdfast import events
from holdfast.api.openapi import openapi_document
from holdfast.api.operations import OPERATIONS
from holdfast.api.scopes import SCOPES
from holdfast.cli.commands import app
from holdfast.codec import TYPES
from holdfast.config.reference import reference

FIRST_ERROR = 400
DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by scripts/docs.py from the code; change it there. -->"
EXIT_CODES = """
Exit codes: 0 success, 1 failure (the reason is on standard error), 2 usage error. Ctrl-C exits with 130,
except that it exits `chat` and `serve` with 0. Some commands have more exit codes; see their help.

Output is plain text unless it goes to a terminal. `NO_COLOR` turns off colors. Every command has `--help`.
`holdfast` without a command is `holdfast chat`, and takes its options. To complete commands and options with
Tab, run `holdfast --install-completion`.
"""
HTTP_INTRO = """
One port serves everything. The same, for programs: `GET /openapi.json`; for people: `GET /docs` of a
running server.

- **Authentication.** Send `Authorization: Bearer KEY` on every route that isn't marked *open*. A browser
  signs in once with `POST /api/sign-in`. Its cookie isn't enough by itself: requests also need the header
  `X-Holdfast-Page`, and images and downloads need a ticket (`POST /api/tickets`).
- **What a key may do.** Each route names the scope that it needs: `chat`, `approve`, `admin` or `relay`.
  A key without it gets 403 `missing_scope`.
- **Errors** have one shape, on every route: `{"error": {"message", "type", "param", "code"}}`. The tables
  list the codes. Any route can return 401 `invalid_api_key`, 403 `foreign_origin`,
  `missing_scope`, `no_ticket_taken`, 421 `unknown_host`, 500 `internal_error`, `store_damaged`,
  503 `store_unavailable`, `store_overloaded`, `shutting_down`, `too_many_connections`. Any route that
  changes something can return 504 `outcome_unknown`: the connection to the database broke, and it isn't
  known whether the change was saved. Send it again with the same `Idempotency-Key`. With a body, any route
  can also return 408 `body_too_slow`, 413 `body_too_large` (`server.limits.body_bytes_max`, 10 MB by
  default; 26 MB for `POST /api/blobs`).
- **Secrets** aren't stored. A key of the server, of a target or of an MCP server, and the key that you send
  in `Authorization`, become `[redacted]` in messages, titles, files and errors. A session id or the name of
  a key that contains one is refused with 400 `secret_in_name`.
- **Once.** A POST with `Idempotency-Key` that is sent again with the same body has one effect and gets
  the first response, with `Idempotency-Replayed: true`, also after a restart. The same key with another
  body is a 409.
- **Cursors.** The id of a frame is the seq of its event in the session's log. `Last-Event-ID` or
  `?after=` resumes after it. For a session that may be purged and made again, send `ID@EPOCH` (the
  epoch is in `session.created` and in the header `X-Holdfast-Epoch`). A cursor that the log doesn't have
  begins at the start, in a stream and in JSON alike: one beyond the end of the log, of another epoch or of
  another run, or something that isn't a number. You may get events twice that way, but you never miss
  one. After the last event of a run the stream ends; if you come back then, you get 204.
- **Frames without an id** are not events: they are never stored, and don't move your cursor. A comment
  (`: keepalive`) keeps the connection open. A `live` frame says in words what a run is doing now, for
  example `waiting for gpt-5 · 12 s`. It's sent when a run has had no event for 3 seconds and each time
  the words change: `{"type": "live", "run_id": …, "text": …}`, or with `event` instead of `type` in the
  hermes view. The next event replaces it. The streams of a session and `GET /api/events` also send
  `{"type": "session.changed", "session": …}` and `{"type": "session.gone", "session_id": …}` when the list
  of sessions changes, and `{"type": "sessions.stale"}` if you missed too many changes: load the list again.
  `open_asks` in the first two is the number of requests that wait for a person, in all sessions.
- Times are seconds of Unix time. [Events](events.md) lists what `view=native` and a session's `/events`
  send.
"""
EVENTS_INTRO = """
A session is a log of these events; everything else is computed from it. On the wire an event is a JSON
object with `seq` (its place in the log, from 1 without a gap), `type`, `at_ms` (milliseconds of Unix
time) and the fields below. Fields that hold their default are left out. Events are never changed: a later
version of one gets a type of its own, and old ones are brought up to date when they are read.

`seq` is also your cursor. A cursor that the log doesn't have (beyond its end, or of another epoch) begins at
the start. Event streams also send frames that are not events, such as `live`; they have no `seq` and no id.
[HTTP](http.md) describes both.

One exception: `server.keep_deltas_days` after a run has ended, deltas in a row are joined into the first of
them, and the seqs of the others are gaps. The `text.done` or `reasoning.done` behind them always holds the
whole text, so a cursor in a gap loses nothing.

*Who* says who may append an event: anyone (an input), or only the owner of the run.
"""
_WORDS: Mapping[type[inspect.Type], str] = {
    inspect.AnyType: "any JSON",
    inspect.BoolType: "true or false",
    inspect.FloatType: "number",
    inspect.IntType: "whole number",
    inspect.NoneType: "null",
    inspect.RawType: "any JSON",
    inspect.StrType: "text",
}


def commands() -> str:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    return "\n".join(["# Commands", "", MADE, EXIT_CODES, *_command(root, "holdfast")]).rstrip() + "\n"


def _command(command: Any, name: str) -> Iterator[str]:
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    if name == "holdfast" or not inner:
        yield f"## {name}"
        yield ""
        yield from (_plain(command.help or ""), "")
        if command.epilog:
            yield from ("```", *_examples(command.epilog), "```", "")
        rows = [row for parameter in command.params if (row := _parameter(parameter))]
        if rows:
            yield from ("| | | default | |", "| --- | --- | --- | --- |", *rows, "")
    for word in sorted(inner):
        yield from _command(inner[word], f"{name} {word}")


def _examples(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and line != "Examples:"]


def _plain(text: str) -> str:
    return re.sub(r"\n(?!\n)", " ", text.strip().replace("\n\n", "\0")).replace("\0", "\n\n")


def _parameter(parameter: Any) -> str:
    if parameter.name in {"help", "install_completion", "show_completion"} or parameter.hidden:
        return ""
    is_option = parameter.param_type_name == "option"
    name = ", ".join(f"`{one}`" for one in parameter.opts) if is_option else f"`{parameter.name.upper()}`"
    shown = f"`{parameter.default}`" if parameter.default not in (None, False, "", [], ()) else ""
    return f"| {name} | {_value(parameter)} | {shown} | {getattr(parameter, 'help', '') or ''} |"


def _value(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if kind is bool:
        return ""
    if get_origin(kind) is Literal:
        return " or ".join(f"`{one}`" for one in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"`{one.value}`" for one in kind)
    words: Mapping[Any, str] = {int: "whole number", float: "number", str: "text"}
    return words.get(cast("Any", kind), "texts")


def http() -> str:
    """Every route: what it is for, takes and answers; then the shapes of bodies and answers."""
    lines = ["# HTTP", "", MADE, HTTP_INTRO]
    document = openapi_document(OPERATIONS)
    paths: Mapping[str, Mapping[str, Mapping[str, Any]]] = document["paths"]
    tags: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in tags.items():
        lines += [f"## {tag}", ""]
        for method, path, operation in operations:
            lines += _operation(method, path, operation)
    lines += ["## Shapes", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _shape(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _shape(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """The fields of an object; what else there is stands as JSON Schema would have it."""
    yield f"### {name}"
    yield ""
    if says := schema.get("description", ""):
        yield from (_plain(says), "")
    fields: Mapping[str, Any] = schema.get("properties", {})
    needed = schema.get("required", [])
    rows = [
        f"| `{field}` | {_schema(one)} | {'always' if field in needed else ''} |"
        for field, one in fields.items()
    ]
    head = ["| field | | |", "| --- | --- | --- |"]
    sentences = [_description(one) for one in fields.values()]
    if any(sentences):
        rows = [f"{row} {sentence} |" for row, sentence in zip(rows, sentences, strict=True)]
        head = ["| field | | | |", "| --- | --- | --- | --- |"]
    yield from (*head, *rows, "") if rows else (_schema(schema), "")


def _description(given: Any) -> str:
    """The sentence about a field; that of an optional one is with its type."""
    if not isinstance(given, dict):
        return ""
    schema = cast("Mapping[str, Any]", given)
    options: list[Any] = schema.get("anyOf", [])
    return schema.get("description", "") or " ".join(filter(None, map(_description, options)))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    is_open = " (*open*)" if operation.get("security") == [] else ""
    yield f"### {method} {path}{is_open}"
    yield ""
    yield from (operation["summary"], "")
    scopes = operation.get("x-scopes", [])
    rows = (
        []
        if len(scopes) in {0, len(SCOPES)}
        else [f"| scope | {' or '.join(f'`{one}`' for one in scopes)} |"]
    )
    rows += [
        f"| {one['in']} `{one['name']}` | {one.get('description', '')} |"
        for one in operation["parameters"]
        if one["in"] != "path"
    ]
    body = operation.get("requestBody", {}).get("content", {})
    rows += [f"| body | {media}: {_schema(content.get('schema', {}))} |" for media, content in body.items()]
    for status, answer in sorted(operation["responses"].items()):
        if int(status) < FIRST_ERROR:
            media = ", ".join(answer.get("content", {}))
            kinds = [_content(media, one["schema"]) for media, one in answer.get("content", {}).items()]
            yields = "; ".join(dict.fromkeys(kinds))
            rows.append(f"| answers {status} | {media}{': ' if yields else ''}{yields} |")
        elif codes := _own_codes(status, answer["description"]):
            rows.append(f"| error {status} | {codes} |")
    yield from ("| | |", "| --- | --- |", *rows, "")


def _content(media: str, schema: Any) -> str:
    is_text = media.startswith("text/") or media == "application/json"
    return _schema(schema) if is_text else "the bytes"


_ANYWHERE = {"401", "408", "413", "421", "500"}
_REFUSALS = {"foreign_origin", "missing_scope", "no_ticket_taken"}


def _own_codes(status: str, codes: str) -> str:
    is_away = status == "503" and codes.startswith("store_unavailable")
    if status in _ANYWHERE or is_away or codes == "outcome_unknown":
        return ""
    own = [code for code in codes.split(", ") if code not in _REFUSALS]
    return ", ".join(f"`{code}`" if " " not in code else code for code in own)


def _schema(given: Any) -> str:
    """A schema in a few words; objects by their names."""
    if not isinstance(given, dict):
        return "any"
    schema = cast("Mapping[str, Any]", given)
    if places := schema.get("prefixItems"):
        return f"[{', '.join(_schema(one) for one in places)}]"
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"`{name}`"
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_schema(one) for one in options))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in values)
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_schema(schema.get('items', {}))}"
    if kind == "object":
        return "frames" if "id" in schema.get("properties", {}) else "object"
    return {"string": "text", "integer": "whole number", "boolean": "true or false", "": "any"}.get(
        kind, str(kind)
    )


def events_reference() -> str:
    """Every event with its fields."""
    lines = ["# Events", "", MADE, EVENTS_INTRO]
    for kind in TYPES.values():
        who = "anyone" if issubclass(kind, events.Input) else "the owner of the run"
        lines += [
            f"## {kind.__struct_config__.tag}",
            "",
            _plain(cleandoc(kind.__doc__ or "")),
            "",
            f"*Who*: {who}.",
            "",
        ]
        rows = [_field(one) for one in msgspec.structs.fields(kind) if one.name != "at_ms"]
        if rows:
            lines += ["| field | | default |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _field(field: msgspec.structs.FieldInfo) -> str:
    kind = _type(inspect.type_info(field.type))
    if field.required:
        return f"| `{field.name}` | {kind} | (always there) |"
    is_empty = field.default is msgspec.NODEFAULT or field.default in ("", (), None)
    value = "empty" if is_empty else "its own defaults" if hasattr(field.default, "__struct_fields__") else ""
    return f"| `{field.name}` | {kind} | {value or f'`{msgspec.json.encode(field.default).decode()}`'} |"


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case inspect.UnionType():
            kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            return " or ".join(_type(one) for one in kinds)
        case inspect.VarTupleType():
            return f"list of {_type(kind.item_type)}"
        case inspect.DictType():
            return "object"
        case inspect.StructType():
            return f"object ({', '.join(f'`{one.name}`' for one in kind.fields)})"
        case _:
            return _WORDS[type(kind)]


DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "configuration.md": lambda: reference().rstrip() + "\n",
    "events.md": events_reference,
    "http.md": http,
}


def stale() -> list[str]:
    """The documents that are not as the code says."""
    found = {name: DOCS / name for name in DOCUMENTS}
    return [
        name
        for name, path in found.items()
        if not path.exists() or path.read_text("utf-8").strip() != DOCUMENTS[name]().strip()
    ]


def main() -> int:
    """Write them, or with --check say which are stale; the exit code."""
    old = stale()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/{name} is stale: run scripts/docs.py" for name in old) or "docs are fresh")
        return 1 if old else 0
    for name in old:
        (DOCS / name).write_text(DOCUMENTS[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
