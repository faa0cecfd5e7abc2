"""Keeps the system text the same from call to call, so that prompt caches work.

Reads a run's context besides the conversation, from logs and files, when the run begins.
"""

import hashlib
import sys
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.instructions import MOVED, files_named, guides_of, named_text, names_in, own_guide
from holdfast.agent.prompt import Machine, place_facts, session_facts
from holdfast.agent.run_hooks import context_readers, feature_instructions
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.agent.tool_set import BACK, OUTAGE
from holdfast.folds.context import history_instructions
from holdfast.folds.run import Run
from holdfast.folds.transcript import SystemContext
from holdfast.interfaces.feature import ContextReader, ContextRequest
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.workspace_paths import unmoved
from holdfast.messages import ToolSpec

ENVIRONMENT = "Environment"
SUB_AGENT = (
    "You are a sub-agent: another agent gave you this task and gets your last answer as its result. Work on "
    "the task alone, and put everything that it needs to know into your last answer."
)
_FACTS = (
    "workspace",
    "branch",
    "system",
    "sandbox",
    "date",
    "mode",
    "face",
    "further tools",
    "unavailable tools",
)


class SystemParts(Struct, frozen=True):
    """The texts that precede the conversation, by name and in order, and which of them are from outside."""

    parts: Mapping[str, str]
    sources: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The system text."""
        return system_text(self.parts)


def system_text(parts: Mapping[str, str]) -> str:
    """Join the parts; the facts of the environment are one list."""
    facts = [parts[name] for name in _FACTS if name in parts]
    environment = "\n".join([ENVIRONMENT, *facts]) if facts else ""
    others = {name: text for name, text in parts.items() if name not in _FACTS}
    first = [others.pop(name, "") for name in ("identity", "base")]
    return "\n\n".join(text for text in (*first, environment, *others.values()) if text.strip())


async def opening(view: SharedFold, log: RunLog, deps: AgentDeps) -> SystemParts:
    """Read everything that precedes the conversation; raises WorkspaceMoved."""
    settings = view.run(log.run_id).settings
    place = Path(settings.workspace or deps.workspace)
    machine = deps.machine if settings.prompt != "none" else None
    run = view.transcript.runs[log.run_id]
    names: tuple[str, ...] = ()
    readers: tuple[ContextReader, ...] = ()
    if run.purpose == "answer":
        names = names_in(view.session.inbox.messages[run.message_id].text)
        readers = await context_readers(ContextRequest(view, log, deps, place))
    keys = tuple([(type(reader), reader.key) for reader in readers])
    question = _Question(place, names, keys, has_environment=machine is not None)
    found = await deps.reads.shared(question, partial(_files, deps, question, machine, readers))
    context = [part for reader, read in zip(readers, found.read, strict=True) for part in reader.parts(read)]
    facts = found.facts
    if machine is not None:
        facts = facts | session_facts(view.session, settings, machine, now_ms=log.now_ms())
    parts = {
        "identity": deps.identity,
        "base": deps.prompt if settings.prompt != "none" else "",
        **facts,
        "own instructions": deps.instructions,
        **found.guides,
        "caller": settings.instructions,
        "sub-agent": SUB_AGENT if view.session.parent is not None else "",
        "history": history_instructions(view.transcript, log.run_id),
        "features": feature_instructions(settings),
        **{part.name: part.text for part in context},
        "named files": named_text(found.named),
        "moved": MOVED if view.session.has_moved else "",
    }
    guides = [f"the file {name}" for name in found.guides if name in found.outside]
    outside = [source for part in context for source in part.sources]
    shown = {name: text for name, text in parts.items() if text.strip()}
    return SystemParts(shown, (*guides, *outside))


class _Question(NamedTuple):
    """The files that matter to a run; runs with the same question at the same time share the answer."""

    place: Path
    names: tuple[str, ...]  # that the message names as @path
    readers: tuple[Hashable, ...]  # their types and keys
    has_environment: bool


class _Files(NamedTuple):
    """The instructions from files."""

    facts: dict[str, str]
    guides: Mapping[str, str]
    outside: frozenset[str]  # guides that are not the user's own
    read: Sequence[Any]  # by the features' readers
    named: tuple[str, ...]


def _files(
    deps: AgentDeps, question: _Question, machine: Machine | None, readers: Sequence[ContextReader]
) -> _Files:
    """Everything in one thread: changing threads takes longer than reading. Raises WorkspaceMoved. Blocks."""
    place = question.place
    workspace = deps.workspaces(Path(unmoved(place)))
    # A background process may have written its own instructions in the meantime.
    is_trusted = deps.trusts(place)
    guides = guides_of(workspace) if is_trusted else {}
    own = own_guide(machine.own_guide) if machine is not None else {}
    read = [reader.read(trusted=is_trusted) for reader in readers]
    facts = place_facts(place, machine) if machine is not None else {}
    named = files_named(workspace, question.names)
    return _Files(facts, own | guides, frozenset(guides), read, named)


INLINE_BYTES_MAX = 32 * 1024
CALLERS = ("caller", "history")  # the parts that come with each run's request
PER_MESSAGE = "named files"
_DIGEST = attrgetter("digest")
NOTE = "[Note from Holdfast about what has changed:\n{changes}]"
NAMED = "[Note from Holdfast: {text}]"
GONE = "No longer given: {name}."


class CallContext:
    """The system text for one run's model calls.

    The session's first call records the text. Later calls send the same bytes, and what has changed since
    becomes a note among the messages.
    """

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps, opened: SystemParts) -> None:
        self.view = view
        self.log = log
        self.deps = deps
        clean = log.secrets.redact_text  # the event is stored without secrets, and the model gets the event
        self._parts = {name: clean(text) for name, text in opened.parts.items()}
        self._message_note = self._parts.pop(PER_MESSAGE, "")
        self._digests = {name: _digest(text) for name, text in self._parts.items()}
        self._changed: Mapping[str, str] = {}  # parts that the model was shown differently, by name
        self._tools: tuple[Sequence[ToolSpec], str] = ((), "")  # the last ones, and their digest

    async def current(self, run: Run, tools: Sequence[ToolSpec], *, facts: Mapping[str, str]) -> str:
        """Return the system text for the next call, after recording it or what has changed."""
        self._refresh(run, facts)
        known = self.view.transcript.context
        reason = self._broken(known, run, self._digest_of(tools))
        instructions = known.instructions if known is not None else ""
        if not reason and known is not None and known.blob:
            instructions, reason = await self._loaded(known.blob)
        if reason:
            instructions = sys.intern(system_text(self._parts))  # most sessions have the same
            await self._set(run, reason, instructions, tools=tools)
        self._changed = {} if reason else self._changes()
        return instructions

    def _refresh(self, run: Run, facts: Mapping[str, str]) -> None:
        """Read the facts that can change while the run works; `facts` are those about its tools."""
        machine = self.deps.machine
        if run.settings.prompt == "none":
            return
        if machine is not None:
            facts = {
                **facts,
                **session_facts(self.view.session, run.settings, machine, now_ms=self.log.now_ms()),
            }
        for name, text in facts.items():
            if self._parts.get(name, "") == text:
                continue
            if text:
                self._parts[name], self._digests[name] = text, _digest(text)
            else:
                del self._parts[name], self._digests[name]

    def _broken(self, known: SystemContext | None, run: Run, tools_digest: str) -> str:
        """Return why the recorded text can't be sent again; empty if it can."""
        if known is None:
            return "first"
        if known.broken:
            return known.broken
        if known.model != run.settings.model:
            return "model"
        is_without = ("base" in known.parts) != ("base" in self._digests)
        if is_without or any(known.parts.get(name) != self._digests.get(name) for name in CALLERS):
            return "instructions"
        return "tools" if known.tools_digest != tools_digest else ""

    def _digest_of(self, tools: Sequence[ToolSpec]) -> str:
        if self._tools[0] != tools:
            self._tools = tools, _digest("\n".join(map(_DIGEST, tools)))
        return self._tools[1]

    async def _loaded(self, blob: str) -> tuple[str, str]:
        """Return the text of a stored context, or why there is none."""
        try:
            data = await self.deps.store.blob(blob)
        except JournalError:
            data = None
        return ("", "lost") if data is None else (data.decode(), "")

    async def _set(self, run: Run, reason: str, instructions: str, *, tools: Sequence[ToolSpec]) -> None:
        data = instructions.encode()
        blob = await self.deps.store.put_blob(data) if len(data) > INLINE_BYTES_MAX else ""
        self.log.emit(
            e.ContextSet(
                at_ms=self.log.now_ms(),
                run_id=run.run_id,
                reason=reason,
                instructions="" if blob else instructions,
                blob=blob,
                parts=dict(self._digests),
                tools=tuple([tool.name for tool in tools]),
                tools_digest=self._digest_of(tools),
                model=run.settings.model,
            )
        )

    def _changes(self) -> dict[str, str]:
        """Return the parts that differ from what the model was last shown, by name; empty if removed."""
        shown = self.view.transcript.shown_parts(self.log.run_id)
        names = dict.fromkeys((*self._digests, *shown))
        changed = [name for name in names if shown.get(name, "") != self._digests.get(name, "")]
        return {name: self._parts.get(name, "") for name in changed if name != "base"}

    async def note(self, run: Run, further: str) -> bool:
        """Record what has changed, and a further request to the model; False if there is neither."""
        earlier = [event for _, event in self.view.transcript.kept if isinstance(event, e.ContextNoted)]
        noted = any(event.run_id == run.run_id and event.message_id for event in earlier)
        is_first = not run.call_id and not noted
        gone = {OUTAGE: BACK}
        texts = [text or gone.get(name) or GONE.format(name=name) for name, text in self._changed.items()]
        notes = [NOTE.format(changes="\n".join(texts))] if texts else []
        if is_first and self._message_note:
            notes.append(NAMED.format(text=self._message_note))
        if further:
            notes.append(further)
        if not notes:
            return False
        message_id = self.view.transcript.runs[run.run_id].message_id
        self.log.emit(
            e.ContextNoted(
                at_ms=self.log.now_ms(),
                run_id=run.run_id,
                text="\n\n".join(notes),
                parts={name: self._digests.get(name, "") for name in self._changed},
                message_id=message_id if is_first else "",
            )
        )
        await self.view.flush(self.log)
        return True


@lru_cache(maxsize=64)
def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
