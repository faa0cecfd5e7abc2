"""The options of an agent's model calls: effort, temperature, length and sampling."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.embedding.errors import ConfigurationError
from holdfast.targets import APPLIED_HERE, SAMPLING, STOPS_MAX, Target
from holdfast.values import RunSettings

if TYPE_CHECKING:
    from holdfast.embedding.model_names import ModelServer

_EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class ModelSettings(Struct, frozen=True, kw_only=True):
    """How a model answers. What you leave out is up to the target, or to the model.

    Pass it to `Agent` for all runs, or to one run, where it changes only what it names. A setting that the
    agent's first model doesn't support is a `ConfigurationError`.

    Example::

        from holdfast import Agent, ModelSettings
        from holdfast.testing import Say, ScriptedModel

        model = ScriptedModel([Say("5")])
        agent = Agent(model, model_settings=ModelSettings(temperature=0.2, max_output_tokens=1_000))
        await agent.run("What is 2 + 3?", model_settings=ModelSettings(temperature=0))
        assert model.requests[0]["temperature"] == 0
    """

    reasoning_effort: str | None = None  # such as "low", "medium" or "high"
    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    stop: str | tuple[str, ...] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    verbosity: str | None = None

    def over(self, others: "ModelSettings") -> "ModelSettings":
        """These settings; the others where they name none."""
        return msgspec.structs.replace(others, **_given(self))

    def applied_to(self, settings: RunSettings) -> RunSettings:
        """The settings of a run, with these."""
        given = _given(self)
        own = {name: given.pop(name) for name in _OF_RUNS if name in given}
        return msgspec.structs.replace(settings, **own, sampling=given)


NO_SETTINGS = ModelSettings()
_OF_RUNS = ("reasoning_effort", "temperature", "max_output_tokens")
_NUMBER = (int, float)
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "reasoning_effort": (str,),
        "temperature": _NUMBER,
        "max_output_tokens": (int,),
        "top_p": _NUMBER,
        "stop": (str, list, tuple),
        "seed": (int,),
        "presence_penalty": _NUMBER,
        "frequency_penalty": _NUMBER,
        "parallel_tool_calls": (bool,),
        "verbosity": (str,),
    }
)


def _given(settings: ModelSettings) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(settings).items() if value is not None}


def checked_settings(given: object, models: "Iterable[Target | ModelServer]") -> ModelSettings:
    """The settings; raises TypeError or ConfigurationError for one that would fail or be ignored."""
    if given is None:
        return NO_SETTINGS
    if not isinstance(given, ModelSettings):
        raise TypeError(
            "model_settings is a ModelSettings, for example ModelSettings(temperature=0), and not "
            f"{given!r:.80}."
        )
    named = _given(given)
    for name, value in named.items():
        kinds = _TYPES[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"model_settings: {name} is {wanted}, and not {value!r:.80}.")
    _insist_on_values(given)
    first = next(iter(models), None)
    if isinstance(first, Target):
        _insist_on_support(named, first)
    return given


def _insist_on_values(given: ModelSettings) -> None:
    if given.reasoning_effort is not None and not _EFFORT.fullmatch(given.reasoning_effort):
        raise ConfigurationError(
            "model_settings: reasoning_effort is a level such as 'low', 'medium' or 'high', and not "
            f"{given.reasoning_effort!r:.80}."
        )
    if given.max_output_tokens is not None and given.max_output_tokens < 1:
        raise ConfigurationError("model_settings: max_output_tokens must be at least 1.")
    if given.stop is not None and not isinstance(given.stop, str) and len(given.stop) > STOPS_MAX:
        raise ConfigurationError(f"model_settings: stop has more than {STOPS_MAX} texts.")


def _insist_on_support(named: Mapping[str, object], target: Target) -> None:
    for name in named:
        if name not in (*_OF_RUNS, *SAMPLING[target.wire], *APPLIED_HERE):
            raise ConfigurationError(f"model_settings: {target.name} doesn't support {name}. Leave it out.")
    if "temperature" in named and target.is_unsampled:
        raise ConfigurationError(f"model_settings: {target.name} doesn't support temperature. Leave it out.")
