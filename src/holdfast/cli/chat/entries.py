"""Entries of a transcript as a terminal shows them when a session is opened again."""

from typing import Any

from holdfast.cli.terminal.blocks import BlockCutter
from holdfast.cli.terminal.phrases import seconds
from holdfast.cli.terminal.style import Ink
from holdfast.safe_text import safe, safe_line


def entry_text(ink: Ink, entry: dict[str, Any]) -> str:
    """One entry, as GET messages gives it; what is over and done needs few words."""
    match entry.get("kind"):
        case "person":
            return person_text(ink, str(entry.get("content", "")))
        case "text":
            cutter = BlockCutter()
            blocks = [*cutter.feed(str(entry.get("content", ""))), *cutter.end()]
            return "".join("\n" + ink.block(block) for block in blocks)
        case "tool":
            return _tool(ink, entry)
        case "notice":
            return ink.dim(f"· {safe_line(str(entry.get('text', '')))}")
        case "ending" if entry.get("outcome") != "completed":
            words = safe_line(str(entry.get("words", "")))
            mark = entry.get("mark")
            return (
                "\n" + ink.line(f"■ {words}", "dim red") + (ink.dim(f"  {safe_line(mark)}") if mark else "")
            )
        case _:
            return ""


def person_text(ink: Ink, text: str) -> str:
    """What a person said."""
    first, *rest = safe(text).split("\n")
    return "\n" + ink.line("\n".join([f"> {first}", *(f"  {line}" for line in rest)]), "bold cyan")


def _tool(ink: Ink, entry: dict[str, Any]) -> str:
    args: dict[str, Any] = entry.get("args") or {}
    said = " ".join(str(value) for value in args.values())
    sign = "✓" if entry.get("ok") else "✗"
    words = safe_line(f"{entry.get('name', '')}  {said}", max(10, ink.width() - 16))
    return ink.line(f"{sign} {words}  {seconds(float(entry.get('ms') or 0))}", "dim")
