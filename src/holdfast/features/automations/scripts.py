"""Runs a trigger's script before its prompt: in the sandbox, once, and with a deadline."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.deps import AgentDeps
from holdfast.features.automations.state import TriggerFire
from holdfast.features.automations.values import ScriptOutcome, TriggerSettings
from holdfast.policy.tool_names import SHELL
from holdfast.tools.offload import offload
from holdfast.tools.shell.confined_run import ConfinedRun
from holdfast.tools.shell.marker import foreground
from holdfast.tools.shell.output import Capture
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.scope import kill_leftovers
from holdfast.tools.shell.tool import Shell

SCRIPT_S = 120.0
WHY_CHARS_MAX = 500
_CALL = "script"  # the tool call in the marker of its processes
NO_SHELL = "this server has no shell tool, which starts scripts"
NO_SANDBOX = "scripts need the sandbox, and there is none on this server"
LOST = "the server stopped while it ran; whether it took effect is unknown"


class ScriptResult(Struct, frozen=True):
    """How a script ended, why it isn't usable, and its output, shortened."""

    outcome: ScriptOutcome
    why: str = ""
    output: str = ""


async def run_script(
    agent: AgentDeps, settings: TriggerSettings, fire: TriggerFire, *, patience_s: float = SCRIPT_S
) -> ScriptResult:
    """Run the script of this occurrence. A cancellation is raised when all of its processes are dead."""
    await agent.until_opened()
    shell = agent.tools.get(SHELL)
    if not isinstance(shell, Shell):
        return ScriptResult("failed", NO_SHELL)
    session = await agent.store.session(fire.session_id)
    workspace = Path(settings.workspace or (session.workspace if session else "") or agent.workspace)
    command = Command(argv=("/bin/bash", "-c", settings.script), cwd=str(workspace), environment={})
    run = await offload(lambda: shell.program(command, workspace, in_sandbox=True))
    if run is None:
        return ScriptResult("failed", NO_SANDBOX)
    if not settings.has_network:
        _take_offline(run)
    output = Capture()
    try:
        await run.open()
        try:
            marker = foreground(fire.run_id, _CALL)
            ended = await run_command(run.command, output, marker=marker, patience_s=patience_s)
        finally:
            await run.close()
        text, _ = await offload(output.text)
    finally:
        output.close()
    outcome, why = _outcome(ended, is_unchecked=run.is_unchecked, patience_s=patience_s)
    text = "\n".join(filter(None, [text.rstrip("\n"), *run.sentences]))
    return ScriptResult(outcome, why[:WHY_CHARS_MAX], agent.secrets.redact_text(text))


async def script_lost(fire: TriggerFire) -> ScriptResult:
    """End what a crashed server left of the script. It isn't started again."""
    await kill_leftovers(fire.run_id, tool_call_ids=(_CALL,))
    return ScriptResult("unknown", LOST)


def _take_offline(run: ConfinedRun) -> None:
    confinement = run.command.confinement
    assert confinement is not None, "it was made for the sandbox"
    profile = replace(confinement.profile, network="off", hosts=())
    run.command = replace(run.command, confinement=replace(confinement, profile=profile))


def _outcome(ended: ProcessEnd, *, is_unchecked: bool, patience_s: float) -> tuple[ScriptOutcome, str]:
    match ended.why:
        case "deadline":
            return "late", f"it didn't end within {patience_s:g} s, so it was stopped"
        case "not_started":
            return "failed", f"it couldn't be started: {ended.error}"
        case "sandbox_failed":
            return "failed", "the sandbox failed"
        case _ if ended.code is None:
            return "failed", "its exit code is unknown"
        case _ if ended.code:
            how = f"exit code {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
            return "failed", how
        case _ if is_unchecked:
            return "failed", "the sandbox couldn't check its changes"
        case _:
            return "finished", ""
