"""The permission modes that a caller can set."""

from collections.abc import Sequence
from typing import Literal

from holdfast.folds.session import Session
from holdfast.runner.session_modes import SessionModes
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.caller import KEY_SCOPES, caller_name, check_scope
from holdfast.server.problems import Problem
from holdfast.values import MODES, ApprovalMode, asks_less

_STRICTEST = MODES[0]


class ModeAccess:
    """Any key can set the strictest mode. The others need the scope `approve`.

    Keys from `holdfast keys add` can't exceed `mode_max`. There's no check against the session's current
    mode: it would race with a change of that mode.
    """

    def __init__(self, keys: KeyRing, mode_max: ApprovalMode) -> None:
        self._keys = keys
        self._mode_max: ApprovalMode = mode_max

    def check(self, mode: ApprovalMode) -> None:
        """Raise a Problem unless the caller can set the mode."""
        if mode == _STRICTEST:
            return
        check_scope({KEY_SCOPES: self._keys.scopes_of(caller_name())}, "approve")
        if mode not in self.allowed():
            raise Problem(
                403,
                f"This key can't set the mode '{mode}': approvals.mode_max is '{self._mode_max}'. Use a key "
                "of the server's configuration, or change the setting",
                code="mode_not_allowed",
                param="mode",
            )

    def check_command(self) -> None:
        """Raise a Problem unless the caller can run shell commands: who types one approves it."""
        check_scope({KEY_SCOPES: self._keys.scopes_of(caller_name())}, "approve")

    async def check_in(self, session_id: str, mode: ApprovalMode, modes: SessionModes) -> None:
        """Raise a Problem unless the caller can set the mode, and the session can have it."""
        self.check(mode)
        limit = await modes.limit(await modes.inbox.state(session_id)) if session_id else mode
        if asks_less(mode, limit):
            raise Problem(
                403,
                f"A sub-agent can't have a looser mode than its parent, which is in '{limit}'. Change the "
                "parent's mode first",
                code="mode_not_allowed",
                param="mode",
            )

    async def of_fork(self, source: Session, modes: SessionModes) -> Literal["", ApprovalMode]:
        """Return the loosest mode of a fork that the caller makes.

        It's the mode of the source now, or the configured one if that's stricter and the caller can't set
        the other.
        """
        mode = await modes.limited(source)
        named = modes.named(mode)
        is_allowed = named in self.allowed() or not asks_less(named, modes.named(""))
        return mode if is_allowed else ""

    def allowed(self) -> Sequence[ApprovalMode]:
        """Return the modes that the caller can set, strictest first."""
        name = caller_name()
        if "approve" not in self._keys.scopes_of(name):
            return (_STRICTEST,)
        is_owner = self._keys.is_open or name in self._keys.configured
        return [mode for mode in MODES if is_owner or not asks_less(mode, self._mode_max)]
