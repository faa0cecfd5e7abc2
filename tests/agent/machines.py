"""A server as the models of its runs see it."""

from pathlib import Path

from holdfast.agent.prompt import Machine


def machine(own_guide: Path = Path("/nowhere/AGENTS.md")) -> Machine:
    return Machine(
        system="Linux 6.1 (x86_64)",
        shell_name=lambda: "bash",
        sandbox=lambda: "on.",
        mode="ask",
        own_guide=own_guide,
    )
