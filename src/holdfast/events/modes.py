"""Events that set a session's permission mode."""

from typing import Literal, TypeAlias

from holdfast.events.bases import Input
from holdfast.values import ApprovalMode, mode_named


class SessionModeSet(Input, frozen=True, kw_only=True, tag="session.mode_set"):
    """A person set the session's permission mode. An empty mode means the configured one.

    `allow-workspace`, now called `workspace`, applies to `workspace` or, if that's empty, to the workspace of
    the last started run.
    """

    mode: Literal["", "ask", "allow-workspace", "unattended"] = ""
    by: str = ""
    workspace: str | None = None


class PermissionModeSet(Input, frozen=True, kw_only=True, tag="session.mode_set/2"):
    """The same, for modes that `session.mode_set` can't name.

    `edits` and `workspace` apply to `workspace` or, if that's empty, to the workspace of the last started
    run.
    """

    mode: Literal["", ApprovalMode] = ""
    by: str = ""
    workspace: str | None = None


ModeSet: TypeAlias = SessionModeSet | PermissionModeSet


def mode_set(
    mode: Literal["", ApprovalMode], *, at_ms: int, by: str, workspace: str | None = None
) -> ModeSet:
    """Build the event that sets the mode, in the oldest version that can name it.

    So a server that's being updated can still set the modes that older servers know.
    """
    if mode == "plan" or mode == "edits":  # noqa: PLR1714  # type checkers follow it
        return PermissionModeSet(at_ms=at_ms, mode=mode, by=by, workspace=workspace)
    known = "allow-workspace" if mode == "workspace" else mode
    return SessionModeSet(at_ms=at_ms, mode=known, by=by, workspace=workspace)


def mode_of(event: ModeSet) -> Literal["", ApprovalMode]:
    """Return the mode that the event sets."""
    return mode_named(event.mode)
