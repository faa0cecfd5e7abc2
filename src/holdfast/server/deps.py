"""What the routes work with."""

from dataclasses import dataclass, field

from holdfast.agent.deps import AgentDeps
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Store
from holdfast.redaction import Redactor
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import Supervisor
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.budgets import KeyBudgets
from holdfast.server.access.request_secrets import request_redactor
from holdfast.server.access.tickets import Tickets
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.sessions.read_marks import ReadMarks
from holdfast.server.streams.feeds import SessionListChanges
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.stream import Streams


@dataclass(frozen=True, slots=True)
class RouteDeps:
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
    list_changes: SessionListChanges = field(default_factory=SessionListChanges)

    @property
    def store(self) -> Store:
        """Everything that is kept."""
        return self.agent.store

    @property
    def redactor(self) -> Redactor:
        """What removes the secrets that the current request must not leave behind."""
        return request_redactor(self.agent.secrets)

    @property
    def clock(self) -> Clock:
        """What time it is."""
        return self.agent.clock

    @property
    def limits(self) -> Limits:
        """Limits on what one client may send or hold."""
        return self.options.limits
