"""The dependencies of the routes."""

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from holdfast.agent.deps import AgentDeps
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Store
from holdfast.redaction import Redactor
from holdfast.runner.inbox import Inbox
from holdfast.runner.session_modes import SessionModes
from holdfast.runner.supervisor import Supervisor
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.budgets import KeyBudgets, UploadQuota
from holdfast.server.access.modes import ModeAccess
from holdfast.server.access.request_secrets import request_redactor
from holdfast.server.access.tickets import Tickets
from holdfast.server.access.workspaces import WorkspaceAccess
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.peers import Peers
from holdfast.server.sessions.listing import ReadMarks
from holdfast.server.streams.feeds import SessionListChanges
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.stream import Streams

if TYPE_CHECKING:
    from holdfast.server.access.middleware import AccessMiddleware

_Part = TypeVar("_Part")


class RouteDeps(Struct, frozen=True):
    """One of each, made with the application; all routes share them."""

    agent: AgentDeps
    supervisor: Supervisor
    inbox: Inbox
    folds: Folds
    streams: Streams
    keys: KeyRing
    sign_ins: SignIns
    tickets: Tickets
    options: ServerOptions
    marks: ReadMarks
    metrics: Metrics
    budgets: KeyBudgets
    peers: Peers
    workspaces: WorkspaceAccess
    modes: SessionModes
    mode_access: ModeAccess
    uploads: UploadQuota
    # None: not ready. UNREAD is there until it's known which there are.
    mounts: "dict[str, AccessMiddleware | None]" = field(default_factory=dict[str, Any])
    list_changes: SessionListChanges = field(default_factory=SessionListChanges)
    _singletons: dict[type[Any], Any] = field(default_factory=dict[type[Any], Any])

    def singleton(self, kind: type[_Part]) -> _Part:
        """Return the server's one object of a feature's class, made on first use."""
        return self._singletons.setdefault(kind, kind())

    @property
    def store(self) -> Store:
        """Everything that is kept."""
        return self.agent.store

    @property
    def redactor(self) -> Redactor:
        """Return the redactor of the current request."""
        return request_redactor(self.agent.secrets)

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        return self.agent.clock

    async def put_images_inline(self, value: object, *, param: str) -> None:
        """Fetch the images that messages name by their addresses; raises a Problem.

        A server that fetches none leaves the addresses, and the messages are refused with them.
        """
        if self.options.images is not None:
            bytes_max = self.limits.body_bytes_max
            await self.options.images.put_inline(value, param=param, bytes_max=bytes_max)

    @property
    def limits(self) -> Limits:
        """Limits on what one client may send or hold."""
        return self.options.limits
