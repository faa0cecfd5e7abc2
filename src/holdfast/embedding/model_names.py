"""Models as people name them: `"provider:model"`, a Target, or something that serves one."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec.structs import replace

from holdfast.config.files import own_environ
from holdfast.config.known_targets import KnownTargets, shipped_known, tables_by_key
from holdfast.config.proxies import proxy_for
from holdfast.embedding.errors import ConfigurationError
from holdfast.targets import Patience, Target


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
