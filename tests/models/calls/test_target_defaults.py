"""The effort, temperature and limit that a target's configuration gives to runs without their own."""

from typing import Any

from holdfast.chaos import Say
from holdfast.interfaces.model import Answer
from holdfast.messages import ModelRequest, UserMessage
from holdfast.targets import Wire
from tables import for_each_row

from .calling import line_of

GOOD = [Say("hello")]
SENT: tuple[tuple[Wire, dict[str, object], dict[str, object]], ...] = (
    (
        "chat",
        {"reasoning_effort": "low", "temperature": 0.5},
        {"reasoning_effort": "high", "temperature": 0.0},
    ),
    (
        "responses",
        {"reasoning": {"effort": "low", "summary": "auto"}, "temperature": 0.5, "max_output_tokens": 500},
        {"reasoning": {"effort": "high", "summary": "auto"}, "temperature": 0.0, "max_output_tokens": 70},
    ),
    ("anthropic", {"output_config": {"effort": "low"}}, {"output_config": {"effort": "high"}}),
)


@for_each_row("wire, by_default, asked", SENT)
async def test_a_targets_defaults_count_unless_the_run_has_its_own(
    wire: Wire, by_default: dict[str, object], asked: dict[str, object]
) -> None:
    defaults: dict[str, Any] = {"reasoning_effort": "low", "temperature": 0.5, "max_output_tokens": 500}
    message = (UserMessage("hi"),)
    own = ModelRequest(messages=message, reasoning_effort="high", temperature=0.0, max_output_tokens=70)
    async with line_of(wire, GOOD, GOOD, **defaults) as (line, server):
        assert isinstance(await line.ask(ModelRequest(messages=message)), Answer)
        assert isinstance(await line.ask(own, sink=line.another_voice()), Answer)
        for request, expected in zip(server.seen.requests, (by_default, asked), strict=True):
            body = request.body or {}
            assert {name: body.get(name) for name in expected} == expected


async def test_a_target_without_defaults_adds_nothing() -> None:
    """P9: a plain run's request has no field for them."""
    async with line_of("chat", GOOD) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert not {"reasoning_effort", "temperature", "max_tokens"} & set(server.seen.request(1).body or {})
