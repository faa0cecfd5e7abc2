"""The bodies that server and client share, as a client of an earlier version meets them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.api.approvals import AskList, OpenApproval
from holdfast.api.body import ResponseBody
from holdfast.api.operations import OPERATIONS
from holdfast.api.runs import RunShown
from holdfast.api.sessions import SessionPage
from holdfast.client import BadAnswer, Client
from holdfast.client.decoding import IF_ABSENT, decoded
from holdfast.client.errors import refusal
from holdfast.interfaces.journal import Store
from serving import Setting, served
from tables import for_each_row


def responses() -> list[type[ResponseBody]]:
    """Every struct that an operation returns as JSON."""
    kinds: list[Any] = [kind for one in OPERATIONS for kind in one.response_types()]
    found = {kind.__name__: kind for kind in kinds if hasattr(kind, "__struct_fields__")}
    return [found[name] for name in sorted(found)]


def required(kind: type[ResponseBody]) -> dict[str, Any]:
    """The least that a server sends of it."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    return least(components, schema)


def least(components: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        schema = components[schema["$ref"]]
    if "anyOf" in schema:
        return least(components, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {name: least(components, fields[name]) for name in schema.get("required", ())}
    values: dict[str, Any] = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": ()}
    return values.get(schema["type"])


@for_each_row("kind", responses())
def test_fields_of_a_later_server_are_passed_over(kind: type[ResponseBody]) -> None:
    body = required(kind)
    later = msgspec.json.decode(msgspec.json.encode(body | {"later": {"a": [1]}}), type=kind)
    assert later == msgspec.convert(body, kind)
    assert msgspec.to_builtins(later).keys() == body.keys(), "what is left out on the wire stays left out"


def test_a_status_of_a_later_server_is_passed_on() -> None:
    body = required(RunShown) | {"status": "hibernating"}
    assert msgspec.convert(body, RunShown).status == "hibernating"


def test_an_error_of_something_in_between_still_says_what_is_wrong() -> None:
    error = refusal(502, b'{"error": {"message": "no upstream", "kind": "proxy"}}', retry_after="")
    assert (error.message, error.code, error.param) == ("no upstream", "", None)


@pytest.mark.parametrize("kind", IF_ABSENT, ids=lambda kind: kind.__name__)
def test_what_another_version_leaves_out_gets_the_value_that_its_absence_means(kind: type[Any]) -> None:
    whole = required(kind)
    absent = IF_ABSENT[kind]
    assert absent.keys() <= whole.keys(), "a field that the server may leave out anyway needs nothing here"
    sent = {name: value for name, value in whole.items() if name not in absent}
    with pytest.raises(msgspec.ValidationError, match="missing required field"):
        msgspec.convert(sent, kind)
    got = decoded(msgspec.json.encode(sent | {"later": 1}), kind)
    assert type(got) is kind
    assert {name: getattr(got, name) for name in absent} == {name: of(sent) for name, of in absent.items()}
    assert {name: getattr(got, name) for name in sent if name in kind.__struct_fields__} == {
        name: getattr(msgspec.convert(whole, kind), name) for name in sent if name in kind.__struct_fields__
    }


def test_a_page_of_an_earlier_server_is_completed_at_any_depth() -> None:
    told = {"object": "hermes.session", "session_id": "s", "created_at": 1.0, "updated_at": 2.0}
    page = decoded(msgspec.json.encode({"object": "list", "data": [told]}), SessionPage)
    (session,) = page.data
    assert (session.id, session.last_active, session.begun_runs, page.has_more) == ("s", 2.0, 0, False)
    ask = {"kind": "question", "run_id": "r", "session_id": "s", "asked_at": 1.0}
    asks = decoded(
        msgspec.json.encode({"object": "list", "data": [ask | {"question_id": "q", "question": "Which?"}]}),
        AskList,
    )
    assert asks.data[0].choices == ()


@for_each_row("left_out", ["findings", "action", "choices", "command", "approval_id"])
def test_nothing_is_made_up_that_a_person_decides_by(left_out: str) -> None:
    """P8: an approval whose findings don't arrive isn't one without findings."""
    sent = required(OpenApproval)
    del sent[left_out]
    with pytest.raises(msgspec.ValidationError, match=left_out):
        decoded(msgspec.json.encode(sent), OpenApproval)


def earlier(app: ASGIApp, store: Store) -> ASGIApp:
    """A server that knows of a session no more than its id and its times, and of others not even that."""
    del store
    session = b'{"object":"hermes.session","session_id":"s","created_at":1,"updated_at":2}'

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        is_session = scope.get("path") == "/api/sessions/s"
        answer = Response(
            session if is_session else b'{"object":"hermes.session"}', media_type="application/json"
        )
        await (app if scope["type"] == "lifespan" else answer)(scope, receive, send)

    return answering


async def test_a_client_reads_the_answer_of_an_earlier_server() -> None:
    async with served(setting=Setting(around=earlier)) as server, Client(server.url) as client:
        assert (await client.session("s")).last_active == 2.0
        with pytest.raises(BadAnswer, match="missing required field"):
            await client.session("none")
