"""A target: one endpoint, model, credential and wire, as an immutable value; and how long to wait for it."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

Wire: TypeAlias = Literal["responses", "chat", "anthropic"]


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of silence in seconds, as configured: None is not given, 0 switches a watchdog off.

    Example::

        from holdfast import Agent, Patience

        agent = Agent("ollama:qwen3", patience=Patience(first_event_s=20))
    """

    connect_s: float | None = None
    upload_s: float | None = None
    first_event_s: float | None = None
    first_event_cap_s: float | None = None
    first_progress_s: float | None = None
    gap_s: float | None = None
    strict: bool = False


class RetryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often one call may try, and for how long where nobody is there to be asked."""

    attempts_max: int = 5
    attempts_per_target_max: int = 3
    unreachable_s: float = 60.0
    unreachable_resumed_s: float = 300.0
    backoff_base_s: float = 1.0
    backoff_max_s: float = 20.0
    hedge: bool = False


# What each wire calls the sampling options of OpenAI's Chat Completions; it has no others.
SAMPLING: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "chat": {
            name: name
            for name in (
                "top_p",
                "stop",
                "seed",
                "presence_penalty",
                "frequency_penalty",
                "logit_bias",
                "parallel_tool_calls",
                "verbosity",
            )
        },
        "responses": {name: name for name in ("top_p", "parallel_tool_calls", "verbosity")},
        "anthropic": {
            "top_p": "top_p",
            "stop": "stop_sequences",
            "parallel_tool_calls": "parallel_tool_calls",
        },
    }
)

# Options that Holdfast applies itself where a wire lacks them.
APPLIED_HERE = frozenset({"stop"})
STOPS_MAX = 16  # of a request, because every text is searched for each


# The efforts that this wire has a name for; a number is a thinking budget.
ANTHROPIC_EFFORTS: Mapping[str, str] = MappingProxyType(
    {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
)
WITHOUT_EFFORT = frozenset({"", "none", "off"})
CODEX_BACKEND = "/backend-api/codex"
# Anthropic's current models refuse these, and so does any model on its wire that is asked to think.
_UNSAMPLED_HOST = ".anthropic.com"
_RANDOMNESS = ("temperature", "top_p")
# So do OpenAI's reasoning models, except for newer ones that are asked for no effort.
_OPENAI_HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com")
_REASONING_MODELS = re.compile(r"o[134](?:-|$)|gpt-5(?:-(?:mini|nano|pro|codex|20\d\d).*)?$")
_PENALTIES = ("presence_penalty", "frequency_penalty")
_CODEX_REFUSES = ("temperature", "max_output_tokens", "top_p", "parallel_tool_calls", "verbosity")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request goes; falling back picks another target and changes none.

    `proxy` is the URL of an HTTP proxy on the way there, with user and password if it wants them. If there
    are several `api_keys`, `api_key` is the one in use. `auth` names a sign-in whose token takes its place.
    """

    name: str
    wire: Wire
    base_url: str
    model: str
    api_key: str = ""
    api_keys: tuple[str, ...] = ()
    auth: str = ""
    context_window: int = 200_000
    vision: bool = True  # whether the model sees images
    headers: dict[str, str] = {}
    proxy: str = ""
    patience: Patience = Patience()
    retry: RetryLimits = RetryLimits()
    # For runs whose own settings don't say; relayed requests stay as they are.
    reasoning_effort: str = ""
    temperature: float | None = None
    max_output_tokens: int = 0

    def __post_init__(self) -> None:
        """Start with the first key; refuse an address with a password, which would be shown."""
        if "@" in self.base_url and urlsplit(self.base_url).username is not None:
            raise ValueError(
                f"base_url of the target {self.name!r} must not contain a user or password; put secrets in "
                "api_key or headers"
            )
        if self.api_keys and self.api_key not in self.api_keys:
            msgspec.structs.force_setattr(self, "api_key", self.api_keys[0])

    @property
    def has_defaults(self) -> bool:
        """Whether runs get an effort, temperature or limit from it."""
        return bool(self.reasoning_effort or self.max_output_tokens) or self.temperature is not None

    def __repr__(self) -> str:
        """The key stays out of logs and tracebacks."""
        return f"Target({self.name!r}, {self.wire!r}, {self.base_url!r}, {self.model!r})"


