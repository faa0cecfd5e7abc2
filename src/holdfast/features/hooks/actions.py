"""The command line of hooks, and the checks of the doctor."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.cli.terminal.columns import print_columns, print_json
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.files import own_config_home
from holdfast.config.load import BadConfiguration, load, read_environment
from holdfast.config.trust import TrustUnreadable
from holdfast.features.hooks.hooks import FILE, BadHooks, read_hooks, trusted_book, trusted_hooks
from holdfast.interfaces.feature import DoctorContext
from holdfast.safe_text import exact_line, safe_line

OK, FAILED = 0, 1


def list_hooks(flags: Mapping[str, object], folder: Path, *, form: str) -> int:
    """Print the user's hooks and those of the workspace."""
    try:
        settings = load(read_environment({"config": flags["config"]})).settings
        workspace = folder.resolve()
        found = trusted_hooks(workspace, trusted_book(own_config_home()))
    except BadConfiguration as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    origins = [(hook, "yours") for hook in settings.hooks]
    problem = found.problem if found is not None else ""
    if found is None and (workspace / FILE).exists():
        problem = f"{FILE} isn't trusted, so its hooks aren't used. Read it, then run `holdfast hooks trust`."
    origins += [(hook, "workspace") for hook in (found.hooks if found is not None else ())]
    if form == "json":
        shown = [
            {"name": hook.shown_name, "on": hook.on, "tools": hook.tools, "command": hook.command, "from": of}
            for hook, of in origins
        ]
        print_json({"hooks": shown, "problem": problem})
        return OK
    rows = [
        (safe_line(hook.shown_name, 40), hook.on, safe_line(", ".join(hook.tools) or "all", 40), of)
        for hook, of in origins
    ]
    if rows:
        print_columns(("NAME", "ON", "TOOLS", "FROM"), rows)
    elif not problem:
        echo(f"No hooks. Add [[hooks]] to your configuration, or to {FILE} in a workspace.")
    if problem:
        echo_error(safe_line(problem, 1_000))
    return OK


def trust(folder: Path) -> int:
    """Trust the workspace's hooks and show what they start."""
    workspace = folder.resolve()
    try:
        found = read_hooks(workspace)
        trusted_book(own_config_home()).trust(workspace / FILE, found.digest)
    except BadHooks as error:
        echo_error(f"holdfast: the hooks in {exact_line(str(workspace / FILE))} {safe_line(str(error), 500)}")
        return FAILED
    except (TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    what = f"{counted(len(found.hooks), 'hook')} and {counted(len(found.scripts), 'script')}"
    where = exact_line(str(workspace))
    echo(f"Holdfast now trusts {what} of {where}. If one changes, runs there fail until you trust it again.")
    for hook in found.hooks:
        echo(f"  {hook.on}: {exact_line(' '.join(hook.command))}")
    for name in found.scripts:
        echo(f"  script {exact_line(name)}")
    return OK


def distrust(folder: Path) -> int:
    """Stop using the workspace's hooks."""
    file = folder.resolve() / FILE
    try:
        known = trusted_book(own_config_home()).forget(file)
    except (TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    shown = exact_line(str(file))
    echo(f"Holdfast no longer uses {shown}." if known else f"{shown} wasn't trusted.")
    return OK


async def check_hooks(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check that the programs of hooks exist, and whether the workspace's hooks are used."""
    return await asyncio.to_thread(_findings, context)


def _findings(context: DoctorContext) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    home = own_config_home()
    for hook in context.settings.hooks:
        program = Path(hook.command[0]).expanduser()
        name = f"hook {hook.shown_name}"
        if shutil.which(program if program.is_absolute() or "/" not in hook.command[0] else home / program):
            findings.append(ok(name, f"runs on {hook.on}"))
        else:
            advice = "install it, or fix `command` in the configuration"
            findings.append(fault(name, f"program not found: {hook.command[0]}", advice))
    found = trusted_hooks(context.workspace, trusted_book(own_config_home()))
    if found is not None and found.problem:
        findings.append(fault("workspace hooks", found.problem, "runs in this workspace fail until then"))
    elif found is not None:
        findings.append(ok("workspace hooks", f"{counted(len(found.hooks), 'hook')}, trusted"))
    elif (context.workspace / FILE).exists():
        advice = f"read {FILE}, then run `holdfast hooks trust` to use them"
        findings.append(note("workspace hooks", "not trusted, so not used", advice))
    return findings
