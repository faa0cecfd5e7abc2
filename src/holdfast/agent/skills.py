"""Skills of a run: their descriptions for the model, and the handling of proposals."""

import asyncio
from pathlib import Path

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.decisions.provenance import outside_sources
from holdfast.decisions.skill_choice import chosen, line_of
from holdfast.interfaces.tool import ToolResult
from holdfast.tools.arguments import parsed
from holdfast.tools.memory.memories import (
    MemoryEdit,
    MemoryScope,
    NotRemembered,
    chat_of,
    skills_scope,
)
from holdfast.tools.skills.library import FoundSkills
from holdfast.tools.skills.skill_file import skill_file
from holdfast.tools.skills.tools import ProposeSkillArgs
from holdfast.values import MemoryOrigin

SHOWN = "Skills: read the fitting one with the tool `skill` before you begin such a task."
MORE = "There are {count} more skills; find them with the tool `skill` and words in `query`."
WORKSPACE_SKILLS = "descriptions of the workspace's skills"
PROPOSED = "Not a skill yet: the user has to accept the proposal first."
SAY_PROPOSED = "[Don't say that you've learned it; say that you proposed it. Continue without waiting.]"


async def skills_now(deps: AgentDeps, learned: MemoryScope, workspace: Path) -> FoundSkills:
    """All skills that a run may use in the workspace, with what agents `learned`."""
    if deps.skills is None:
        return FoundSkills({})
    changes = (await deps.memories.shown(learned)).texts
    library = deps.skills

    def find() -> FoundSkills:
        return library.find(workspace, changes) if deps.trusts(workspace) else FoundSkills({})

    return await asyncio.to_thread(find)


def skills_text(found: FoundSkills, message: str) -> tuple[str, tuple[str, ...]]:
    """Return the skills as text for the model, and which of it comes from the workspace."""
    descriptions = {name: skill.text.description for name, skill in found.usable.items()}
    if not descriptions:
        return "", ()
    names = chosen(descriptions, message)
    lines = [SHOWN, *(line_of(name, descriptions[name]) for name in names)]
    if len(names) < len(descriptions):
        lines.append(MORE.format(count=len(descriptions) - len(names)))
    is_outside = any(found.usable[name].origin == "workspace" for name in names)
    return "\n".join(lines), (WORKSPACE_SKILLS,) if is_outside else ()


class SkillProposals:
    """The skills that one run proposes; whatever the mode, a person decides."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps, *, workspace: Path) -> None:
        self._view = view
        self._log = log
        self._deps = deps
        self._workspace = workspace

    async def propose(self, asked: e.ToolAsked) -> ToolResult:
        """Store the proposal, with the difference to the skill that there is."""
        given = parsed(ProposeSkillArgs, asked.args)
        clean = self._log.secrets.redact_text
        run_id = self._log.run_id
        run = self._view.transcript.runs[run_id]
        memories = self._deps.memories
        session = self._view.session
        scope = skills_scope(run.key, chat_of(session.source, session.chat, self._log.session_id))
        found = await skills_now(self._deps, scope, self._workspace)
        known = found.skills.get(given.name)
        changed = (await memories.load(scope)).texts.get(given.name, "")
        edit = MemoryEdit(
            change_id=f"{run_id}/{asked.tool_call_id}",
            document=given.name,
            new=clean(skill_file(given.name, given.description, given.body)),
            old=changed,
            reason=clean(given.reason),
            origin=MemoryOrigin(
                session_id=self._log.session_id,
                run_id=run_id,
                message_id=run.message_id,
                tool_call_id=asked.tool_call_id,
                seq=self._view.session.inbox.messages[run.message_id].seq,
            ),
        )
        because = outside_sources(self._view.session, self._view.transcript, run_id)
        shown = changed or (known.base if known is not None else "")
        try:
            await memories.propose(scope, edit, because=because, shown_before=shown)
        except NotRemembered as error:
            return ToolResult(str(error), ok=False)
        return ToolResult(PROPOSED, advice=SAY_PROPOSED, proposal=edit.change_id)
