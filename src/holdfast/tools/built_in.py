"""The built-in tools of a server."""

import shutil
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from holdfast.interfaces.tool import Tool
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.tools.ask import AskUser
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.listing import ListFiles
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.search import SearchFiles
from holdfast.tools.files.send_file import SendFile
from holdfast.tools.files.workspace import Workspace
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.tool import Shell, ShellJobs, ShellKill, ShellWorld
from holdfast.tools.web.addresses import PublicOnly
from holdfast.tools.web.fetch import Fetcher
from holdfast.tools.web.tool import FetchUrl

if TYPE_CHECKING:
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog


def shell_of(environment: Mapping[str, str]) -> str:
    """Return the path of the shell that runs commands. Blocks."""
    return shutil.which("bash", path=environment.get("PATH")) or "/bin/sh"


def built_in_tools(
    environment: Mapping[str, str],
    *,
    background: Background,
    kept_out: tuple[str, ...] = (),
    confiner: Confiner | None = None,
    protected: ProtectedPaths | None = None,
    watchdog: "LeaseWatchdog | None" = None,
) -> list[Tool]:
    """The built-in tools of one server; child processes get the environment. Looks for ripgrep, so it blocks.

    `kept_out` are paths that no file tool opens, absolute and without links, wherever the workspace is.
    `confiner` puts commands into the sandbox, and `watchdog` kills them if the server loses its lease.
    """
    seen = FilesSeen()
    workspaces = partial(Workspace, kept_out=kept_out)
    return [
        Shell(
            ShellWorld(
                environment=environment,
                background=background,
                argv=(shell_of(environment), "-c"),
                confiner=confiner,
                protected=protected,
                watchdog=watchdog,
            )
        ),
        ShellJobs(background),
        ShellKill(background),
        ReadFile(seen, workspaces=workspaces),
        WriteFile(seen, workspaces=workspaces),
        EditFile(seen, workspaces=workspaces),
        ListFiles(workspaces=workspaces),
        SearchFiles(
            environment, ripgrep=shutil.which("rg", path=environment.get("PATH")), workspaces=workspaces
        ),
        SendFile(workspaces=workspaces),
        FetchUrl(Fetcher(PublicOnly()), environment=environment),
        AskUser(),
    ]
