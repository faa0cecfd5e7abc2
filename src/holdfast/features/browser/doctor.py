"""The doctor's check of the browser: both programs are installed."""

import asyncio
import os
from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.interfaces.feature import DoctorContext


async def check_browser(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check that the MCP server and a browser are there, if agents can use one."""
    settings = context.settings.browser
    if not settings.enabled:
        return []
    from holdfast.features.browser.browsers import BrowserUnavailable, find_program

    try:
        path = {"PATH": os.pathsep.join(os.get_exec_path())}
        program = await asyncio.to_thread(find_program, settings, path)
    except BrowserUnavailable as error:
        return [fault("browser", str(error), "see docs/browser.md")]
    if context.settings.sandbox.mode == "off":
        return [fault("browser", "it needs the sandbox, which is off", "remove `mode` under [sandbox]")]
    return [ok("browser", f"{program.command[0]} with {program.executable}")]
