"""The tools remember, which the agent loop carries out, and read_notes."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.features.memory.memories import Memories, scopes_shown
from holdfast.features.memory.state import DOCUMENT_CHARS_MAX, NOTE_CHARS_MAX
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.journal import Store
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import READ_NOTES, REMEMBER
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.recall import chat_of_session
from holdfast.values import Action

NOTES_SHOWN_MAX = 5
_WORD = re.compile(r"\w{3,}")


class RememberArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact to remember."""

    about: Annotated[
        Literal["user", "workspace"],
        Meta(description="Whether the fact is about the user or this workspace."),
    ]
    text: Annotated[
        str,
        Meta(
            max_length=NOTE_CHARS_MAX,
            description=("One short fact. Empty text removes the text in `replaces`."),
        ),
    ]
    reason: Annotated[str, Meta(min_length=1, max_length=300, description="Why it will be useful later.")]
    replaces: Annotated[
        str, Meta(max_length=NOTE_CHARS_MAX, description="Text in the memory to replace.")
    ] = ""
    note: Annotated[
        str,
        Meta(
            max_length=80,
            pattern="^[\\w .-]*$",
            description="The name of a note, for longer text that you can look up with read_notes.",
        ),
    ] = ""


class ReadNotesArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which notes."""

    query: Annotated[str, Meta(min_length=1, max_length=200, description="Words to find in notes.")]


class Remember(Tool):
    """Describes a write to the model; the agent loop turns a call into a proposal or a change."""

    args_type = RememberArgs
    spec = spec_of(
        REMEMBER,
        "Remember something about the user or this workspace for later conversations: stable facts and "
        f"preferences, not this task. The main memory holds {DOCUMENT_CHARS_MAX:,} characters. The user may "
        "have to accept it first.",
        args=RememberArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(RememberArgs, args)
        return Action(tool=REMEMBER, summary=given.text[:300], digest=arguments_hash(REMEMBER, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult("This only works inside an agent run.", ok=False)


class ReadNotes(Tool):
    """Finds notes of the memories of the one who asks."""

    args_type = ReadNotesArgs
    spec = spec_of(
        READ_NOTES,
        "Find notes that you or the user saved in earlier conversations.",
        args=ReadNotesArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, parallel_safe=True, place="anywhere")

    def __init__(self, store: Store, memories: Memories) -> None:
        self._store = store
        self._memories = memories

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ReadNotesArgs, args)
        return Action(tool=READ_NOTES, summary=given.query, digest=arguments_hash(READ_NOTES, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        wanted = _words(parsed(ReadNotesArgs, args).query)
        asking = await self._store.run(call.run_id)
        owner = asking.api_key if asking is not None else ""
        chat = await chat_of_session(self._store, call.session_id)
        notes: list[tuple[str, str]] = []
        for scope in scopes_shown(owner, call.workspace, chat):
            notes += (await self._memories.load(scope)).notes.items()
        found = sorted(notes, key=lambda note: -len(wanted & _words(" ".join(note))))
        best = [note for note in found if wanted & _words(" ".join(note))][:NOTES_SHOWN_MAX]
        if not best:
            names = ", ".join(sorted({name for name, _ in notes})[:50])
            return ToolResult(f"No note contains these words. Available notes: {names or 'none'}.", ok=False)
        return ToolResult("\n\n".join(f"## {name}\n{text}" for name, text in best))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def tools(context: FeatureContext) -> Sequence[Tool]:
    """Return the tools of memory, unless it's off."""
    if context.settings.agent.memory == "off":
        return ()
    return Remember(), ReadNotes(context.store, Memories(context.store, context.clock))
