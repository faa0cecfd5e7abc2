"""A model request as OpenAI Chat Completions, in the dialect of the endpoint."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from operator import attrgetter
from typing import cast

import msgspec

from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    ModelRequest,
    SaidText,
    Thought,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.models.output_tool import tools_with_output
from holdfast.models.parts import Shown, ShownImage, ShownText, data_url, shown_contents
from holdfast.models.wire import (
    NO_OUTPUT,
    NO_TEXT,
    Blobs,
    Json,
    WireRequest,
    args_text,
    array_of,
    bearer,
    declarations,
    effort_of,
    fitting_id,
    is_at,
    is_text,
    messages_of,
    post,
    sampling_of,
    sendable,
)
from holdfast.targets import Target
from holdfast.values import OutputFormat


class ChatDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoints of one host differ from the rest."""

    host: str
    max_tokens_field: str = "max_tokens"
    takes_cache_key: bool = False
    takes_stream_options: bool = True
    tool_call_ids: str = r"\S{1,200}"
    takes_schema: bool = True  # as response_format


COMMON = ChatDialect(host="")
DIALECTS = (
    *(
        ChatDialect(
            host=host,
            max_tokens_field="max_completion_tokens",
            takes_cache_key=True,
            tool_call_ids=r"\S{1,40}",
        )
        for host in ("api.openai.com", "openai.azure.com", "cognitiveservices.azure.com")
    ),
    ChatDialect(host="openrouter.ai", takes_cache_key=True),
    # Mistral sends usage without being asked, and refuses the option and ids of any other form.
    ChatDialect(host="api.mistral.ai", takes_stream_options=False, tool_call_ids="[a-zA-Z0-9]{9}"),
    ChatDialect(host="api.deepseek.com", takes_schema=False),
)


