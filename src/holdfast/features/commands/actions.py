"""The command line of slash commands, and the checks of the doctor."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.chat.commands import COMMANDS
from holdfast.cli.doctor.findings import DoctorFinding, counted, note, ok
from holdfast.cli.terminal.columns import print_columns, print_json
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.files import own_config_home
from holdfast.config.trust import TrustUnreadable
from holdfast.features.commands.library import (
    OWN_FOLDER,
    WORKSPACE_FOLDER,
    BadCommand,
    command_files,
    find_commands,
    read_command,
    trusted_book,
)
from holdfast.interfaces.feature import DoctorContext
from holdfast.safe_text import exact_line, safe_line

OK, FAILED = 0, 1
BUILT_IN = frozenset({*(name[1:] for name, _ in COMMANDS), "quit", "start", "approve", "deny"})


def list_commands(folder: Path, *, form: str) -> int:
    """Print the commands, and the files that aren't used."""
    found = find_commands(folder.resolve())
    rows = [{"name": one.name, "from": one.origin, "about": one.about} for one in found.commands.values()]
    if form == "json":
        print_json({"commands": rows, "problems": found.problems})
        return OK
    if rows:
        shown = [(f"/{row['name']}", row["from"], safe_line(row["about"], 80)) for row in rows]
        print_columns(("NAME", "FROM", "DESCRIPTION"), shown)
    elif not found.problems:
        own = own_config_home() / OWN_FOLDER
        echo(f"No commands. Add Markdown files to {own}, or to {WORKSPACE_FOLDER} in a workspace.")
    for path, why in found.problems.items():
        echo_error(f"not used: {exact_line(path)}: {safe_line(why, 300)}")
    return OK


def trust(folder: Path) -> int:
    """Trust all usable commands of the workspace."""
    book = trusted_book(own_config_home())
    paths = command_files(folder)
    if not paths:
        echo_error(f"holdfast: {folder / WORKSPACE_FOLDER} has no commands")
        return FAILED
    failed = False
    for path in paths:
        try:
            command, text = read_command(path, is_own=False)
            book.trust(path, text)
        except (BadCommand, TrustUnreadable, OSError) as error:
            echo_error(f"holdfast: {exact_line(str(path))} wasn't trusted: {safe_line(str(error), 300)}")
            failed = True
        else:
            echo(f"Trusted /{command.name}. If the file changes, trust it again.")
    return FAILED if failed else OK


async def check_commands(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Report files that aren't used, and those hidden by a built-in command."""
    found = await asyncio.to_thread(find_commands, context.workspace)
    findings = [
        note(f"command /{name}", "hidden by the built-in command of this name", f"rename {one.path}")
        for name, one in found.commands.items()
        if name in BUILT_IN
    ]
    for path, why in found.problems.items():
        advice = "fix the file, or read it and run `holdfast commands trust`"
        findings.append(note(f"command {Path(path).stem}", f"not used: {path}: {why}", advice))
    usable = [name for name in found.commands if name not in BUILT_IN]
    if usable:
        findings.append(ok("commands", counted(len(usable), "command")))
    return findings
