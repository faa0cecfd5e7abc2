"""Models as people name them: `"provider:model"`, a Target, or something that serves one.

The options of an agent's model calls: effort, temperature, length and sampling.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.files import own_environ
from holdfast.config.known_targets import KnownTargets, shipped_known, tables_by_key
from holdfast.config.proxies import proxy_for
from holdfast.embedding.errors import ConfigurationError
from holdfast.targets import STOPS_MAX, Patience, Target, refusal, unsupported
from holdfast.values import RunSettings


@runtime_checkable
class ModelServer(Protocol):
    """A model that must be started before it can be called, such as `holdfast.testing.ScriptedModel`."""

    def serve(self) -> AbstractAsyncContextManager[Target]:
        """The target to call, for as long as the context is open."""
        ...


Model: TypeAlias = str | Target | ModelServer
# Read while the program starts, so that no event loop waits for a disk.
KNOWN = shipped_known()


def models_of(
    given: Model | Sequence[Model], *, patience: Patience | None = None
) -> tuple[Target | ModelServer, ...]:
    """The models to call, in order, each with this patience; raises ConfigurationError or TypeError."""
    several: Iterable[Model] = (given,) if isinstance(given, str | Target | ModelServer) else given
    try:
        models = tuple([_patient(_model(one), patience) for one in several])
    except TypeError as error:
        if not isinstance(given, Iterable):
            raise _not_a_model(given) from error
        raise
    if not models:
        raise ConfigurationError('An agent needs a model, for example Agent("openai:gpt-5").')
    names = [model.name for model in models if isinstance(model, Target)]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ConfigurationError(f"There are two targets named {twice!r}; give each its own name.")
    return models


def _model(given: object) -> Target | ModelServer:
    if isinstance(given, Target | ModelServer):
        return given
    if isinstance(given, str):
        return target_named(given, own_environ())
    raise _not_a_model(given)


def _patient(model: Target | ModelServer, patience: Patience | None) -> Target | ModelServer:
    return replace(model, patience=patience) if patience and isinstance(model, Target) else model


def _not_a_model(given: object) -> TypeError:
    kind = type(given).__name__
    return TypeError(f'A model is "provider:model", a Target, or a list of those, and not {kind} {given!r}.')


def target_named(text: str, environ: Mapping[str, str]) -> Target:
    """The target that `provider:model` names; raises ConfigurationError."""
    known = KNOWN
    provider, colon, model = text.partition(":")
    if not colon or not model.strip() or provider not in _providers(known):
        raise ConfigurationError(
            f"{text!r} names no model. Write it as provider:model, where the provider is one of "
            f"{', '.join(_providers(known))}; for any other endpoint, pass a Target."
        )
    values = _values(known, provider, environ)
    base_url = str(values["base_url"])
    proxy = proxy_for(base_url, environ)
    return Target(
        name=text,
        wire=values["wire"],  # pyright: ignore[reportArgumentType]  # the data file is checked when it is read
        base_url=base_url,
        model=model.strip(),
        api_key=environ[str(values["api_key"]).removeprefix("env:")].strip() if "api_key" in values else "",
        context_window=int(str(values["context_window"])),
        proxy=proxy.url if proxy is not None and proxy.is_usable else "",
    )


def _providers(known: KnownTargets) -> list[str]:
    return [one.name for one in (*known.known, *known.local)]


def _values(known: KnownTargets, provider: str, environ: Mapping[str, str]) -> Mapping[str, object]:
    """The provider's row of the table; raises ConfigurationError if its key is missing."""
    for table in tables_by_key(known, environ):
        if table.values["name"] == provider:
            return table.values
    for key in known.known:
        if key.name == provider:
            raise ConfigurationError(
                f"{provider} needs a key: set {key.variable} in the environment, or pass "
                f'Target(name=…, wire="{key.wire}", base_url="{key.base_url}", model=…, api_key=…).'
            )
    (local,) = (server for server in known.local if server.name == provider)
    return {"wire": local.wire, "base_url": local.base_url, "context_window": local.context_window}


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
        _insist_on_support(given, first)
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


def _insist_on_support(given: ModelSettings, target: Target) -> None:
    if names := unsupported(target, given.applied_to(RunSettings())):
        raise ConfigurationError(f"model_settings: {refusal(target, names)}")
