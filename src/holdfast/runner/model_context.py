"""The context of a session's next model call, and people's changes to it: pins and reverts."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from holdfast import events as e
from holdfast.agent.compaction import NEAR
from holdfast.agent.deps import AgentDeps
from holdfast.agent.shared_fold import SharedFold
from holdfast.agent.tool_set import usable
from holdfast.events import Input
from holdfast.folds.context import context_for, newest_run, pinned_message, shortened_now, without
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.ids import token_hex
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    IdempotencyKey,
    IfRunsOpenBelow,
    IfSessionKnown,
)
from holdfast.messages import ModelRequest, ToolSpec
from holdfast.runner.supervisor import Supervisor

PINNED_MAX = 0.25  # of the window
KEPT_MS = 3_600_000  # for how long two changes that were decided on the same log exclude each other
TRIES_MAX = 3  # while other people change the same session


class ContextSize(Struct, frozen=True):
    """The estimated size of the next call in tokens, by part, and the window that it has to fit."""

    window: int
    system: int
    tools: int
    messages: int

    @property
    def tokens(self) -> int:
        """All parts together."""
        return self.system + self.tools + self.messages

    @property
    def tokens_max(self) -> int:
        """Beyond this, the next run begins with a compaction."""
        return int(NEAR * self.window)


class SentBefore(Struct, frozen=True):
    """The recorded system text and tools, which the next call sends again; `recorded` is their event."""

    recorded: e.ContextSet | None = None
    instructions: str = ""


class Changed(Struct, frozen=True):
    """The change is on disk, or someone made it before."""


class NotChanged(Struct, frozen=True):
    """Why a change was refused. Numbers are tokens; `target` is a target whose window is large enough."""

    why: Literal[
        "session_deleted", "not_found", "busy", "reverted", "too_large", "pins_too_large", "conflict"
    ]
    tokens: int = 0
    tokens_max: int = 0
    window: int = 0
    target: str = ""


class ModelContexts(Struct, frozen=True):
    """The contexts of all sessions."""

    supervisor: Supervisor

    @property
    def _deps(self) -> AgentDeps:
        return self.supervisor.deps

    async def sent_before(self, session_id: str, view: SharedFold) -> SentBefore:
        """Read the recorded system text and tools of the session."""
        known, store = view.transcript.context, self._deps.store
        if known is None:
            return SentBefore()
        records = await store.read(session_id, after=known.seq - 1, limit=1)
        recorded = records[0].event if records else None
        text = known.instructions
        if known.blob:
            text = (await store.blob(known.blob) or b"").decode()
        return SentBefore(recorded if isinstance(recorded, e.ContextSet) else None, text)

    def size(
        self, session_id: str, view: SharedFold, sent: SentBefore, *, model: str = "", undone_seq: int = 0
    ) -> ContextSize:
        """Return the size of the next call, for this target if it's named; `undone_seq` as if reverted."""
        transcript = without(view.transcript, undone_seq) if undone_seq else view.transcript
        run_id = newest_run(transcript)
        named = sent.recorded.tools if sent.recorded is not None else ()
        return ContextSize(
            window=self._window(view, model),
            system=ModelRequest(messages=(), instructions=sent.instructions).input_tokens,
            tools=ModelRequest(messages=(), tools=self._specs(session_id, view, named)).input_tokens,
            messages=ModelRequest(messages=context_for(transcript, run_id) if run_id else ()).input_tokens,
        )

    def _window(self, view: SharedFold, model: str) -> int:
        """Return the window of the named target, or else of the one that the newest run names."""
        newest = next(reversed(view.session.runs.values()), None)
        return self._deps.window_of(model or (newest.settings.model if newest is not None else ""))

    def _specs(self, session_id: str, view: SharedFold, names: Sequence[str]) -> tuple[ToolSpec, ...]:
        newest = next(reversed(view.session.runs.values()), None)
        if newest is None:
            return ()
        own = usable(view, newest, self._deps, session_id=session_id)
        brought = {tool.name: tool for tool in newest.client_tools}
        specs: list[ToolSpec] = []
        for name in names:
            if (client := brought.get(name)) is not None:
                specs.append(ToolSpec(name, client.description, client.schema))
            elif (tool := own.get(name)) is not None:
                specs.append(tool.spec)
        return tuple(specs)

    def pins_max(self, view: SharedFold, *, model: str = "") -> int:
        """Return how many tokens all pins together can have."""
        return int(PINNED_MAX * self._window(view, model))

    async def pin(self, session_id: str, id_: str, *, by: str = "") -> Changed | NotChanged:
        """Pin a message, or a run's answer: later summaries are followed by it, word for word."""
        for _ in range(TRIES_MAX):
            view = await self.supervisor.view(session_id)
            transcript = view.transcript
            found = pinned_message(transcript, id_)
            if found is None:
                return NotChanged("not_found")
            if id_ in transcript.pins:
                return Changed()
            tokens, tokens_max = found.tokens + pinned_tokens(transcript), self.pins_max(view)
            if tokens > tokens_max:
                return NotChanged("pins_too_large", tokens, tokens_max, self._window(view, ""))
            pinned = e.MessagePinned(
                at_ms=self._deps.clock.now_ms(),
                message_id=id_ if found.is_person else "",
                answer_of="" if found.is_person else id_,
                by=by,
            )
            name = f"pins/{session_id}/{transcript.pinned_seq}"
            if (result := await self._append(session_id, pinned, name)) is not None:
                return result
        return NotChanged("conflict")

    async def unpin(self, session_id: str, id_: str, *, by: str = "") -> Changed | NotChanged:
        """Unpin a message or an answer: the next summary can replace it."""
        transcript = (await self.supervisor.view(session_id)).transcript
        if id_ not in transcript.pins:
            return Changed() if pinned_message(transcript, id_) is not None else NotChanged("not_found")
        is_answer = id_ in transcript.runs
        unpinned = e.MessageUnpinned(
            at_ms=self._deps.clock.now_ms(),
            message_id="" if is_answer else id_,
            answer_of=id_ if is_answer else "",
            by=by,
        )
        result = await self._append(session_id, unpinned)
        assert result is not None, "without a key, nothing else can be in the way"
        return result

    async def revert(
        self, session_id: str, seq: int, *, model: str = "", by: str = ""
    ) -> Changed | NotChanged:
        """Revert a compaction or trimming, if no run is open and the next call, to `model`, has room."""
        for _ in range(TRIES_MAX):
            view = await self.supervisor.view(session_id)
            sent = await self.sent_before(session_id, view)
            # The fold is shared, so nothing may wait between these checks and the append.
            shortened = shortened_now(view.transcript).get(seq)
            if shortened is None:
                return NotChanged("not_found")
            if shortened.reverted is not None:
                return NotChanged("reverted")
            if view.session.open_runs:
                return NotChanged("busy")
            size = self.size(session_id, view, sent, model=model, undone_seq=seq)
            if size.tokens > size.tokens_max:
                return self._too_large(size)
            reverted = e.ContextReverted(at_ms=self._deps.clock.now_ms(), reverted_seq=seq, by=by)
            name = f"context/{session_id}/{view.transcript.reshaped_seq}"
            result = await self._append(session_id, reverted, name, IfRunsOpenBelow(1))
            if result is not None:
                return result
        return NotChanged("conflict")

    def _too_large(self, size: ContextSize) -> NotChanged:
        windows = self._deps.windows
        fitting = [name for name, window in windows.items() if NEAR * window >= size.tokens]
        target = min(fitting, key=lambda name: windows[name], default="")
        return NotChanged("too_large", size.tokens, size.tokens_max, size.window, target)

    async def _append(
        self, session_id: str, change: Input, name: str = "", *conditions: Condition
    ) -> Changed | NotChanged | None:
        """Append the change; None if another change took the name, so that this one must be decided again."""
        at_ms = change.at_ms
        once = IdempotencyKey(f"\n{name}", token_hex(8), b"", at_ms + KEPT_MS) if name else None
        when = [IfSessionKnown(), *conditions]
        match await self._deps.store.append(session_id, [change], when=when, idempotency_key=once):
            case Appended():
                return Changed()
            case Declined(condition=IfRunsOpenBelow()):
                return NotChanged("busy")
            case Declined():
                return NotChanged("session_deleted")
            case _:
                return None


def pinned_tokens(transcript: Transcript) -> int:
    """Return the estimated size of all pins; one that was rewound has none."""
    found = (pinned_message(transcript, id_) for id_ in transcript.pins)
    return sum(one.tokens for one in found if one is not None)
