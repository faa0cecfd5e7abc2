"""How large a request is taken to be: enough to choose patience by."""

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
from holdfast.values import FilePart, ImagePart, TextPart
from tables import for_each_row

LONG = "x" * 40_000


@for_each_row(
    "message",
    [
        UserMessage(LONG),
        UserMessage("", (TextPart(LONG),)),
        AssistantMessage((SaidText(LONG),)),
        AssistantMessage((Thought(LONG),)),
        AssistantMessage((AskedTool("c", "look", {"at": LONG}),)),
        AssistantMessage((AskedTool("c", "look", bad_args=LONG),)),
        ToolMessage("c", "look", LONG),
    ],
)
def test_all_that_is_sent_counts(message: Message) -> None:
    assert 10_000 <= ModelRequest(messages=(message,)).input_tokens < 10_100


def test_instructions_and_tools_count_too() -> None:
    """S000-7."""
    tools = (ToolSpec("look", LONG, {"type": "object"}),)
    request = ModelRequest(messages=(UserMessage("hi"),), instructions=LONG, tools=tools)
    assert 20_000 <= request.input_tokens < 20_100


def test_images_and_files_count_as_what_they_usually_are() -> None:
    image = ImagePart(blob="b", media_type="image/png")
    file = FilePart(blob="b", media_type="application/pdf", name="a.pdf")
    assert ModelRequest(messages=(UserMessage("", (image, file)),)).input_tokens == 3_504
