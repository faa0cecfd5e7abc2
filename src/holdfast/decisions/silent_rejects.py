"""Models that an endpoint is known to reject silently: patterns and hints, as data."""

import tomllib
from fnmatch import fnmatchcase

import msgspec


class SilentReject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint (without its scheme) and a model, both as shell patterns, and the hint for the user."""

    endpoint: str
    model: str
    hint: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reject: tuple[SilentReject, ...] = ()


def load_silent_rejects(text: str) -> tuple[SilentReject, ...]:
    """The entries of the data file; raises on an invalid entry, which is a bug."""
    return msgspec.convert(tomllib.loads(text), _File).reject


def silent_reject_hint(rejects: tuple[SilentReject, ...], *, base_url: str, model: str) -> str:
    """The hint of the first matching entry, or an empty string."""
    endpoint = base_url.partition("://")[2].rstrip("/").lower()
    for reject in rejects:
        if fnmatchcase(endpoint, reject.endpoint) and fnmatchcase(model.lower(), reject.model):
            return reject.hint
    return ""