def build(request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
    """The POST for this request."""
    dialect = dialect_of(target.base_url)
    body: Json = {"model": target.model, "stream": True}
    if dialect.takes_stream_options:
        body["stream_options"] = {"include_usage": True}
    body["messages"] = _Conversation(request, target, blobs=blobs, dialect=dialect).messages()
    by_tool = outputs_by_tool(request, target)
    if tools := tools_with_output(request, by_tool=by_tool):
        body["tools"] = declarations(tools, "chat", _tool)
    if request.tool_choice and tools:
        body["tool_choice"] = _choice(request.tool_choice)
    if request.output is not None and not by_tool:
        body["response_format"] = _response_format(request.output)
    if request.max_output_tokens is not None:
        body[dialect.max_tokens_field] = request.max_output_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    body |= sampling_of(request, target)
    if effort := effort_of(request):
        body["reasoning_effort"] = effort
    if request.cache_key and dialect.takes_cache_key:
        body["prompt_cache_key"] = request.cache_key
    return post(target, "/chat/completions", headers=bearer(target), body=body)


def outputs_by_tool(request: ModelRequest, target: Target) -> bool:
    """Whether structured output must come by a tool: the endpoint knows no schema."""
    wanted = request.output
    return wanted is not None and bool(wanted.schema) and not dialect_of(target.base_url).takes_schema


def _choice(tool_choice: str) -> str | Json:
    if tool_choice == "required":
        return tool_choice
    return {"type": "function", "function": {"name": tool_choice}}


def _response_format(output: OutputFormat) -> Json:
    if not output.schema:
        return {"type": "json_object"}
    schema: Json = {"name": output.name, "schema": output.schema, "strict": output.strict}
    if output.description:
        schema["description"] = output.description
    return {"type": "json_schema", "json_schema": schema}


@lru_cache(maxsize=256)
def dialect_of(base_url: str) -> ChatDialect:
    """The dialect of the host that the URL names."""
    return next((dialect for dialect in DIALECTS if is_at(base_url, dialect.host)), COMMON)


# Pairs of messages that aren't sent one after the other as they are.
_JOINED = frozenset({(UserMessage, UserMessage), (UserMessage, ToolMessage)})


_ENCODED = attrgetter("encoded")


class _Conversation:
    """Builds the messages: joins adjacent user messages, and sends what a tool shows as the user's."""

    def __init__(self, request: ModelRequest, target: Target, *, blobs: Blobs, dialect: ChatDialect) -> None:
        self._request = request
        self._target = target
        self._blobs = blobs
        self._ids = re.compile(dialect.tool_call_ids)
        self._key = f"{target.name} {dialect.tool_call_ids}"  # a text knows its hash
        self._messages: list[bytes] = []
        self._lone: UserMessage | None = None  # nothing else was added since the last answer
        self._user: list[Shown] = []

    def messages(self) -> msgspec.Raw:
        """All messages of the request."""
        if self._request.instructions.strip():
            self._add({"role": "system", "content": self._request.instructions})
        messages = messages_of(self._request)
        known = self._known(messages)
        self._messages += known
        for message in messages[len(known) :]:
            if isinstance(message, AssistantMessage):
                self._add_answer(message)
            elif isinstance(message, ToolMessage):
                self._add_result(message)
            elif self._lone is None and not self._user:
                self._lone = message
            else:
                self._join_user(self._content(message))
        self._flush_user()
        return array_of(self._messages)

    def _known(self, messages: Sequence[Message]) -> list[bytes]:
        """The JSON of the first messages, up to the last that earlier requests ended a turn with."""
        # There can be thousands.
        known = list(map(dict[str, bytes].get, map(_ENCODED, messages), repeat(self._key)))
        count = known.index(None) if None in known else len(known)
        while count and isinstance(messages[count - 1], UserMessage):
            count -= 1  # the next one may be joined to it
        if not _JOINED.isdisjoint(pairwise(map(type, messages[:count]))):
            return []
        return cast("list[bytes]", known[:count])

    def _add(self, message: Json) -> bytes:
        encoded = msgspec.json.encode(message)
        self._messages.append(encoded)
        return encoded

    def _content(self, message: UserMessage) -> list[Shown]:
        return shown_contents(message.text, message.parts, blobs=self._blobs) or [ShownText(NO_TEXT)]

    def _join_user(self, content: Sequence[Shown]) -> None:
        if self._lone is not None:
            self._user = self._content(self._lone)
            self._lone = None
        self._user += content

    def _add_result(self, message: ToolMessage) -> None:
        # Results must directly follow their calls and can only be text, so images come later.
        if (known := message.encoded.get(self._key)) is not None:
            self._messages.append(known)
            return
        text, others = _parted(shown_contents(message.text, message.parts, blobs=self._blobs))
        call_id = self._id(message.tool_call_id)
        encoded = self._add({"role": "tool", "tool_call_id": call_id, "content": text or NO_OUTPUT})
        if others:
            self._join_user([ShownText(f"Shown by the tool {message.name}:"), *others])
        elif is_text(message):
            message.encoded[self._key] = encoded

    def _add_answer(self, message: AssistantMessage) -> None:
        if (known := message.encoded.get(self._key)) is not None:
            self._flush_user()
            self._messages.append(known)
            return
        items = sendable(message, self._target)
        if not items:
            return
        self._flush_user()
        calls = [item for item in items if isinstance(item, AskedTool)]
        text = "\n\n".join(item.text for item in items if isinstance(item, SaidText))
        answer: Json = {"role": "assistant", "content": text or None}
        answer |= _thinking((item for item in items if isinstance(item, Thought)), with_calls=bool(calls))
        if calls:
            answer["tool_calls"] = [self._call(item) for item in calls]
        message.encoded[self._key] = self._add(answer)

    def _call(self, asked: AskedTool) -> Json:
        call: Json = {
            "id": self._id(asked.tool_call_id),
            "type": "function",
            "function": {"name": asked.name, "arguments": args_text(asked)},
        }
        if asked.target == self._target.name and (extra := asked.opaque.get("extra_content")):
            call["extra_content"] = msgspec.Raw(extra.encode())
        return call

    def _id(self, tool_call_id: str) -> str:
        return fitting_id(tool_call_id, allowed=self._ids)

    def _flush_user(self) -> None:
        lone, self._lone = self._lone, None
        if lone is not None:
            known = lone.encoded.get(self._key)
            if known is None:
                known = msgspec.json.encode(_from_user(self._content(lone)))
                if is_text(lone):
                    lone.encoded[self._key] = known
            self._messages.append(known)
        elif self._user:
            self._add(_from_user(self._user))
            self._user = []


def _from_user(shown_parts: Sequence[Shown]) -> Json:
    text, others = _parted(shown_parts)
    return {"role": "user", "content": [_part(part) for part in shown_parts] if others else text}


def _thinking(thoughts: Iterable[Thought], *, with_calls: bool) -> Json:
    """Reasoning is sent back in the field that it came in: OpenRouter's details, or if tools were called.

    DeepSeek and Moonshot refuse a tool call that comes back without its thinking.
    """
    back: Json = {}
    for thought in thoughts:
        field = thought.opaque.get("field", "")
        if details := thought.opaque.get("reasoning_details"):
            back["reasoning_details"] = msgspec.Raw(details.encode())
        elif with_calls and field in {"reasoning", "reasoning_content"} and thought.text:
            back[field] = f"{back.get(field, '')}{thought.text}"
    return back


def _parted(content: Sequence[Shown]) -> tuple[str, list[Shown]]:
    text = "\n\n".join(part.text for part in content if isinstance(part, ShownText))
    return text, [part for part in content if not isinstance(part, ShownText)]


def _part(part: Shown) -> Json:
    if isinstance(part, ShownText):
        return {"type": "text", "text": part.text}
    if isinstance(part, ShownImage):
        return {"type": "image_url", "image_url": {"url": data_url(part.media_type, part.base64)}}
    file = {"filename": part.name, "file_data": data_url("application/pdf", part.base64)}
    return {"type": "file", "file": file}


def _tool(tool: ToolSpec) -> Json:
    function: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema_json),
    }
    return {"type": "function", "function": function}
