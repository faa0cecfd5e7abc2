"""Small wrong implementations of what an embedded agent relies on, with the check that must notice each."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast import Agent, ApprovalNeeded, PendingApproval, tool
from holdfast.agent.output import problem_with
from holdfast.embedding.approvals import OnApproval, decide
from holdfast.embedding.handlers import called
from holdfast.events import ApprovalAnswered, ApprovalAsked
from holdfast.host.runtime import Runner
from holdfast.testing import Call, Say, ScriptedModel
from holdfast.values import OutputFormat
from sabotage import Sabotage

# P4: completed means that the answer is what was asked for

SCHEMA = OutputFormat(schema={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})


async def check_an_answer_fits_its_schema(problem: Callable[[str, OutputFormat], str]) -> None:
    assert not await asyncio.to_thread(problem, '{"x": 1}', SCHEMA)
    for text in ("", "x", '{"x": "1"}', "{}", '```json\n{"x": 1}\n```'):
        assert await asyncio.to_thread(problem, text, SCHEMA), text
    assert await asyncio.to_thread(problem, "[]", OutputFormat())


def any_json_will_do(text: str, wanted: OutputFormat) -> str:
    """JSON of another form is taken for the answer."""
    del wanted
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


# P8: only a clear yes is one

Decide = Callable[..., Awaitable[None]]


@tool(needs_approval=True)
async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents}"


async def check_only_a_clear_yes_is_consent(deciding: Decide) -> None:
    async def undecided(_: PendingApproval) -> Any:
        return None

    agent = Agent(ScriptedModel([Call("pay", cents=5), Say("Done.")]), tools=[pay])
    try:
        await agent.run("Pay")
    except ApprovalNeeded as needed:
        run_id = needed.run_id
    else:
        raise AssertionError("nobody was asked")
    async with agent, agent.runtime.use() as runner:
        run = await agent.attach(run_id)
        async for event in run:
            if isinstance(event, ApprovalAsked):
                await deciding(runner, undecided, session_id=run.session_id, asked=event)
        answers = [event async for event in run if isinstance(event, ApprovalAnswered)]
    assert [answer.choice for answer in answers] == ["deny"]


async def silence_is_consent(
    runner: Runner, on_approval: OnApproval, *, session_id: str, asked: ApprovalAsked
) -> None:
    """Whatever is not a no is taken for a yes."""

    async def agreeing(approval: PendingApproval) -> bool:
        return await called(on_approval, approval) is not False

    await decide(runner, agreeing, session_id=session_id, asked=asked)


SABOTAGES = (
    Sabotage("P4", check_an_answer_fits_its_schema, problem_with, any_json_will_do),
    Sabotage("P8", check_only_a_clear_yes_is_consent, decide, silence_is_consent),
)
