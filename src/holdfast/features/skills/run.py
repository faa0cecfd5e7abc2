"""Skills in a run: their descriptions for the model, and the tool propose_skill."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.decisions.provenance import outside_sources
from holdfast.features.memory.memories import (
    MemoryEdit,
    MemoryScope,
    NotRemembered,
    memory_of,
    skills_scope,
)
from holdfast.features.memory.run import origin_of
from holdfast.features.skills.choice import chosen, line_of
from holdfast.features.skills.library import FoundSkills, SkillLibrary
from holdfast.features.skills.skill_file import skill_file
from holdfast.features.skills.tools import ProposeSkillArgs
from holdfast.folds.session import chat_of
from holdfast.interfaces.feature import ContextPart, ContextRequest, InLoopTool, RunContext, RunHooks
from holdfast.interfaces.tool import ToolResult
from holdfast.policy.tool_names import PROPOSE_SKILL
from holdfast.tools.arguments import parsed

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
