"""The keys of a server as its configuration and its data directory have them."""

import os
import secrets
from pathlib import Path

from holdfast.server.options import ApiKey
from holdfast.settings import Settings


def made_key(settings: Settings) -> str | None:
    """The key that is made at the first start, where the configuration has no word about keys."""
    if settings.server.api_keys is not None:
        return None
    path = _path(settings)
    if not path.exists():
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as out:
            out.write(f"hf-{secrets.token_urlsafe(32)}\n")
    return path.read_text(encoding="ascii").strip()


def keys_of(settings: Settings, made: str | None) -> tuple[ApiKey, ...] | None:
    """None is a server open to everyone on this machine; the configuration allows that on loopback only."""
    if made is not None:
        return (ApiKey("first", made, "made"),)
    given = settings.server.api_keys or ()
    return tuple(ApiKey(f"key {number}", str(key)) for number, key in enumerate(given, 1)) or None


def key_for_clients(settings: Settings) -> str:
    """A key that opens the server of this data directory; nothing if none is needed or known."""
    if settings.server.api_keys is not None:
        return next((str(key) for key in settings.server.api_keys), "")
    try:
        return _path(settings).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def _path(settings: Settings) -> Path:
    return settings.data_dir / "api-key"
