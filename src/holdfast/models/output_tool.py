"""Structured output where a wire has no mode for it: the model answers by a tool call, which is read as text.

Nobody above the wire knows: the arguments of the call are the answer.
"""

from typing_extensions import override

from holdfast.messages import ModelRequest, ToolSpec
from holdfast.model_events import ArgsPiece, Finished, ItemClosed, ItemOpened, ModelEvent, TextPiece
from holdfast.models.wire import MappingParser, StreamParser
from holdfast.values import OutputFormat

OUTPUT_TOOL = "final_answer"
_DESCRIPTION = "Give your final answer with this tool, once, in place of a text."


def output_tool_name(request: ModelRequest) -> str:
    """The name of the tool that takes the answer: one that no tool of the request has."""
    taken, name = {tool.name for tool in request.tools}, OUTPUT_TOOL
    while name in taken:
        name += "_"
    return name


def output_tool(output: OutputFormat, name: str) -> ToolSpec:
    """The tool that takes the answer."""
    description = " ".join(filter(None, (_DESCRIPTION, output.description)))
    return ToolSpec(name, description, output.schema or {"type": "object"})


def tools_with_output(request: ModelRequest, *, by_tool: bool) -> tuple[ToolSpec, ...]:
    """The tools of the request, and the one that takes the answer if it comes by a tool."""
    if request.output is None or not by_tool:
        return request.tools
    return (*request.tools, output_tool(request.output, output_tool_name(request)))


class OutputToolParser(MappingParser):
    """Tells a call of the output tool as text, and everything else as it is."""

    def __init__(self, parser: StreamParser, name: str) -> None:
        super().__init__(parser)
        self._name = name
        self._outputs: set[int] = set()
        self._has_calls = False

    @override
    def mapped(self, event: ModelEvent) -> ModelEvent:
        match event:
            case ItemOpened(kind="tool", name=name):
                if name != self._name:
                    self._has_calls = True
                    return event
                self._outputs.add(event.index)
                return ItemOpened(event.index, "text")
            case ArgsPiece() if event.index in self._outputs:
                return TextPiece(event.index, event.text)
            case ItemClosed(kind="tool", name=name) if name == self._name:
                self._outputs.discard(event.index)
                return ItemClosed(event.index, "text", event.text)
            case ItemClosed(kind="tool"):
                self._has_calls = True
                return event
            case Finished(reason="tools") if not self._has_calls:
                return Finished("stop", event.detail)
            case _:
                return event
