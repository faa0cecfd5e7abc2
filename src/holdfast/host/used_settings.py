"""Digests of a running server's settings, so that commands can detect differences."""

import os
import secrets
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.config.load import Loaded
from holdfast.config.settings import Settings
from holdfast.config.sources import KeyPath, dotted
from holdfast.tools.files.regular_files import read_regular

FILE_NAME = "settings-in-use.json"
BYTES_MAX = 256 * 1024
# Each command has its own data directory, and sends its workspace to the server.
PER_COMMAND = frozenset({"server.data_dir", "agent.workspace"})
# A server's flags aren't repeated for other commands, and model servers on this machine come and go.
_TRANSIENT = frozenset({"flag", "local server"})


class _Used(msgspec.Struct):
    """A digest for each setting. The salt prevents lookups in precomputed tables."""

    salt: str
    settings: dict[str, str]


def save_used_settings(loaded: Loaded) -> None:
    """Save digests of the server's settings; raises OSError."""
    salt = secrets.token_hex(16)
    body = msgspec.json.encode(_Used(salt, _digests(loaded, salt)))
    path = loaded.settings.data_dir / FILE_NAME
    beside = path.with_suffix(f".{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def changed_settings(loaded: Loaded) -> list[str]:
    """The settings of this configuration that differ from those of the running server."""
    used = _read(loaded.settings.data_dir / FILE_NAME)
    if used is None:
        return []
    own = _digests(loaded, used.salt)
    return [name for name in own if name in used.settings and own[name] != used.settings[name]]


def _read(path: Path) -> _Used | None:
    try:
        return msgspec.json.decode(read_regular(path, bytes_max=BYTES_MAX), type=_Used)
    except (OSError, msgspec.MsgspecError):
        return None  # a server of an earlier version, or a full disk


def _digests(loaded: Loaded, salt: str) -> dict[str, str]:
    return {
        dotted(path): _digest(value, salt)
        for path, value in _values(loaded.settings).items()
        if dotted(path) not in PER_COMMAND and not _is_transient(loaded, path)
    }


def _digest(value: object, salt: str) -> str:
    encoded = msgspec.json.encode(value, enc_hook=str, order="deterministic")
    return blake2b(encoded, key=salt.encode(), digest_size=8).hexdigest()


def _is_transient(loaded: Loaded, path: KeyPath) -> bool:
    places: tuple[KeyPath, ...] = (path, (*path, 0), (*path, 0, "model"))
    return any(loaded.sources.of(place).kind in _TRANSIENT for place in places)


def _values(settings: Settings) -> dict[KeyPath, object]:
    """Each setting by its path; a list of tables is one setting."""
    found: dict[KeyPath, object] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            found |= {(name, inner): getattr(value, inner) for inner in value.__struct_fields__}
        else:
            found[name,] = value
    return found
