"""Model settings and patience of an embedded agent: what reaches the model, and what is refused by name."""

from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, ModelSettings, Patience, Target
from holdfast.testing import Say, ScriptedModel
from tables import for_each_row

ANY: Any = ModelSettings


async def test_settings_of_a_run_win_over_those_of_the_agent_one_by_one() -> None:
    model = ScriptedModel([Say("one"), Say("two")])
    agent = Agent(
        model, model_settings=ModelSettings(temperature=0.5, max_output_tokens=100, reasoning_effort="low")
    )
    await agent.run("first")
    await agent.session("s").run("second", model_settings=ModelSettings(temperature=0, stop=("END",), seed=7))
    first, second = model.requests
    assert (first["temperature"], first["reasoning_effort"]) == (0.5, "low")
    assert (second["temperature"], second["reasoning_effort"]) == (0, "low")
    assert (second["stop"], second["seed"]) == (["END"], 7)
    assert 100 in {first.get("max_completion_tokens"), first.get("max_tokens")}


def _target(wire: Any = "responses", base_url: str = "http://127.0.0.1:9/v1") -> Target:
    return Target(name="main", wire=wire, base_url=base_url, model="m")


@for_each_row(
    "given, error, text",
    [
        ({"temperature": "hot"}, TypeError, "model_settings: temperature is int or float, and not 'hot'"),
        ({"seed": True}, TypeError, "seed is int"),
        ({"reasoning_effort": "Very high"}, ConfigurationError, "reasoning_effort is a level such as"),
        ({"max_output_tokens": 0}, ConfigurationError, "max_output_tokens must be at least 1"),
        ({"stop": ("x",) * 17}, ConfigurationError, "stop has more than 16 texts"),
        ({"seed": 7}, ConfigurationError, "'main' doesn't support seed. Leave it out"),
    ],
)
def test_a_setting_that_would_fail_or_be_ignored_is_refused_by_name(
    given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Agent(_target(), model_settings=ANY(**given))
    with pytest.raises(error, match=text):
        Agent(_target()).stream("hi", model_settings=ANY(**given))


def test_what_is_no_model_settings_and_a_temperature_that_a_model_ignores_are_refused() -> None:
    untyped: Any = Agent
    with pytest.raises(TypeError, match="model_settings is a ModelSettings"):
        untyped(_target(), model_settings={"temperature": 0})
    claude = _target("anthropic", "https://api.anthropic.com")
    with pytest.raises(ConfigurationError, match="'main' doesn't support temperature"):
        Agent(claude, model_settings=ModelSettings(temperature=0))
    assert Agent(claude, model_settings=ModelSettings(stop="END", reasoning_effort="high"))


async def test_the_patience_of_an_agent_is_that_of_its_targets() -> None:
    """P3: a model that stays silent is given up after the time that the program says."""
    from holdfast.events import AttemptFailed
    from holdfast.testing import Hang

    model = ScriptedModel([Hang(), Say("hello")])
    async with model.serve() as target:
        result = await Agent(target, patience=Patience(first_event_s=0.05)).run("hi")
    assert result.output == "hello"
    assert [one.failure.kind for one in result.events if isinstance(one, AttemptFailed)] == ["no_first_event"]
