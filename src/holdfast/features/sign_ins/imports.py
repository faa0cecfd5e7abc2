"""Sign-ins of other programs: the Codex CLI's auth.json, and that of hermes-agent. They are only read."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec

from holdfast.features.sign_ins.issuer import claims_of, life_of
from holdfast.features.sign_ins.tokens import BYTES_MAX, Tokens, expiry_ms

AUTH_CLAIM, ACCOUNT = "https://api.openai.com/auth", "chatgpt_account_id"


class NotImportable(Exception):
    """The file has no sign-in that can be used; the text says why."""


def codex_file(environ: Mapping[str, str]) -> Path:
    """Where the Codex CLI keeps its sign-in."""
    home = environ.get("CODEX_HOME", "").strip()
    return (Path(home) if home else Path.home() / ".codex") / "auth.json"


def read_codex(path: Path, *, now_ms: int) -> Tokens:
    """The sign-in of the Codex CLI; raises NotImportable. Blocks."""
    try:
        with path.open("rb") as file:
            found = _table(msgspec.json.decode(file.read(BYTES_MAX + 1)))
    except OSError as error:
        raise NotImportable(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotImportable(f"{path}: it isn't JSON") from error
    return codex_tokens(found, now_ms=now_ms)


def codex_tokens(found: Mapping[str, object], *, now_ms: int) -> Tokens:
    """The tokens of Codex in such a file, or in the entry `openai-codex` of hermes-agent's auth.json."""
    table = _table(found.get("tokens"))
    access, renewing = _text(table.get("access_token")), _text(table.get("refresh_token"))
    if not (access and renewing):
        raise NotImportable("it has no ChatGPT sign-in with a refresh token; an API key isn't a sign-in")
    account = _text(table.get("account_id")) or _account(_text(table.get("id_token"))) or _account(access)
    issued_ms = _moment_ms(found.get("last_refresh"), now_ms)
    life_s = life_of(claims_of(access))
    # Without its life, a token is renewed before its first use.
    expires_ms = issued_ms if life_s is None else expiry_ms(issued_ms, life_s)
    return Tokens(
        access_token=access,
        refresh_token=renewing,
        account=account,
        issued_ms=issued_ms,
        expires_ms=expires_ms,
    )


def nous_tokens(found: Mapping[str, object]) -> Tokens:
    """The tokens in the entry `nous` of hermes-agent's auth.json, to be renewed before their first use."""
    renewing = _text(found.get("refresh_token"))
    if not renewing:
        raise NotImportable("it has no refresh token")
    return Tokens(refresh_token=renewing)


def _account(token: str) -> str:
    return _text(_table(claims_of(token).get(AUTH_CLAIM)).get(ACCOUNT))


def _moment_ms(value: object, now_ms: int) -> int:
    try:
        moment = datetime.fromisoformat(_text(value))
        return min(now_ms, int(1000 * moment.timestamp()))
    except (ValueError, OverflowError):
        return now_ms


def _table(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
