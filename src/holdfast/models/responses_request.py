"""A model request as OpenAI Responses, in the dialect of the endpoint; nothing is stored there."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.messages import (
    AskedTool,
    Message,
    ModelRequest,
    Said,
    SaidText,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.models.parts import Shown, ShownImage, ShownText, data_url, shown_contents
from holdfast.models.wire import (
    NO_OUTPUT,
    NO_TEXT,
    REASONING_OFF,
    Blobs,
    Json,
    WireRequest,
    args_text,
    array_of,
    bearer,
    declarations,
    effort_of,
    fitting_id,
    is_text,
    messages_of,
    post,
    sampling_of,
    sendable,
)
from holdfast.targets import CODEX_BACKEND, Target
from holdfast.values import OutputFormat

TOOL_CALL_IDS = re.compile(r"\S{1,64}")


class ResponsesDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoints whose URL contains `url_part` differ from the rest."""

    url_part: str
    default_instructions: str = ""
    takes_phases: bool = False
    cache_key_headers: tuple[str, ...] = ()
    fixed: dict[str, bool | str] = {}


COMMON = ResponsesDialect(url_part="")
DIALECTS = (
    # All models at this endpoint understand each other's phases.
    ResponsesDialect(url_part="://api.openai.com/", takes_phases=True),
    # The Codex backend wants instructions, refuses sampling and length settings ("Unsupported parameter"),
    # and finds its prompt cache by the session that the headers name.
    ResponsesDialect(
        url_part=CODEX_BACKEND,
        default_instructions="You are a helpful assistant.",
        takes_phases=True,
        cache_key_headers=("session-id", "thread-id"),
        fixed={"tool_choice": "auto", "parallel_tool_calls": True},
    ),
)


def build(request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
    """The POST for this request."""
    dialect = dialect_of(target.base_url)
    key = f"{target.name} {dialect.url_part}"
    items = [message.encoded.get(key) or _encoded(message, target, blobs) for message in messages_of(request)]
    body: Json = {"model": target.model, "stream": True, "store": False, **dialect.fixed}
    if instructions := request.instructions.strip() or dialect.default_instructions:
        body["instructions"] = instructions
    body["input"] = array_of(filter(None, items))
    if request.tools:
        body["tools"] = declarations(request.tools, "responses", _tool)
    if request.tools and request.tool_choice:
        body["tool_choice"] = _choice(request.tool_choice)
    if text := _text(request):
        body["text"] = text
    if request.reasoning_effort != REASONING_OFF:
        body["include"] = ["reasoning.encrypted_content"]
    if effort := effort_of(request):
        body["reasoning"] = {"effort": effort, "summary": "auto"}
    body |= _limits(request, target)
    headers = bearer(target)
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
        headers |= dict.fromkeys(dialect.cache_key_headers, request.cache_key)
    return post(target, "/responses", headers=headers, body=body)


def outputs_by_tool(request: ModelRequest, target: Target) -> bool:
    """Never: every endpoint of this wire takes a schema."""
    del request, target
    return False


def _limits(request: ModelRequest, target: Target) -> Json:
    given = {"max_output_tokens": request.max_output_tokens, "temperature": request.temperature}
    sampling = sampling_of(request, target)
    sampling.pop("verbosity", None)  # it is in `text`
    return {name: value for name, value in given.items() if value is not None} | sampling


def _text(request: ModelRequest) -> Json:
    text: Json = {} if request.output is None else {"format": _format(request.output)}
    if "verbosity" in request.sampling:
        text["verbosity"] = request.sampling["verbosity"]
    return text


def _choice(tool_choice: str) -> str | Json:
    return tool_choice if tool_choice == "required" else {"type": "function", "name": tool_choice}


def _format(output: OutputFormat) -> Json:
    if not output.schema:
        return {"type": "json_object"}
    format_: Json = {
        "type": "json_schema",
        "name": output.name,
        "schema": output.schema,
        "strict": output.strict,
    }
    return {**format_, "description": output.description} if output.description else format_


def dialect_of(base_url: str) -> ResponsesDialect:
    """The dialect of the backend that the URL names."""
    return next((dialect for dialect in DIALECTS if dialect.url_part in base_url), COMMON)


def _encoded(message: Message, target: Target, blobs: Blobs) -> bytes:
    """The message's items; none if nothing of it can be sent to this target."""
    encoded = b",".join(map(msgspec.json.encode, _items(message, target, blobs)))
    if is_text(message):
        message.encoded[f"{target.name} {dialect_of(target.base_url).url_part}"] = encoded
    return encoded


def _items(message: Message, target: Target, blobs: Blobs) -> Iterator[Json]:
    if isinstance(message, UserMessage):
        content = shown_contents(message.text, message.parts, blobs=blobs)
        yield {"role": "user", "content": _content(content) or NO_TEXT}
    elif isinstance(message, ToolMessage):
        content = shown_contents(message.text, message.parts, blobs=blobs)
        call_id = fitting_id(message.tool_call_id, allowed=TOOL_CALL_IDS)
        yield {"type": "function_call_output", "call_id": call_id, "output": _content(content) or NO_OUTPUT}
    else:
        for item in sendable(message, target):
            yield from _said(item, target)


def _said(item: Said, target: Target) -> Iterator[Json]:
    if isinstance(item, SaidText):
        # Other endpoints may refuse an unknown field.
        known = item.target == target.name or dialect_of(target.base_url).takes_phases
        phase = {"phase": item.phase} if item.phase and known else {}
        yield {"role": "assistant", "content": item.text, **phase}
    elif isinstance(item, AskedTool):
        yield {
            "type": "function_call",
            "call_id": fitting_id(item.tool_call_id, allowed=TOOL_CALL_IDS),
            "name": item.name,
            "arguments": args_text(item),
        }
    elif encrypted := item.opaque.get("encrypted_content"):
        # Without its id: the server looks ids up in what it stored, and nothing is stored.
        summary = [{"type": "summary_text", "text": item.text}] if item.text else []
        yield {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def _content(content: Sequence[Shown]) -> str | list[Json]:
    if all(isinstance(part, ShownText) for part in content):
        return "\n\n".join(part.text for part in content if isinstance(part, ShownText))
    return [_part(part) for part in content]


def _part(part: Shown) -> Json:
    if isinstance(part, ShownText):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, ShownImage):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(part.media_type, part.base64)}
    file_data = data_url("application/pdf", part.base64)
    return {"type": "input_file", "filename": part.name, "file_data": file_data}


def _tool(tool: ToolSpec) -> Json:
    # Without "strict": false this wire rewrites a schema to make every property required.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema_json),
        "strict": False,
    }
