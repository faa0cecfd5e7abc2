"""The keys of a server as its configuration and its data directory have them."""

import secrets
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.config.target_secrets import KEY_CHARS_MIN
from holdfast.config.value_formats import format_error
from holdfast.journal.safe_files import write_whole
from holdfast.server.options import ApiKey

KEY_BYTES_MAX = 4_096


def first_key(settings: Settings) -> str | None:
    """The key that is made at the first start, where the configuration has no word about keys.

    Raises OSError, also where the file holds something that can be no key.
    """
    if settings.server.api_keys is not None:
        return None
    path = _path(settings)
    if not _kept(path):
        try:
            write_whole(path, f"hf-{secrets.token_urlsafe(32)}\n".encode())
        except OSError as error:
            raise OSError(
                f"cannot make the first API key in {path}: {error.strerror}; free some space, or check that "
                "this user may write there, and start Holdfast again"
            ) from error
    return _kept(path)


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
    return _kept(_path(settings))


def _kept(path: Path) -> str:
    """The key that is kept there; empty if there is none, as after a start that a full disk ended."""
    try:
        key = path.read_bytes()[:KEY_BYTES_MAX].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    if format_error("key", key) or 0 < len(key) < KEY_CHARS_MIN:
        raise OSError(f"{path} holds no whole key; remove it, and the next start makes one")
    return key


def _path(settings: Settings) -> Path:
    return settings.data_dir / "api-key"
