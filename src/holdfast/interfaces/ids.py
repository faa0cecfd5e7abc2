"""How each kind of id is made, and the prefixes that tell them apart."""

from secrets import token_hex

_APPROVAL, _GRANT = "apr_", "gra_"


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


def grant_of_approval(approval_id: str) -> str:
    """The id of the grant that an approval creates, always the same for the same approval."""
    return _GRANT + approval_id.removeprefix(_APPROVAL)


def approval_of_grant(grant_id: str) -> str:
    """The id of the approval that created a grant."""
    return _APPROVAL + grant_id.removeprefix(_GRANT)
