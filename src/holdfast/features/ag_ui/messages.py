"""The messages of an AG-UI client in the form that all clients' messages are read in."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from holdfast.server.problems import bad_request

Raw: TypeAlias = dict[str, Any]

_LEFT_OUT = ("activity", "reasoning")  # nothing that another model could use


def chat_messages(messages: Sequence[Raw]) -> list[Raw]:
    """The messages as Chat Completions has them; raises a Problem that names what can't be read."""
    return [
        _message(one, f"messages[{at}]")
        for at, one in enumerate(messages)
        if one.get("role") not in _LEFT_OUT
    ]


def _message(given: Raw, where: str) -> Raw:
    """One message; whatever is missing in it is found where all messages are checked."""
    content: Any = given.get("content")
    if isinstance(content, list):
        content = list(_parts(cast("list[Any]", content), f"{where}.content"))
    message: Raw = {"role": given.get("role"), "content": content}
    if given.get("toolCalls"):
        message["tool_calls"] = given["toolCalls"]
    if given.get("toolCallId"):
        message["tool_call_id"] = given["toolCallId"]
    if given.get("role") == "tool" and isinstance(given.get("error"), str):
        message["content"] = f"The tool failed: {given['error']}" + (f"\n{content}" if content else "")
    return message


def _parts(parts: Iterable[Any], where: str) -> Iterable[Raw]:
    for at, part in enumerate(parts):
        if not isinstance(part, dict):
            raise bad_request(f"Invalid '{where}[{at}]': a part must be an object", param=f"{where}[{at}]")
        yield _part(cast("Raw", part), f"{where}[{at}]")


def _part(part: Raw, where: str) -> Raw:
    match part.get("type"):
        case "image":
            return {"type": "image_url", "image_url": {"url": _url(part.get("source"), where)}}
        case "document" | "audio" | "video":
            name = (
                cast("Raw", part["metadata"]).get("filename")
                if isinstance(part.get("metadata"), dict)
                else None
            )
            file: Raw = {"file_data": _url(part.get("source"), where)}
            return {"type": "file", "file": file | ({"filename": name} if isinstance(name, str) else {})}
        case _:
            return part


def _url(source: object, where: str) -> str:
    """Return the content of a part as a URL: a data: URL or an address."""
    given = cast("Raw", source) if isinstance(source, dict) else {}
    value, kind = given.get("value"), given.get("mimeType")
    if given.get("type") == "data" and isinstance(value, str) and isinstance(kind, str):
        return f"data:{kind};base64,{value}"
    if given.get("type") == "url" and isinstance(value, str):
        return value
    raise bad_request(
        f"Invalid '{where}.source': send {{type: data, value, mimeType}} in Base64, or {{type: url, value}}",
        param=f"{where}.source",
    )
