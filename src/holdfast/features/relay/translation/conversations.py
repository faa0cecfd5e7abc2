"""The messages of each wire in our form."""

import base64
import binascii
from hashlib import sha256
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from holdfast.messages import AskedTool, AssistantMessage, Message, Said, SaidText, ToolMessage, UserMessage
from holdfast.models.parts import IMAGE_TYPES
from holdfast.server.message_content import Attached, content_of
from holdfast.server.problems import Problem, bad_request
from holdfast.values import FilePart, ImagePart, Part

Fields: TypeAlias = dict[str, Any]


def not_translatable(field_name: str) -> Problem:
    """The field means something that the target's protocol can't say."""
    return bad_request(
        f"'{field_name}' can't be translated to this model's protocol. Omit the field, or choose a model "
        "whose target uses the protocol of this request",
        param=field_name,
        code="not_translatable",
    )


def thread_unsupported() -> Problem:
    """The error for message threads on another wire. Anthropic's packages then send the whole history."""
    return bad_request(
        "'thread' can't be translated: this model's protocol has no threads. Send all messages, without "
        "'thread'",
        param="thread",
        code="thread_unsupported_request",
    )


def table_in(fields: Fields, name: str) -> Fields:
    """An object in an object; empty if there's none."""
    value = fields.get(name)
    return cast("Fields", value) if isinstance(value, dict) else {}


class ClientConversation(Struct):
    """Messages, and the instructions that were among them."""

    messages: list[Message] = field(default_factory=list[Message])
    instructions: list[str] = field(default_factory=list[str])
    names: dict[str, str] = field(default_factory=dict[str, str])  # of tools, by the id of their call

    def answer(self, *items: Said) -> None:
        """Add what the model said."""
        if items:
            self.messages.append(AssistantMessage(items))

    def call(self, call_id: str, name: str, args: object) -> AskedTool:
        """A tool call of the model; its name is remembered for the result."""
        self.names[call_id] = name
        if isinstance(args, dict):
            return AskedTool(call_id, name, cast("Fields", args))
        try:
            return AskedTool(call_id, name, msgspec.json.decode(str(args) or "{}", type=dict[str, Any]))
        except (msgspec.MsgspecError, RecursionError):
            return AskedTool(call_id, name, bad_args=str(args))

    def result(self, call_id: str, text: str, parts: tuple[Part, ...] = (), *, ok: bool = True) -> None:
        """Add what a tool brought."""
        name = self.names.get(call_id, "tool")
        self.messages.append(ToolMessage(call_id, name, text, ok=ok, parts=parts))


def from_chat(fields: Fields, attached: Attached) -> ClientConversation:
    """The messages of Chat Completions."""
    said = ClientConversation()
    for at, message in enumerate(_objects(fields, "messages")):
        where = f"messages[{at}]"
        role, content = message.get("role"), message.get("content")
        text, parts = content_of(_content(content, where), param=f"{where}.content", attached=attached)
        match role:
            case "system" | "developer":
                said.instructions.append(text)
            case "user":
                said.messages.append(UserMessage(text, parts))
            case "tool":
                said.result(str(message.get("tool_call_id") or ""), text, parts)
            case "assistant":
                items: list[Said] = [SaidText(text)] if text else []
                for call in _objects(message, "tool_calls", where):
                    function = table_in(call, "function")
                    if not function:
                        raise not_translatable(f"{where}.tool_calls")
                    name = str(function.get("name") or "")
                    items.append(said.call(str(call.get("id") or ""), name, function.get("arguments")))
                said.answer(*items)
            case _:
                raise not_translatable(f"{where}.role")
    return said


def from_responses(fields: Fields, attached: Attached) -> ClientConversation:
    """The input items of Responses."""
    said = ClientConversation()
    if instructions := fields.get("instructions"):
        said.instructions.append(str(instructions))
    given = fields.get("input")
    if isinstance(given, str):
        said.messages.append(UserMessage(given))
        return said
    for at, item in enumerate(_objects(fields, "input")):
        where = f"input[{at}]"
        match item.get("type") or "message":
            case "message":
                _add_message(said, item, where, attached)
            case "function_call":
                call_id, name = str(item.get("call_id") or ""), str(item.get("name") or "")
                said.answer(said.call(call_id, name, item.get("arguments")))
            case "function_call_output":
                content = _content(item.get("output"), where)
                text, parts = content_of(content, param=f"{where}.output", attached=attached)
                said.result(str(item.get("call_id") or ""), text, parts)
            case "reasoning":
                pass  # without its encrypted content, which would bind the request to its provider
            case _:
                raise not_translatable(f"{where}.type")
    return said


