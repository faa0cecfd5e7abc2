"""Completes valid requests of schemathesis where a rule depends on other values, on state or on the target.

Each change is for a rule that JSON Schema can't express. Everything else is sent as it was drawn.
"""

from typing import Any, cast

import schemathesis

USER = {"role": "user", "content": "hi"}
# Values that only an earlier response contains, and a day that must not be after another.
FROM_RESPONSES = ("cursor", "after", "from")
# The first two repeat an id or are only for plans. An agent refuses some forms of the others, and a relayed
# model accepts them.
DEPENDENT = ("clarify_id", "steps", "n", "logprobs", "top_logprobs", "tools", "tool_choice")


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]  # its types are incomplete
def map_query(_: schemathesis.HookContext, query: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave out values that only an earlier response contains."""
    return query and {name: value for name, value in query.items() if name not in FROM_RESPONSES}


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]  # its types are incomplete
def map_body(context: schemathesis.HookContext, body: object) -> object:
    """Make the body follow the rules that a schema can't express."""
    if not isinstance(body, dict):
        return body
    drawn = cast("dict[str, Any]", body)
    made = {name: _texts(value) for name, value in drawn.items() if name not in DEPENDENT}
    for name in ("messages", "input", "message"):
        if isinstance(made.get(name), list):
            made[name] = [*made[name], USER]  # the last one is the user's
    for name in ("to_seq", "at_seq"):
        if made.get(name) is not None:
            made[name] = 1  # one that the session has
    operation: Any = cast("Any", context).operation
    return _for_path(operation.path if operation else "", made)


def _for_path(path: str, made: dict[str, Any]) -> dict[str, Any]:
    if path == "/v1/responses/input_tokens":
        made.pop("model", None)  # of an agent
    if path.startswith("/v1/messages"):  # other fields depend on the protocol of the target
        made = {name: made[name] for name in ("model", "messages")}
    if path.endswith("/messages") and isinstance(made.get("message"), list):
        made["message"] = [{"type": "text", "text": "hi"}]
    if path == "/v1/memory" and made["scope"] == "skills":
        made["scope"] = "user"  # the text of a skill contains the document's name
    if "parts" in made:
        made["parts"] = [{"kind": "text", "text": "hi"} for _ in made["parts"]]  # not of unknown blobs
    if made.get("resume"):
        made["resume"] = made["resume"][:1]  # an interrupt is answered once
    return made


def _texts(value: Any) -> Any:
    """Messages whose parts are text: which other parts are accepted depends on their data."""
    if not isinstance(value, list):
        return value
    return [_text(one) for one in cast("list[Any]", value)]


def _text(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    fields = cast("dict[str, Any]", message)
    return fields | {"content": "hi"} if isinstance(fields.get("content"), list) else fields
