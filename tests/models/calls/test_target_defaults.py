"""The effort, temperature and limit that a target's configuration gives to runs without their own."""

from typing import Any

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, Status, bad_key
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import ModelRequest, UserMessage
from holdfast.targets import Wire
from tables import for_each_row

from .calling import line_of, line_to, request_of, target_of

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
    # One that is to think takes no temperature.
    temperature = None if wire == "anthropic" else 0.0
    own = ModelRequest(
        messages=message, reasoning_effort="high", temperature=temperature, max_output_tokens=70
    )
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


async def test_an_option_that_a_target_refuses_fails_there_and_is_left_out_of_a_fallback_with_a_word() -> (
    None
):
    """P9: nothing that changes an answer is ignored silently."""
    asked = request_of(temperature=0.5, reasoning_effort="low", sampling={"seed": 7})
    async with ChaosServer([bad_key()]) as bad, ChaosServer(GOOD) as good:
        claude = target_of(good, "anthropic", "claude")
        async with line_to(target_of(bad, "chat"), claude) as line:
            assert isinstance(await line.ask(asked), Answer)
            (switched,) = line.told.of(e.TargetSwitched)
            assert switched.why == "main rejected the API key; claude answers without seed and temperature"
            body = good.seen.request(1).body or {}
            assert not {"seed", "temperature"} & set(body)
            assert body["output_config"] == {"effort": "low"}
        async with line_to(claude, target_of(bad, "chat")) as line:
            ended = await line.ask(asked)
            assert isinstance(ended, NoAnswer)
            assert (ended.failure.kind, ended.failure.rule) == ("bad_request", "unsupported_option")
            assert "'claude' doesn't support seed and temperature" in ended.failure.text
        assert good.seen.requests_seen == 1


async def test_an_option_of_our_own_is_left_out_where_a_target_refuses_it() -> None:
    """The limit of a title, or of doctor's test call."""
    async with line_of("anthropic", GOOD) as (line, server):
        assert isinstance(await line.ask(request_of(sampling={"seed": 7}, options_are_ours=True)), Answer)
        assert "seed" not in (server.seen.request(1).body or {})


async def test_an_effort_that_a_model_turns_out_to_refuse_is_named() -> None:
    status = Status(400, message="Encrypted content is not supported with this model.")
    async with line_of("responses", [status], GOOD) as (line, _):
        ended = await line.ask(request_of(reasoning_effort="low"))
        assert isinstance(ended, NoAnswer)
        assert "'main' doesn't support reasoning_effort" in ended.failure.text
        assert isinstance(await line.ask(sink=line.another_voice()), Answer)
