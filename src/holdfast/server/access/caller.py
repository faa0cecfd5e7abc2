"""The caller of a request and its scopes, stored in the ASGI scope by the middleware."""

from contextvars import ContextVar

from starlette.types import Scope as AsgiScope

from holdfast.api.operation import SCOPES, Operation, Scope
from holdfast.server.problems import Problem

KEY_NAME = "holdfast.key_name"  # never the key itself
KEY_SCOPES = "holdfast.scopes"
SIGN_IN = "holdfast.sign_in"  # the cookie that authenticated the request, if any
BY_TICKET = "holdfast.by_ticket"  # whether a ticket authenticated it

_caller: ContextVar[str] = ContextVar("holdfast_caller", default="")
begin_call = _caller.set  # from here on, the current request is one of this key


def caller_name() -> str:
    """The name of the key that makes the current request; empty outside of one."""
    return _caller.get()


def check_may_call(operation: Operation, asked: AsgiScope) -> None:
    """Raise a Problem unless the caller may do this; called before anything of the request is read."""
    if asked.get(BY_TICKET) and not operation.by_ticket:
        raise Problem(403, "Tickets work only for images and downloads", code="no_ticket_taken")
    held: frozenset[Scope] = asked.get(KEY_SCOPES, frozenset())
    needed = operation.scopes
    if needed and held.isdisjoint(needed):
        raise _missing(held, needed[0])


def check_scope(asked: AsgiScope, needed: Scope) -> None:
    """Raise a Problem unless the caller's key has this scope; for what only the body can tell."""
    held: frozenset[Scope] = asked.get(KEY_SCOPES, frozenset())
    if needed not in held:
        raise _missing(held, needed)


def _missing(held: frozenset[Scope], needed: Scope) -> Problem:
    has = ", ".join(one for one in SCOPES if one in held) or "none"
    why = " Keys created before Holdfast had a relay don't have it." if needed == "relay" else ""
    return Problem(
        403,
        f"This key lacks the scope '{needed}' (it has: {has}).{why} Use a key that has it, such as one from "
        f"`holdfast keys add NAME --scope {needed}`",
        code="missing_scope",
        param=needed,
    )
