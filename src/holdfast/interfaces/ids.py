"""How each kind of id is made, the prefixes that tell them apart, and the ids of the current work."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from hashlib import sha256
from os import urandom
from types import MappingProxyType

from msgspec import Struct

from holdfast.catalog import LOG_PREFIXES

_APPROVAL, _GRANT, _CLIENT_TOOLS = "apr_", "gra_", "cts_"
CODE_CHARS = 8
CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that people mistake for another
WEBHOOKS_LOG = "chn_webhooks"  # the outbox of results that are posted to other programs
_CHANNEL = "chn_"
_CLIENT_CALL = re.compile(r"call_([0-9a-f]{24})_([0-9]{1,4})")


def token_hex(size_bytes: int) -> str:
    """Random bytes in hexadecimal, from the source that `secrets` uses, by a shorter way."""
    return urandom(size_bytes).hex()


def new_session_id() -> str:
    """The id of a session that the client didn't name."""
    return f"ses_{token_hex(12)}"


def channel_log_id(name: str) -> str:
    """The id of the log of the channel with this name."""
    return f"{_CHANNEL}{name}"


def channel_name(log_id: str) -> str:
    """The name of the channel with this log."""
    return log_id.removeprefix(_CHANNEL)


def delivery_place(text: str) -> tuple[str, str]:
    """The log of the channel that delivers there, and the chat; CHANNEL:CHAT, or an https address."""
    if text.startswith("https://"):
        return WEBHOOKS_LOG, text
    channel, _, chat = text.partition(":")
    return channel_log_id(channel), chat


def new_pairing_code() -> str:
    """A code that someone can type: 40 bits, and five tries."""
    return "".join(CODE_LETTERS[byte % len(CODE_LETTERS)] for byte in urandom(CODE_CHARS))


def derived_session_id(*of: str) -> str:
    """The id of a session that something is about, always the same for the same thing."""
    return f"ses_{sha256('/'.join(of).encode()).hexdigest()[:24]}"


def is_automation(log_id: str) -> bool:
    """Whether the id is that of a log of something that acts by itself, and so of no session."""
    return log_id.startswith(LOG_PREFIXES)


def new_epoch() -> str:
    """Return an id that distinguishes a session from an earlier one with the same id."""
    return token_hex(8)


def new_message_id() -> str:
    """The id of a message."""
    return f"msg_{token_hex(12)}"


def new_run_id() -> str:
    """The id of a run."""
    return f"run_{token_hex(16)}"


def new_call_id() -> str:
    """The id of a model call, or of a tool call that came without one."""
    return f"call_{token_hex(12)}"


def new_attempt_id() -> str:
    """The id of an attempt."""
    return f"att_{token_hex(12)}"


def new_approval_id() -> str:
    """The id of a requested approval."""
    return f"{_APPROVAL}{token_hex(12)}"


def new_question_id() -> str:
    """The id of a question to a person."""
    return f"que_{token_hex(12)}"


def new_undo_id() -> str:
    """The id of an undo."""
    return f"und_{token_hex(12)}"


def new_client_tools_id() -> str:
    """The id of a request for a client to run its own tools."""
    return f"{_CLIENT_TOOLS}{token_hex(12)}"


class ChildIds(Struct, frozen=True):
    """The ids of a sub-agent: its session, the message with its task, and the run for that."""

    session_id: str
    message_id: str
    run_id: str


def child_ids(effect_key: str) -> ChildIds:
    """The ids of the sub-agent that a tool call makes, always the same for the same call."""
    digest = sha256(f"child {effect_key}".encode()).hexdigest()
    return ChildIds(f"ses_{digest[:24]}", f"msg_{digest[:24]}", f"run_{digest[:32]}")


def message_of(effect_key: str) -> str:
    """The id of the message that a tool call sends, always the same for the same call."""
    return f"msg_{sha256(effect_key.encode()).hexdigest()[:24]}"


def client_call_id(client_tools_id: str, position: int) -> str:
    """The id under which the client knows one of its calls; it leads back to the request."""
    return f"call_{client_tools_id.removeprefix(_CLIENT_TOOLS)}_{position}"


def client_tools_of_call(call_id: str) -> tuple[str, int] | None:
    """The request that a client's call belongs to, and the call's position; None for an id from elsewhere."""
    found = _CLIENT_CALL.fullmatch(call_id)
    return (_CLIENT_TOOLS + found[1], int(found[2])) if found else None


def grant_of_approval(approval_id: str) -> str:
    """The id of the grant that an approval creates, always the same for the same approval."""
    return _GRANT + approval_id.removeprefix(_APPROVAL)


def approval_of_grant(grant_id: str) -> str:
    """The id of the approval that created a grant."""
    return _APPROVAL + grant_id.removeprefix(_GRANT)


_NONE: Mapping[str, str] = MappingProxyType({})
_current: ContextVar[Mapping[str, str]] = ContextVar("holdfast_ids", default=_NONE)


def begin_work(**ids: str) -> None:
    """From here on, this task and those that it starts work for this request, session or run, in logs."""
    _current.set(ids)


def current_ids() -> Mapping[str, str]:
    """Return the ids that the current task works for, by their kind."""
    return _current.get()
