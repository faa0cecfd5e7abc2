"""The doctor's check of named agents: each file can be read, and names tools and modes that exist."""

import asyncio
from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, counted, note, ok
from holdfast.config.files import own_config_home
from holdfast.features.delegation.agents import AgentFile, AgentLibrary
from holdfast.interfaces.feature import DoctorContext
from holdfast.policy.tool_names import BUILT_IN, MCP_PREFIX
from holdfast.values import NO_TOOLS

ADVICE = "edit the file; `holdfast agents` lists all agents"


async def check_agents(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Report each file that can't be used, or has something without effect."""
    library = AgentLibrary(own_config_home())
    files = await asyncio.to_thread(library.files, context.workspace)
    found = [
        note(f"agent {one.name}", f"{one.path}: {text}", ADVICE)
        for one in files.values()
        if (text := _why(one))
    ]
    usable = sum(one.agent is not None and not one.problem for one in files.values())
    return [*found, *([ok("agents", counted(usable, "named agent"))] if usable else [])]


def _why(file: AgentFile) -> str:
    agent = file.agent
    if agent is None or file.problem or file.note:
        return file.problem or file.note
    unknown = [
        name
        for name in agent.tools
        if name not in BUILT_IN and not name.startswith(MCP_PREFIX) and name not in NO_TOOLS
    ]
    return f"it names tools that Holdfast doesn't have: {', '.join(unknown)}" if unknown else ""
