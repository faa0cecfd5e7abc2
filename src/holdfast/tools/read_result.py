"""Reads a tool result of the session again: one that left the context, or the rest of a shortened one."""

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
NO_OUTPUT = "No tool result of this session names this output."


class ReadResultArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which result to read."""

    seq: Annotated[int, Meta(ge=0, description="As the note says.")] = 0
    blob: Annotated[str, Meta(max_length=200, description="The full output of a result.")] = ""
    first_char: Annotated[int, Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if bool(self.seq) is bool(self.blob):
            raise ValueError("give either `seq` or `blob`")


class ReadResult(Tool):
    """Reads a tool result from the session's log."""

    args_type = ReadResultArgs
    spec = spec_of(
        READ_RESULT,
        "Read an old tool result again, or the rest of a long one. Files and pages may have changed since.",
        args=ReadResultArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, parallel_safe=True, place="anywhere")

    def __init__(self, store: Store) -> None:
        self._store = store

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ReadResultArgs, args)
        summary = f"read the tool result at {given.seq}" if given.seq else f"read the output {given.blob}"
        return Action(tool=READ_RESULT, summary=summary, digest=arguments_hash(READ_RESULT, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ReadResultArgs, args)
        if given.blob:
            text = await self._output(call.session_id, given.blob)
            return ToolResult(NO_OUTPUT, ok=False) if text is None else ToolResult(_from(text, given))
        ended = await self._ended(call.session_id, given.seq)
        if ended is None:
            return ToolResult(NOTHING, ok=False)
        return ToolResult(_from(ended.result, given), parts=ended.parts)

    async def _output(self, session_id: str, blob: str) -> str | None:
        """Return the full output that a result of this session names: blobs of others are theirs."""
        after = 0
        while found := await self._store.read(session_id, after=after, limit=READ_AT_ONCE):
            after = found[-1].seq
            if any(isinstance(one.event, e.ToolEnded) and one.event.blob == blob for one in found):
                data = await self._store.blob(blob)
                return None if data is None else data.decode("utf-8", "replace")
        return None

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


def _from(text: str, given: ReadResultArgs) -> str:
    """The part of the text that begins at the character, and how to read on."""
    shown = text[given.first_char : given.first_char + CHARS_MAX]
    until = given.first_char + len(shown)
    left = len(text) - until
    return shown + (
        f"\n[{left:,} more characters: call it again with first_char {until}]" if left > 0 else ""
    )
