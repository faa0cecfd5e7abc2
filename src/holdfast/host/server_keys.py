"""The API keys of a server: from the configuration, or the one made at the first start."""

import secrets
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.config.target_secrets import KEY_CHARS_MIN
from holdfast.config.value_formats import format_error
from holdfast.journal.safe_files import write_whole
from holdfast.server.options import ApiKey

KEY_BYTES_MAX = 4_096


def first_key(settings: Settings) -> str | None:
    """The key made at the first start, if the configuration doesn't mention keys.

    Raises OSError, also if the file doesn't contain a valid key.
    """
    if settings.server.api_keys is not None:
        return None
    path = _path(settings)
    if not _kept(path):
        try:
            write_whole(path, f"hf-{secrets.token_urlsafe(32)}\n".encode())
        except OSError as error:
            raise OSError(
                f"can't create the first API key in {path}: {error.strerror}; free some space or check the "
                "permissions, then start Holdfast again"
            ) from error
    return _kept(path)


def keys_of(settings: Settings, made: str | None) -> tuple[ApiKey, ...] | None:
    """None means that no key is needed, which the configuration allows on loopback only."""
    if made is not None:
        return (ApiKey("first", made, "made"),)
    given = settings.server.api_keys or ()
    return tuple(ApiKey(f"key {number}", str(key)) for number, key in enumerate(given, 1)) or None


def key_for_clients(settings: Settings) -> str:
    """A key for the server of this data directory; empty if none is needed or known."""
    if settings.server.api_keys is not None:
        return next((str(key) for key in settings.server.api_keys), "")
    return _kept(_path(settings))


def _kept(path: Path) -> str:
    """The key in the file; empty if there is none, as after a start on a full disk."""
    try:
        key = path.read_bytes()[:KEY_BYTES_MAX].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    if format_error("key", key) or 0 < len(key) < KEY_CHARS_MIN:
        raise OSError(f"{path} contains no valid key; delete it, and the next start generates a new one")
    return key


def _path(settings: Settings) -> Path:
    return settings.data_dir / "api-key"