def _add_message(said: ClientConversation, item: Fields, where: str, attached: Attached) -> None:
    content = _content(item.get("content"), where)
    text, parts = content_of(content, param=f"{where}.content", attached=attached)
    match item.get("role"):
        case "system" | "developer":
            said.instructions.append(text)
        case "user":
            said.messages.append(UserMessage(text, parts))
        case "assistant":
            said.answer(SaidText(text))
        case _:
            raise not_translatable(f"{where}.role")


def from_anthropic(fields: Fields, attached: Attached) -> ClientConversation:
    """The messages of Anthropic."""
    said = ClientConversation()
    system = fields.get("system")
    if isinstance(system, str):
        said.instructions.append(system)
    else:
        said.instructions += [str(block.get("text") or "") for block in _objects(fields, "system")]
    for at, message in enumerate(_objects(fields, "messages")):
        where = f"messages[{at}]"
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else None
        blocks = _objects(message, "content", where) if blocks is None else blocks
        if message.get("role") == "assistant":
            said.answer(*_answer_blocks(said, blocks, where))
        elif message.get("role") == "user":
            _add_user_blocks(said, blocks, where, attached)
        elif message.get("role") == "system":
            said.instructions.append(_user_parts(blocks, where, attached)[0])
        else:
            raise not_translatable(f"{where}.role")
    return said


def _answer_blocks(said: ClientConversation, blocks: list[Fields], where: str) -> list[Said]:
    items: list[Said] = []
    for at, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                items.append(SaidText(str(block.get("text") or "")))
            case "tool_use":
                call_id, name = str(block.get("id") or ""), str(block.get("name") or "")
                items.append(said.call(call_id, name, block.get("input")))
            case "thinking":
                pass  # without a signature it is a thought that this relay has translated
            case _:
                raise not_translatable(f"{where}.content[{at}].type")
    return items


def _add_user_blocks(said: ClientConversation, blocks: list[Fields], where: str, attached: Attached) -> None:
    """Results of tools first: they answer the message before."""
    rest: list[Fields] = []
    for at, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            rest.append(block)
            continue
        inner = block.get("content")
        inside = f"{where}.content[{at}]"
        if isinstance(inner, str) or inner is None:
            text, parts = inner or "", ()
        else:
            text, parts = _user_parts(_objects(block, "content", inside), inside, attached)
        said.result(str(block.get("tool_use_id") or ""), text, parts, ok=not block.get("is_error"))
    if rest:
        said.messages.append(UserMessage(*_user_parts(rest, where, attached)))


def _user_parts(blocks: list[Fields], where: str, attached: Attached) -> tuple[str, tuple[Part, ...]]:
    texts: list[str] = []
    parts: list[Part] = []
    for at, block in enumerate(blocks):
        inside = f"{where}.content[{at}]"
        match block.get("type"):
            case "text":
                texts.append(str(block.get("text") or ""))
            case "image" | "document":
                parts.append(_file(block, inside, attached))
            case _:
                raise not_translatable(f"{inside}.type")
    return "\n".join(texts), tuple(parts)


def _file(block: Fields, where: str, attached: Attached) -> Part:
    source = table_in(block, "source")
    media_type = str(source.get("media_type") or "text/plain")
    match source.get("type"):
        case "base64":
            try:
                data = base64.b64decode(str(source.get("data") or ""), validate=True)
            except (binascii.Error, ValueError):
                raise bad_request(f"'{where}.source' isn't valid base64", param=f"{where}.source") from None
        case "text":
            data = str(source.get("data") or "").encode()
        case _:
            raise not_translatable(f"{where}.source")
    name = sha256(data).hexdigest()
    attached[name] = data
    if media_type in IMAGE_TYPES:
        return ImagePart(blob=name, media_type=media_type)
    return FilePart(blob=name, media_type=media_type, name=str(block.get("title") or "document"))


def _objects(fields: Fields, name: str, where: str = "") -> list[Fields]:
    """A list of objects; empty if it's missing."""
    param = f"{where}.{name}" if where else name
    given = fields.get(name)
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in cast("list[object]", given)):
        raise bad_request(f"'{param}' must be a list of objects", param=param)
    return cast("list[Fields]", given)


def _content(content: object, where: str) -> str | list[Fields] | None:
    if content is None or isinstance(content, str):
        return content
    return _objects({"content": content}, "content", where)
