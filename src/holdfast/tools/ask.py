"""The question to the user: described like any tool, but asked by the agent loop."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import ASK_USER
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.values import Action


class AskUserArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question."""

    text: Annotated[str, Meta(min_length=1, max_length=8_000)]
    choices: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=500)], ...],
        Meta(max_length=20, description="Suggested answers."),
    ] = ()


class AskUser(Tool):
    """Describes the tool to the model; the agent loop turns a call into question.asked.

    `run` is called only without such a loop, where no one can answer.
    """

    args_type = AskUserArgs
    spec = spec_of(
        ASK_USER,
        "Ask the user a question and wait for the answer.",
        args=AskUserArgs,
    )
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(AskUserArgs, args)
        return Action(tool=ASK_USER, summary=given.text[:300], digest=arguments_hash(ASK_USER, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult("No one is available to answer.", ok=False, ending="no_approver")
