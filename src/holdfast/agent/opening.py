"""The instructions that open a run: guides, skills, memories and modes, read from logs and files."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.agent.delegation import SUB_AGENT
from holdfast.agent.deps import AgentDeps
from holdfast.agent.instructions import (
    MOVED,
    Instructions,
    files_named,
    guides_of,
    instructions_with,
    named_text,
    names_in,
)
from holdfast.agent.remembering import memory_text
from holdfast.agent.run_hooks import feature_instructions
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.agent.skills import skills_text
from holdfast.folds.context import history_instructions
from holdfast.interfaces.workspace_paths import unmoved
from holdfast.tools.memory.memories import chat_of, skills_scope
from holdfast.tools.skills.library import FoundSkills


async def opening(view: SharedFold, log: RunLog, deps: AgentDeps) -> Instructions:
    """Build all instructions that precede the conversation; raises WorkspaceMoved."""
    settings = view.run(log.run_id).settings
    place = Path(settings.workspace or deps.workspace)
    learned = await _learned(view, log, deps, place)
    question = _Question(place, None if learned.skills is None else (*learned.skills.items(),), learned.names)
    found = await deps.reads.shared(question, partial(_files, deps, question))
    skills, sources = skills_text(found.skills, learned.message)
    parts = (skills, learned.memory, named_text(found.named))
    said = (
        deps.instructions,
        settings.instructions,
        SUB_AGENT if view.session.parent is not None else "",
        history_instructions(view.transcript, log.run_id),
        feature_instructions(settings),
        "\n\n".join(text for text in parts if text),
        MOVED if view.session.has_moved else "",
    )
    told = instructions_with(found.guides, *said)
    return Instructions(told.text, (*told.sources, *sources))


class _Learned(Struct, frozen=True):
    """A run's context from other logs; empty if its message isn't for the model."""

    message: str = ""
    names: tuple[str, ...] = ()  # the files that the message names as @path
    memory: str = ""
    skills: Mapping[str, str] | None = None  # what agents changed in skills; None: the run has none


async def _learned(view: SharedFold, log: RunLog, deps: AgentDeps, workspace: Path) -> _Learned:
    run = view.transcript.runs[log.run_id]
    if run.purpose != "answer":
        return _Learned()
    chat = chat_of(view.session.source, view.session.chat, log.session_id)
    memory, skills = "", None
    if deps.memory != "off":
        memory = await memory_text(deps.memories, run.key, workspace, chat)
    if deps.skills is not None:
        skills = (await deps.memories.shown(skills_scope(run.key, chat))).texts
    message = view.session.inbox.messages[run.message_id].text
    return _Learned(message, names_in(message), memory, skills)


class _Question(NamedTuple):
    """The files that matter to a run; runs with the same question at the same time share the answer."""

    place: Path
    skills: tuple[tuple[str, str], ...] | None  # what agents changed in them; None: the run has none
    names: tuple[str, ...]  # that the message names as @path


class _Files(NamedTuple):
    """The instructions from the workspace's files and skills."""

    guides: Mapping[str, str]
    skills: FoundSkills
    named: tuple[str, ...]


def _files(deps: AgentDeps, question: _Question) -> _Files:
    """Everything in one thread: changing threads takes longer than reading. Raises WorkspaceMoved. Blocks."""
    place, changes, names = question
    workspace = deps.workspaces(Path(unmoved(place)))
    # A background process may have written its own instructions and skills in the meantime.
    is_trusted = deps.trusts(place)
    guides = guides_of(workspace) if is_trusted else {}
    skills = FoundSkills({})
    if is_trusted and deps.skills is not None and changes is not None:
        skills = deps.skills.find(place, dict(changes))
    return _Files(guides, skills, files_named(workspace, names))
