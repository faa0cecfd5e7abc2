"""Entries of a transcript as a terminal shows them when a session is opened again."""

from typing import Any

from holdfast.cli.terminal.blocks import BlockCutter
from holdfast.cli.terminal.style import Style
from holdfast.cli.terminal.tool_output import seconds
from holdfast.safe_text import safe, safe_line


def entry_text(style: Style, entry: dict[str, Any]) -> str:
    """One entry, as GET messages gives it; what is over and done needs few words."""
    match entry.get("kind"):
        case "person":
            return person_text(style, str(entry.get("content", "")))
        case "text":
            cutter = BlockCutter()
            blocks = [*cutter.feed(str(entry.get("content", ""))), *cutter.end()]
            return "".join("\n" + style.block(block) for block in blocks)
        case "tool":
            return _tool(style, entry)
        case "notice":
            return style.dim(f"· {safe_line(str(entry.get('text', '')))}")
        case "ending" if entry.get("outcome") != "completed":
            words = safe_line(str(entry.get("words", "")))
            mark = entry.get("mark")
            return (
                "\n"
                + style.line(f"■ {words}", "dim red")
                + (style.dim(f"  {safe_line(mark)}") if mark else "")
            )
        case _:
            return ""


def person_text(style: Style, text: str) -> str:
    """Render a person's message."""
    first, *rest = safe(text).split("\n")
    return "\n" + style.line("\n".join([f"> {first}", *(f"  {line}" for line in rest)]), "bold cyan")


def _tool(style: Style, entry: dict[str, Any]) -> str:
    args: dict[str, Any] = entry.get("args") or {}
    said = " ".join(str(value) for value in args.values())
    sign = "✓" if entry.get("ok") else "✗"
    words = safe_line(f"{entry.get('name', '')}  {said}", max(10, style.width() - 16))
    return style.line(f"{sign} {words}  {seconds(float(entry.get('ms') or 0))}", "dim")
