"""Tool choice and sampling, read from a client's request for another wire."""

from typing import cast

from holdfast.features.relay.translation.conversations import Fields, not_translatable, table_in
from holdfast.messages import ModelRequest
from holdfast.server.problems import bad_request
from holdfast.targets import APPLIED_HERE, SAMPLING, STOPS_MAX, Target, Wire

NO_TOOLS = "none"
ONE_CALL = "parallel_tool_calls"


def tool_choice_in(fields: Fields, wire: Wire) -> str:
    """The choice as our requests have it: none, required, the name of a tool, or empty for any."""
    choice = fields.get("tool_choice")
    if isinstance(choice, dict):
        return _of_table(cast("Fields", choice), wire)
    if choice in {None, "auto"}:
        return ""
    if wire != "anthropic" and choice in {NO_TOOLS, "required"}:
        return str(choice)
    raise not_translatable("tool_choice")


def _of_table(choice: Fields, wire: Wire) -> str:
    if wire == "anthropic":
        words = {"auto": "", "none": NO_TOOLS, "any": "required"}
        kind = choice.get("type")
        if kind in words:
            return words[kind]
        name = choice.get("name") if kind == "tool" else None
    else:
        place = table_in(choice, "function") if wire == "chat" else choice
        name = place.get("name") if choice.get("type") == "function" else None
    if not isinstance(name, str) or not name:
        raise not_translatable("tool_choice")
    return name


def sampling_in(fields: Fields, wire: Wire) -> dict[str, object]:
    """The sampling options, under OpenAI's names; raises a Problem for one of the wrong type."""
    found: dict[str, object] = {ONE_CALL: False} if _wants_one_call(fields, wire) else {}
    for name, own in SAMPLING[wire].items():
        value = fields.get(own)
        if name == ONE_CALL or value is None or value == []:
            continue
        if name == "stop" and not _is_texts(value):
            raise bad_request(f"'{own}' must be a string or a list of up to {STOPS_MAX} strings", param=own)
        found[name] = value
    return found


def _is_texts(value: object) -> bool:
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    return len(texts) <= STOPS_MAX and all(isinstance(text, str) for text in texts)


def _wants_one_call(fields: Fields, wire: Wire) -> bool:
    """Whether the model may call only one tool at a time."""
    if wire == "anthropic":
        return table_in(fields, "tool_choice").get("disable_parallel_tool_use") is True
    return fields.get(ONE_CALL) is False


def untranslatable(request: ModelRequest, target: Target, *, wire: Wire) -> str:
    """Return the client's field that this target doesn't support; empty if it supports all."""
    for name in request.sampling:
        if name not in SAMPLING[target.wire] and name not in APPLIED_HERE:
            return SAMPLING[wire][name]
    if target.wire == "anthropic" and request.tool_choice and request.reasoning_effort:
        return "tool_choice"  # a reasoning model chooses on its own
    return ""