class CallOptions(Protocol):
    """The effort, temperature, length and sampling that a request or the settings of a run ask for."""

    @property
    def reasoning_effort(self) -> str:
        """Empty leaves it to the target."""
        ...

    @property
    def temperature(self) -> float | None:
        """None leaves it to the target."""
        ...

    @property
    def max_output_tokens(self) -> int | None:
        """None and 0 leave it to the target."""
        ...

    @property
    def sampling(self) -> Mapping[str, object]:
        """Options under OpenAI's names."""
        ...


def unsupported(target: Target, options: CallOptions) -> list[str]:
    """Return the options that the target refuses or has no field for, under OpenAI's names.

    A temperature of 1 is what every provider uses without one.
    """
    effort = options.reasoning_effort or target.reasoning_effort
    given = dict.fromkeys(options.sampling)
    if options.temperature not in {None, 1}:
        given["temperature"] = None
    if options.max_output_tokens:
        given["max_output_tokens"] = None
    if not given and not effort:
        return []
    refused = {name for name in options.sampling if name not in {*SAMPLING[target.wire], *APPLIED_HERE}}
    host = f".{urlsplit(target.base_url).hostname}"
    if host.endswith(_UNSAMPLED_HOST) or (target.wire == "anthropic" and effort not in WITHOUT_EFFORT):
        refused.update(_RANDOMNESS)
    if host.endswith(_OPENAI_HOSTS) and _REASONING_MODELS.match(target.model):
        refused.update(_RANDOMNESS, _PENALTIES)
    if CODEX_BACKEND in target.base_url:
        refused.update(_CODEX_REFUSES)
    found = [name for name in given if name in refused]
    takes_effort = effort in ANTHROPIC_EFFORTS or effort.isdecimal()
    has_word = takes_effort if target.wire == "anthropic" else not effort.isdecimal()
    return found if has_word or effort in WITHOUT_EFFORT else [*found, "reasoning_effort"]


def listed(options: Sequence[str]) -> str:
    """Return the options as part of a sentence."""
    *others, last = options
    return f"{', '.join(others)} and {last}" if others else last


def refusal(target: Target, options: Sequence[str]) -> str:
    """Return the error for options that the target doesn't support."""
    effort = f" with the reasoning effort {target.reasoning_effort}" if target.reasoning_effort else ""
    what = f"{listed(options)}{effort}"
    return f"The target {target.name!r} doesn't support {what}. Leave it out, or use another target."


# Models that are trained to change files with apply_patch.
_PATCHING = re.compile(r"(?:^|/)(?:gpt-4\.1|gpt-[5-9]|gpt-oss|codex-|o[34]\b)")


def patching(targets: Sequence[Target]) -> frozenset[str]:
    """Return the names of targets and models for which runs get apply_patch; empty is the default target."""
    return _names_of([target for target in targets if _PATCHING.search(target.model)], targets)


def blind(targets: Sequence[Target]) -> frozenset[str]:
    """Return the names of targets and models that can't see images; empty is the default target."""
    return _names_of([target for target in targets if not target.vision], targets)


def _names_of(some: Sequence[Target], targets: Sequence[Target]) -> frozenset[str]:
    default = [""] if targets and targets[0] in some else []
    return frozenset([*default, *(name for target in some for name in (target.name, target.model))])


def windows_of(targets: Sequence[Target]) -> dict[str, int]:
    """Return the window of each target by its name, and of the first target of each model by the model."""
    windows = {target.name: target.context_window for target in targets}
    for target in targets:
        windows.setdefault(target.model, target.context_window)
    return windows


@lru_cache(maxsize=256)
def address_of(url: str) -> str:
    """Host and port of a URL, however it is spelled; one that names no port is its own address."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return url
    return f"{parts.hostname}:{port}"
