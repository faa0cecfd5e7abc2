"""Reads an old tool result of the session again, after it was removed from what the model sees."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast import events as e
from holdfast.interfaces.journal import Store
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import READ_RESULT
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.values import Action

CHARS_MAX = 20_000
READ_AT_ONCE = 256
NOTHING = "No tool result has this seq."


class ReadResultArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which result to read."""

    seq: Annotated[int, Meta(ge=1, description="As the note says.")]
    first_char: Annotated[int, Meta(ge=0)] = 0


class ReadResult(Tool):
    """Reads a tool result from the session's log."""

    args_type = ReadResultArgs
    spec = spec_of(
        READ_RESULT,
        "Read an old tool result again, as it was. A file or page may have changed since.",
        args=ReadResultArgs,
    )
    traits = ToolTraits(read_only=True, parallel_safe=True, place="anywhere")

    def __init__(self, store: Store) -> None:
        self._store = store

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ReadResultArgs, args)
        summary = f"read the tool result at {given.seq}"
        return Action(tool=READ_RESULT, summary=summary, digest=arguments_hash(READ_RESULT, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ReadResultArgs, args)
        ended = await self._ended(call.session_id, given.seq)
        if ended is None:
            return ToolResult(NOTHING, ok=False)
        shown = ended.result[given.first_char : given.first_char + CHARS_MAX]
        until = given.first_char + len(shown)
        left = len(ended.result) - until
        more = f"\n[{left:,} more characters: call it again with first_char {until}]" if left > 0 else ""
        return ToolResult(shown + more, parts=ended.parts)

    async def _ended(self, session_id: str, seq: int) -> e.ToolEnded | None:
        """Return the result of the call that the log has at this seq."""
        found = await self._store.read(session_id, after=seq - 1, limit=1)
        asked = found[0].event if found and found[0].seq == seq else None
        if not isinstance(asked, e.ToolAsked):
            return None
        call = (asked.run_id, asked.tool_call_id)
        while found:
            found = await self._store.read(session_id, after=found[-1].seq, limit=READ_AT_ONCE)
            for record in found:
                event = record.event
                if isinstance(event, e.ToolEnded) and (event.run_id, event.tool_call_id) == call:
                    return event
        return None
