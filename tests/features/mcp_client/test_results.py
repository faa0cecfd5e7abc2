"""What a call brought, as the model sees it."""

import base64
from typing import Any

from mcp.types import CallToolResult

from holdfast.features.mcp_client.tool import IMAGE_BYTES_MAX, PARTS_MAX, tool_result
from holdfast.values import FilePart, ImagePart
from stores import MemoryStore

PNG = b"\x89PNG\r\n\x1a\n and so on"


def result(*content: dict[str, Any], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, **more})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}


async def test_words_are_shown_once() -> None:
    results = [
        (result(), "(no output)"),
        (result(text("a"), text("b")), "a\nb"),
        (result(text("\x1b[31mred\x1b[0m\0")), "red"),
        (result(text('{"n": 1}'), structuredContent={"n": 1}), '{"n": 1}'),
        (result(text("1"), structuredContent={"result": 1}), "1"),
        (result(text("a"), text("b"), structuredContent={"result": ["a", "b"]}), "a\nb"),
        (result(text("a note\n"), structuredContent={"content": "a note\n"}), "a note\n"),
        (result(text('[{"n": 1}]'), structuredContent={"entities": [{"n": 1}]}), '[{"n": 1}]'),
        (result(text("one found"), structuredContent={"n": 1}), 'one found\n{"n":1}'),
        (result(structuredContent={"n": 1}), '{"n":1}'),
        (result({"type": "resource_link", "uri": "file:///a", "name": "a"}), "[resource file:///a]"),
        (
            result({"type": "image", "data": "no base64!", "mimeType": "image/png"}),
            "[image/png: invalid base64]",
        ),
    ]
    for given, shown in results:
        assert (await tool_result(given, MemoryStore())).text == shown, given


async def test_an_error_is_not_ok() -> None:
    answer = await tool_result(result(text("no"), isError=True), MemoryStore())
    assert (answer.ok, answer.text) == (False, "no")


async def test_an_image_is_what_its_bytes_are() -> None:
    store = MemoryStore()
    answer = await tool_result(result(image(PNG, "image/jpeg"), image(b"<svg/>", "image/png")), store)
    shown, hidden = answer.parts
    assert isinstance(shown, ImagePart)
    assert shown.media_type == "image/png"
    assert await store.blob(shown.blob) == PNG
    assert isinstance(hidden, FilePart)
    assert await store.blob(hidden.blob) == b"<svg/>"


async def test_images_are_bounded_in_size_and_number() -> None:
    large = PNG + bytes(IMAGE_BYTES_MAX)
    answer = await tool_result(result(image(large), *[image(PNG)] * PARTS_MAX), MemoryStore())
    assert len(answer.parts) == PARTS_MAX
    assert [type(part) for part in answer.parts[:2]] == [FilePart, ImagePart]
    assert "omitted, there are more than 8" in answer.text


async def test_a_crowd_of_parts_is_cut() -> None:
    answer = await tool_result(result(*[text("x")] * 1200), MemoryStore())
    assert answer.text.endswith("x\n[200 more parts omitted]")
