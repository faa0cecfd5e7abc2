"""Skills in a run: their descriptions for the model, and the tool propose_skill.

The tools skill, which reads a skill, and propose_skill, which the agent loop carries out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.decisions.outside_sources import outside_sources
from holdfast.features.memory.memories import (
    Memories,
    MemoryEdit,
    MemoryScope,
    NotRemembered,
    memory_of,
    skills_scope,
)
from holdfast.features.memory.run import origin_of
from holdfast.features.skills.choice import chosen, line_of, ranked
from holdfast.features.skills.folders import BadSkill, skill_file
from holdfast.features.skills.library import FoundSkills, Skill, SkillLibrary, configured_library
from holdfast.folds.session import chat_of
from holdfast.interfaces.feature import (
    ContextPart,
    ContextRequest,
    FeatureContext,
    InLoopTool,
    RunContext,
    RunHooks,
)
from holdfast.interfaces.journal import Store
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import PROPOSE_SKILL, SKILL
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.offload import offload
from holdfast.tools.recall import chat_of_session
from holdfast.values import Action

FOUND_MAX = 15


class SkillArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which skill."""

    name: Annotated[str, Meta(max_length=64, description="The skill to read.")] = ""
    file: Annotated[
        str, Meta(max_length=300, description="One of its other files to read instead of its instructions.")
    ] = ""
    query: Annotated[str, Meta(max_length=200, description="Words to find skills that aren't listed.")] = ""


class ProposeSkillArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A skill, whole."""

    name: Annotated[
        str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64, description="Such as release-notes.")
    ]
    description: Annotated[
        str, Meta(min_length=1, max_length=1_024, description="What it does, and when to use it.")
    ]
    body: Annotated[str, Meta(min_length=1, max_length=18_000, description="The instructions, as Markdown.")]
    reason: Annotated[str, Meta(min_length=1, max_length=300, description="Why it will be useful later.")]


class ReadSkill(Tool):
    """Reads the instructions of a skill, or one of its files."""

    args_type = SkillArgs
    spec = spec_of(
        SKILL,
        "Read a skill: instructions for a kind of task, written by the user or found in the workspace. "
        "Read the matching skill before you start such a task. Skills can't grant permissions.",
        args=SkillArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, parallel_safe=True, place="workspace")

    def __init__(self, library: SkillLibrary, store: Store, memories: Memories) -> None:
        self._library = library
        self._store = store
        self._memories = memories

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(SkillArgs, args)
        what = " ".join(filter(None, (given.name, given.file, given.query)))
        return Action(tool=SKILL, summary=what, digest=arguments_hash(SKILL, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(SkillArgs, args)
        asking = await self._store.run(call.run_id)
        owner = asking.api_key if asking is not None else ""
        chat = await chat_of_session(self._store, call.session_id)
        changes = (await self._memories.load(skills_scope(owner, chat))).texts
        found = (await offload(lambda: self._library.find(call.workspace, changes))).usable
        skill = found.get(given.name)
        if skill is None:
            return _suggested(found, given.query or given.name)
        if not given.file:
            return ToolResult(await offload(lambda: self._shown(skill)))
        try:
            return ToolResult(await offload(lambda: self._library.file_of(skill, given.file)))
        except BadSkill as error:
            return ToolResult(f"This file of the skill can't be read: {error}.", ok=False)

    def _shown(self, skill: Skill) -> str:
        others = [name for name in self._library.files_of(skill) if name != "SKILL.md"]
        where = f"\n\nIts folder is {skill.folder}." if skill.folder is not None and others else ""
        files = f"{where} Its other files: {', '.join(others)}" if others else ""
        return f"# Skill {skill.name}\n\n{skill.text.body}{files}"


def _suggested(skills: Mapping[str, Skill], words: str) -> ToolResult:
    descriptions = {name: skill.text.description for name, skill in skills.items()}
    best = ranked(descriptions, words)[:FOUND_MAX]
    lines = [line_of(name, descriptions[name]) for name in best]
    if not lines:
        return ToolResult("There are no skills.", ok=False)
    return ToolResult("\n".join(["No skill has that name. Closest matches:", *lines]), ok=False)


class ProposeSkill(Tool):
    """Describes a proposal to the model; the agent loop stores it for a person to decide."""

    args_type = ProposeSkillArgs
    spec = spec_of(
        PROPOSE_SKILL,
        "Propose a new skill, or a better version of one, after you've learned how to do a kind of task. "
        "The user decides whether to accept it. Send the full text.",
        args=ProposeSkillArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ProposeSkillArgs, args)
        return Action(tool=PROPOSE_SKILL, summary=given.name, digest=arguments_hash(PROPOSE_SKILL, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult("This only works inside an agent run.", ok=False)


def tools(context: FeatureContext) -> Sequence[Tool]:
    """Return the tool that reads skills and, unless memory is off, the one that proposes them."""
    memories = Memories(context.store, context.clock)
    read = ReadSkill(configured_library(context.settings), context.store, memories)
    return (read,) if context.settings.agent.memory == "off" else (read, ProposeSkill())


SHOWN = "Skills: read the fitting one with the tool `skill` before you begin such a task."
MORE = "There are {count} more skills; find them with the tool `skill` and words in `query`."
WORKSPACE_SKILLS = "descriptions of the workspace's skills"
PROPOSED = "Not a skill yet: the user has to accept the proposal first."
SAY_PROPOSED = "[Don't say that you've learned it; say that you proposed it. Continue without waiting.]"


def library_of(deps: AgentDeps) -> SkillLibrary | None:
    """Return the library; None if runs have no skills."""
    return deps.features.get("skills")


async def skills_now(deps: AgentDeps, learned: MemoryScope, workspace: Path) -> FoundSkills:
    """Return all skills that a run may use in the workspace, with the changes in `learned`."""
    library = library_of(deps)
    if library is None:
        return FoundSkills({})
    changes = (await memory_of(deps).memories.shown(learned)).texts

    def find() -> FoundSkills:
        return library.find(workspace, changes) if deps.trusts(workspace) else FoundSkills({})

    return await asyncio.to_thread(find)


class _Descriptions(Struct, frozen=True):
    """Reads the skills, and describes those that fit the topic best."""

    library: SkillLibrary
    workspace: Path
    changes: Mapping[str, str]
    topic: str

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.changes.items())

    def read(self, *, trusted: bool) -> FoundSkills:
        return self.library.find(self.workspace, self.changes) if trusted else FoundSkills({})

    def parts(self, found: FoundSkills) -> Sequence[ContextPart]:
        return skills_parts(found, self.topic)


def skills_parts(found: FoundSkills, topic: str) -> Sequence[ContextPart]:
    """Return the descriptions for the model, and whether some of them come from the workspace."""
    if not found.skills:
        return ()
    descriptions = {name: skill.text.description for name, skill in found.usable.items()}
    if not descriptions:
        return ()
    names = chosen(descriptions, topic)
    lines = [SHOWN, *(line_of(name, descriptions[name]) for name in names)]
    if len(names) < len(descriptions):
        lines.append(MORE.format(count=len(descriptions) - len(names)))
    is_outside = any(found.usable[name].origin == "workspace" for name in names)
    return (ContextPart("skills", "\n".join(lines), (WORKSPACE_SKILLS,) if is_outside else ()),)


async def _context(request: ContextRequest) -> _Descriptions | None:
    library = library_of(request.deps)
    if library is None:
        return None
    session = request.view.session
    chat = chat_of(session, request.log.session_id)
    key = request.view.transcript.runs[request.log.run_id].key
    changes = (await memory_of(request.deps).memories.shown(skills_scope(key, chat))).texts
    # The session's first message: later runs get the same choice.
    topic = next(iter(session.inbox.messages.values())).text
    return _Descriptions(library, request.workspace, changes, topic)


async def _propose(context: RunContext, asked: e.ToolAsked) -> ToolResult:
    """Store the proposal with its diff. In every mode, a person decides."""
    view, log, deps = context.view, context.log, context.deps
    given = parsed(ProposeSkillArgs, asked.args)
    clean = log.secrets.redact_text
    session, run = view.session, view.transcript.runs[log.run_id]
    workspace = Path(view.run(log.run_id).settings.workspace or deps.workspace)
    scope = skills_scope(run.key, chat_of(session, log.session_id))
    known = (await skills_now(deps, scope, workspace)).skills.get(given.name)
    changed = (await memory_of(deps).memories.load(scope)).texts.get(given.name, "")
    edit = MemoryEdit(
        change_id=f"{log.run_id}/{asked.tool_call_id}",
        document=given.name,
        new=clean(skill_file(given.name, given.description, given.body)),
        old=changed,
        reason=clean(given.reason),
        origin=origin_of(context, asked),
    )
    because = outside_sources(session, view.transcript, log.run_id)
    shown = changed or (known.base if known is not None else "")
    try:
        await memory_of(deps).memories.propose(scope, edit, because=because, shown_before=shown)
    except NotRemembered as error:
        return ToolResult(str(error), ok=False)
    return ToolResult(PROPOSED, advice=SAY_PROPOSED, proposal=edit.change_id)


def _tools(context: RunContext) -> Mapping[str, InLoopTool]:
    return {PROPOSE_SKILL: lambda asked: _propose(context, asked)}


RUN = RunHooks(context=_context, tools=_tools)
