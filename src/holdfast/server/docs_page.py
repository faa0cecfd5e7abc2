"""The description of the API, as OpenAPI and as a page: plain HTML without scripts or anything remote."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast.api.openapi import openapi_document
from holdfast.api.operations import OPERATIONS
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import raw_response

Schema: TypeAlias = Mapping[str, Any]

_CODE = re.compile("`([^`]*)`")

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin:2.5rem 0 .5rem}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:0 .8rem}
summary{cursor:pointer;padding:.5rem 0}summary code{font-weight:600}
.method{display:inline-block;min-width:4.2rem;font:600 12px ui-monospace,monospace}
table{border-collapse:collapse;width:100%;margin:.4rem 0 1rem}
td,th{border-top:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}
code{font:13px ui-monospace,monospace;background:var(--soft);border-radius:3px;padding:0 .2em}
nav a{margin-right:1rem}
"""


class DocsRoutes:
    """The routes that describe the API. Both forms are generated on first use."""

    def __init__(self, mount_path: str) -> None:
        self._mount_path = mount_path
        self._made: tuple[bytes, str] | None = None

    def _both(self) -> tuple[bytes, str]:
        if self._made is None:
            document = openapi_document(OPERATIONS, mount_path=self._mount_path)
            self._made = msgspec.json.encode(document), docs_page(document)
        return self._made

    async def openapi(self, request: Request) -> Response:
        """GET /openapi.json."""
        del request
        return raw_response(self._both()[0])

    async def page(self, request: Request) -> Response:
        """GET /docs."""
        del request
        return HTMLResponse(self._both()[1])


def docs_page(document: Mapping[str, Any]) -> str:
    """The whole page."""
    info, schemas = document["info"], document["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    links = "".join(f'<a href="#{_id(tag)}">{escape(tag)}</a>' for tag in [*groups, "Shapes"])
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        "<p>Send <code>Authorization: Bearer KEY</code>. For programs: ",
        f'<a href="openapi.json">openapi.json</a>.</p><nav>{links}</nav>',
    ]
    for tag, operations in groups.items():
        parts += [f'<h2 id="{_id(tag)}">{escape(tag)}</h2>', *operations]
    parts.append('<h2 id="shapes">Shapes</h2>')
    parts += [_shape(name, schemas[name]) for name in sorted(schemas)]
    return "".join(parts) + "</html>"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = [
        (parameter["name"], f"in the {parameter['in']}", parameter.get("description", ""))
        for parameter in operation["parameters"]
    ]
    body = operation.get("requestBody", {}).get("content", {})
    takes = [f"{_type(one['schema'])} as <code>{escape(kind)}</code>" for kind, one in body.items()]
    answers = [
        (status, ", ".join(_answers(answer)), answer["description"])
        for status, answer in operation["responses"].items()
    ]
    scopes = (
        " or ".join(f"<code>{one}</code>" for one in operation.get("x-scopes", ())) or "none (no key needed)"
    )
    return (
        f'<details id="{_id(operation["operationId"])}"><summary><span class=method>{method.upper()}</span>'
        f"<code>{escape(path)}</code> {_prose(operation['summary'])}</summary>"
        f"<p>Scope of the key: {scopes}</p>"
        f"{_table(('Parameter', 'Where', 'Meaning'), rows)}"
        f"{'<p>Body: ' + ' or '.join(takes) + '</p>' if takes else ''}"
        f"{_table(('Status', 'Answer', 'Meaning, or codes of the error'), answers)}</details>"
    )


def _answers(answer: Mapping[str, Any]) -> Iterator[str]:
    for kind, one in answer.get("content", {}).items():
        yield _type(one["schema"]) if kind == "application/json" else f"<code>{escape(kind)}</code>"


def _shape(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (field, _type(one) + ("" if field in required else " <small>optional</small>"), _words(one))
        for field, one in schema.get("properties", {}).items()
    ]
    said = escape(schema.get("description", ""))
    table = _table(("Field", "Type", "Meaning"), rows) or f"<p>{_type(schema)}</p>"
    return f'<details id="{_id(name)}"><summary><code>{escape(name)}</code> {said}</summary>{table}</details>'


def _words(schema: Schema) -> str:
    found = schema.get("description") or next(
        (one["description"] for one in schema.get("anyOf", ()) if "description" in one), ""
    )
    return str(found)


def _type(schema: Schema) -> str:
    """The type in a few words, as HTML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_id(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items') or {})}"
    return escape(str(schema.get("type", "anything")))


def _table(heads: tuple[str, str, str], rows: list[tuple[str, str, str]]) -> str:
    """A table; the middle column is HTML already."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        f"<tr><td><code>{escape(first)}</code></td><td>{middle}</td><td>{_prose(last)}</td></tr>"
        for first, middle, last in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _id(name: str) -> str:
    return escape(name.lower().replace(" ", "-"), quote=True)


def _prose(text: str) -> str:
    """Words with code between backticks, as HTML."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    docs = DocsRoutes(parts.deps.options.mount_path)
    return {
        "docs.openapi": docs.openapi,
        "docs.page": docs.page,
    }
