"""How each kind of id is made, and the prefixes that tell them apart."""

import re
from os import urandom

_APPROVAL, _GRANT, _CLIENT_TOOLS = "apr_", "gra_", "cts_"
_CLIENT_CALL = re.compile(r"call_([0-9a-f]{24})_([0-9]{1,4})")


def token_hex(size_bytes: int) -> str:
    """Random bytes in hexadecimal, from the source that `secrets` uses, by a shorter way."""
    return urandom(size_bytes).hex()


def new_session_id() -> str:
    """The id of a session that the client didn't name."""
    return f"ses_{token_hex(12)}"


def new_epoch() -> str:
    """What distinguishes a session from an earlier one with the same id."""
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
