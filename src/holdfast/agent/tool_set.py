"""The tools of a run: those that it can use, and those of them that are declared to its model."""

from msgspec.structs import replace

from holdfast.agent.compaction import is_trimmed, with_reader
from holdfast.agent.deps import AgentDeps
from holdfast.agent.run_hooks import declared_tools
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.run import Run
from holdfast.interfaces.feature import DeclaringRun
from holdfast.policy.tool_names import APPLY_PATCH, ASK_USER, CALL_TOOL, EDIT_FILE, FIND_TOOLS, READ_RESULT
from holdfast.tools.on_demand import DeclaredTools, declared, listed, with_finder
from holdfast.tools.registry import Registry

OUTAGE = "unavailable tools"
BACK = "All tools work again."


def usable(view: SharedFold, run: Run, deps: AgentDeps, *, session_id: str) -> Registry:
    """Return the tools that the run can use now, declared or not, without those that the client replaced."""
    tools = with_reader(deps.tools_now(run.settings, session_id=session_id), view, deps)
    return with_finder(tools.without([tool.name for tool in run.client_tools]))


def declared_to(run: Run, view: SharedFold, tools: Registry, deps: AgentDeps) -> DeclaredTools:
    """Return the tools that are declared to the model.

    A rarely used tool is declared if the run's settings name it. It stays declared in a session that began
    with it: a smaller set would be a change for the provider's cache.
    """
    changes = declared_tools(DeclaringRun(run, view.session, tools, deps))
    if run.settings.no_questions or run.settings.unattended:
        changes[ASK_USER] = None
    # The same changes, in the form that the model is trained on.
    changes[EDIT_FILE if run.settings.model in deps.patching else APPLY_PATCH] = None
    known = view.transcript.context
    kept = known.tools if known is not None and not known.broken else ()
    if is_trimmed(view):
        kept = (*kept, READ_RESULT)  # the notes in place of what was removed name it
    others = [tool.name for tool in run.client_tools]
    left_out = [name for name, spec in changes.items() if spec is None]
    found = declared(tools, named={*run.settings.tools, *kept}, left_out=left_out, others=others)
    if len(left_out) == len(changes):
        return found
    return replace(found, specs=tuple([changes.get(spec.name) or spec for spec in found.specs]))


def tool_facts(shown: DeclaredTools, tools: Registry) -> dict[str, str]:
    """Return what the model should know about the tools besides their declarations, by name."""
    names = shown.hidden_names
    text = f"- More tools: {names}. {FIND_TOOLS} returns their arguments, {CALL_TOOL} calls them."
    facts = {"further tools": text if names else "", OUTAGE: ""}
    if gone := [tool for tool in tools.all() if tool.traits.unavailable]:
        why = dict.fromkeys(tool.traits.unavailable for tool in gone)
        failing = listed([tool.spec for tool in gone])
        facts[OUTAGE] = f"- Tools that fail now: {failing}, because {'; '.join(why)}. Use others meanwhile."
    return facts
