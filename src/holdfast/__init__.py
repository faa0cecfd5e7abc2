"""Holdfast runs AI agents that do not get lost.

from holdfast import Agent

agent = Agent("anthropic:claude-sonnet-5-5", instructions="Answer briefly.")
print(agent.run_sync("What is 2 + 3?").output)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.config.settings import McpSandboxSettings, McpServerSettings
    from holdfast.embedding.agent import Agent
    from holdfast.embedding.approvals import PendingApproval, PendingQuestion
    from holdfast.embedding.errors import (
        AnswerNeeded,
        ApprovalNeeded,
        BudgetExceeded,
        ConfigurationError,
        HoldfastError,
        OutputInvalid,
        RunCancelled,
        RunError,
        RunFailed,
        RunRefused,
        RunTruncated,
    )
    from holdfast.embedding.instructions import InstructionsContext
    from holdfast.embedding.model_names import ModelSettings
    from holdfast.embedding.output_types import one_of
    from holdfast.embedding.prompts import Attachment
    from holdfast.embedding.results import Result
    from holdfast.embedding.runs import RunHandle
    from holdfast.embedding.sessions import AgentSession
    from holdfast.embedding.sub_agents import SubAgent
    from holdfast.host.hidden_process import hide_process
    from holdfast.interfaces.tool import NobodyAnswered
    from holdfast.policy.verdicts import Deny
    from holdfast.targets import Patience, Target
    from holdfast.tools.context import Retry, ToolContext
    from holdfast.tools.functions import tool
    from holdfast.values import Budget

__all__ = [
    "Agent",
    "AgentSession",
    "AnswerNeeded",
    "ApprovalNeeded",
    "Attachment",
    "Budget",
    "BudgetExceeded",
    "ConfigurationError",
    "Deny",
    "HoldfastError",
    "InstructionsContext",
    "McpSandboxSettings",
    "McpServerSettings",
    "ModelSettings",
    "NobodyAnswered",
    "OutputInvalid",
    "Patience",
    "PendingApproval",
    "PendingQuestion",
    "Result",
    "Retry",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "RunHandle",
    "RunRefused",
    "RunTruncated",
    "SubAgent",
    "Target",
    "ToolContext",
    "__version__",
    "hide_process",
    "one_of",
    "tool",
]
__version__ = "0.1.0"

_NAMES_OF_MODULES = {
    "config.settings": ("McpSandboxSettings", "McpServerSettings"),
    "embedding.agent": ("Agent",),
    "embedding.approvals": ("PendingApproval", "PendingQuestion"),
    "embedding.errors": (
        "AnswerNeeded",
        "ApprovalNeeded",
        "BudgetExceeded",
        "ConfigurationError",
        "HoldfastError",
        "OutputInvalid",
        "RunCancelled",
        "RunError",
        "RunFailed",
        "RunRefused",
        "RunTruncated",
    ),
    "embedding.instructions": ("InstructionsContext",),
    "embedding.model_names": ("ModelSettings",),
    "embedding.output_types": ("one_of",),
    "embedding.prompts": ("Attachment",),
    "embedding.results": ("Result",),
    "embedding.runs": ("RunHandle",),
    "embedding.sessions": ("AgentSession",),
    "embedding.sub_agents": ("SubAgent",),
    "host.hidden_process": ("hide_process",),
    "interfaces.tool": ("NobodyAnswered",),
    "policy.verdicts": ("Deny",),
    "targets": ("Patience", "Target"),
    "tools.context": ("Retry", "ToolContext"),
    "tools.functions": ("tool",),
    "values": ("Budget",),
}


def __getattr__(name: str) -> object:
    """What is imported from here is loaded when it is used, so that `import holdfast` costs nothing."""
    from importlib import import_module

    for module, names in _NAMES_OF_MODULES.items():
        if name in names:
            return getattr(import_module(f"holdfast.{module}"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
