"""The model that real clients talk to: it reads the last thing that was said, on any wire, and answers it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.chaos import (
    CallTool,
    Drop,
    Hang,
    Say,
    SayWords,
    SeenRequest,
    Status,
    Step,
    insufficient_quota,
    overloaded,
)

ANSWER: Mapping[str, object] = {"city": "Bern", "celsius": 21}
_FORMATS = ("response_format", "output_config", "output_format")
REFUSED = "The provider says: this prompt is not acceptable."
_RETRIED: Sequence[Sequence[Step]] = ([Drop()], [overloaded(529)], [Say("at last")])


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that was said to the model: by a user, or by a tool."""

    role: str
    text: str


@dataclass(slots=True)
class TaskModel:
    """Answers the prompts of the tasks; `command` is what the agent runs in the task `timeout`."""

    command: str = ""
    seen: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, request: SeenRequest) -> Sequence[Step]:
        """The answer to one request."""
        body: dict[str, Any] = dict(request.body or {})
        turns = turns_of(body)
        prompts = [turn.text for turn in turns if turn.role == "user"]
        prompt = prompts[-1] if prompts else ""
        self.seen[prompt] += 1
        if turns and turns[-1].role == "tool":
            return [Say("done")] if prompt == "timeout" else [Say(f"The tool says: {turns[-1].text}")]
        word, _, rest = prompt.partition(" ")
        match word:
            case "stream":
                return [SayWords("one two three", pace_s=0.2)]
            case "weather":
                return [CallTool("weather", {"city": rest})]
            case "structured":
                return _structured(body)
            case "error":
                return _error(rest)
            case "retry":
                return _RETRIED[min(self.seen[prompt], len(_RETRIED)) - 1]
            case "timeout":
                return self._timeout(body)
            case _:
                return [Say("hello")]

    def _timeout(self, body: dict[str, Any]) -> Sequence[Step]:
        if '"shell"' in json.dumps(body.get("tools", [])):
            return [CallTool("shell", {"command": self.command})]
        return [Hang()] if self.seen["timeout"] == 1 else [Say("done")]


def _structured(body: Any) -> Sequence[Step]:
    """JSON where a format is asked for, else a call of the tool that takes this object."""
    text: Any = body.get("text", {})
    if text.get("format") or any(body.get(name) for name in _FORMATS):
        return [Say(json.dumps(ANSWER))]
    tools: list[Any] = body.get("tools", [])
    for tool in tools:
        function: Any = tool.get("function", tool)
        schema: Any = function.get("parameters") or function.get("input_schema", {})
        if ANSWER.keys() <= set(schema.get("properties", ())):
            return [CallTool(function["name"], ANSWER)]
    return [Say("nobody asked for an object")]


def _error(kind: str) -> Sequence[Step]:
    match kind:
        case "refused":
            return [Status(400, message=REFUSED, code="not_acceptable")]
        case "quota":
            return [insufficient_quota()]
        case "overloaded":
            return [overloaded()]
        case _:
            return [Say("half of "), Drop()]


def turns_of(body: Mapping[str, Any]) -> list[Turn]:
    """What users and tools have said, oldest first, on any wire."""
    given: Any = body.get("messages") or body.get("input") or []
    if isinstance(given, str):
        return [Turn("user", given)]
    items: list[Any] = given
    turns: list[Turn] = []
    for item in items:
        if item.get("type") == "function_call_output":
            turns.append(Turn("tool", _text(item.get("output"))))
        elif item.get("role") == "tool":
            turns.append(Turn("tool", _text(item.get("content"))))
        elif item.get("role") == "user":
            turns += _user_turns(item.get("content"))
    return turns


def _user_turns(content: Any) -> list[Turn]:
    parts: list[Any] = [] if isinstance(content, str) else content
    results = [part for part in parts if part.get("type") == "tool_result"]
    if results:
        return [Turn("tool", _text(part.get("content"))) for part in results]
    return [Turn("user", _text(content))]


def _text(content: Any) -> str:
    parts: list[Any] = [{"text": content}] if isinstance(content, str) else content or []
    return "".join(part.get("text", "") for part in parts)
