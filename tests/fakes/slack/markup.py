"""Slack's texts: reads them as Slack does, into what people see and whom they call."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field

_CONTROL = re.compile(r"<([^<>]*)>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


class SlackText(Struct, frozen=True):
    """What people see of a text, the addresses that it links to, and whom it calls."""

    shown: str
    links: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def read_text(source: str) -> SlackText:
    """Read a `text`: `<…>` are links and calls, and only `&lt;`, `&gt;` and `&amp;` are escapes."""
    links: list[str] = []
    calls: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        target, _, label = match[1].partition("|")
        if target[:1] in {"@", "!", "#"}:
            calls.append(target)
            return label or target.replace("!", "@")
        links.append(target)
        return label or target

    shown = _CONTROL.sub(replaced, source)
    for escape, char in _ESCAPES:
        shown = shown.replace(escape, char)
    return SlackText(shown, tuple(links), tuple(calls))


class _Reader(Struct):
    """Gathers what blocks show."""

    lines: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    calls: list[str] = field(default_factory=list[str])

    def text(self, block: Mapping[str, Any]) -> None:
        match block.get("type"):
            case "rich_text":
                for element in block["elements"]:
                    self.lines.append("".join(self._inline(one) for one in element["elements"]))
            case "section" | "context":
                texts = [block["text"]] if "text" in block else block.get("elements", [])
                for one in texts:
                    read = read_text(str(one["text"])) if one["type"] == "mrkdwn" else SlackText(one["text"])
                    self.lines.append(read.shown)
                    self.links += read.links
                    self.calls += read.calls
            case _:
                pass

    def _inline(self, element: Mapping[str, Any]) -> str:
        match element["type"]:
            case "text":
                return str(element["text"])
            case "link":
                self.links.append(str(element["url"]))
                return str(element.get("text") or element["url"])
            case kind:
                self.calls.append(f"{kind} {element.get('user_id') or element.get('range') or ''}".strip())
                return ""


def read_blocks(blocks: Sequence[Mapping[str, Any]]) -> SlackText:
    """What people see of blocks, without buttons."""
    reader = _Reader()
    for block in blocks:
        reader.text(block)
    return SlackText("\n".join(reader.lines), tuple(reader.links), tuple(reader.calls))


def read_message(message: Mapping[str, Any]) -> SlackText:
    """What people see of a message: its blocks, or else its text."""
    blocks: Sequence[Mapping[str, Any]] = message.get("blocks") or ()
    return read_blocks(blocks) if blocks else read_text(str(message.get("text", "")))


def why_bad_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Slack's word for what is wrong with blocks; empty if they are right."""
    if len(blocks) > 50:  # Slack's own limit
        return "invalid_blocks"
    if any(_is_bad_block(block) for block in blocks):
        return "invalid_blocks"
    return "msg_blocks_too_long" if len(read_blocks(blocks).shown) > 13_000 else ""


_INLINE = {"text", "link", "user", "usergroup", "channel", "emoji", "broadcast"}
_RICH = {"rich_text_section", "rich_text_preformatted", "rich_text_quote"}


def _is_bad_block(block: Mapping[str, Any]) -> bool:
    match block.get("type"):
        case "rich_text":
            return _is_bad_rich_text(block)
        case "section":
            return _is_bad_section(block)
        case "actions":
            return _is_bad_actions(block)
        case kind:
            return kind not in {"divider", "context", "header"}


def _is_bad_rich_text(block: Mapping[str, Any]) -> bool:
    elements = _parts(block)
    inline = [one for element in elements for one in _parts(element) or [{}]]
    return (
        not elements
        or any(element.get("type") not in _RICH for element in elements)
        or any(one.get("type") not in _INLINE for one in inline)
        or any(one["type"] == "text" and not one.get("text") for one in inline)
        or any(one["type"] == "link" and not one.get("url") for one in inline)
    )


def _parts(block: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", block.get("elements") or ())


def _label(block: Mapping[str, Any]) -> str:
    return str(cast("Mapping[str, Any]", block.get("text") or {}).get("text", ""))


def _is_bad_section(block: Mapping[str, Any]) -> bool:
    text = _label(block)
    return not 0 < len(text) <= 3_000  # Slack's own limit


def _is_bad_actions(block: Mapping[str, Any]) -> bool:
    buttons = _parts(block)
    ids = [one.get("action_id") for one in buttons]
    return (
        not 0 < len(buttons) <= 25  # Slack's own limits, here and below
        or len(set(ids)) != len(ids)
        or any(
            one.get("type") != "button"
            or not 0 < len(_label(one)) <= 75
            or len(str(one.get("value", ""))) > 2_000
            for one in buttons
        )
    )
