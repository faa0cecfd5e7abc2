"""Reads a run's context besides the conversation, from logs and files, when the run begins."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.agent.deps import AgentDeps
from holdfast.agent.instructions import MOVED, files_named, guides_of, named_text, names_in, own_guide
from holdfast.agent.prompt import Machine, place_facts, session_facts
from holdfast.agent.run_hooks import context_readers, feature_instructions
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.context import history_instructions
from holdfast.interfaces.feature import ContextReader, ContextRequest
from holdfast.interfaces.workspace_paths import unmoved

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
