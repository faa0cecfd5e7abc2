"""The contract of a feature: everything it adds to the program, as data.

A feature is a folder in `holdfast/features`. Its `__init__.py` declares one `Feature` and imports nothing
else of the folder. The core knows features only through `catalog.py`: delete a folder, and the rest works.
"""

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from holdfast.agent.asks import Asks
    from holdfast.agent.deps import AgentDeps
    from holdfast.agent.runlog import RunLog
    from holdfast.agent.running_call import RunningCall
    from holdfast.agent.shared_fold import SharedFold
    from holdfast.cli.chat.conversation import ChatScreen
    from holdfast.cli.doctor.findings import DoctorFinding
    from holdfast.config.settings import Settings
    from holdfast.events import Event, RunEvent, ToolAsked
    from holdfast.folds.entries import Entry
    from holdfast.folds.run import Run
    from holdfast.folds.run_view import RunView
    from holdfast.folds.session import Session
    from holdfast.interfaces.clock import Clock
    from holdfast.interfaces.journal import ReadableStore, Record, Store
    from holdfast.interfaces.tool import Tool, ToolResult
    from holdfast.journal.sqlite.integrity import Checked
    from holdfast.messages import Message, ToolSpec
    from holdfast.redaction import Redactor
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.tools.registry import Registry
    from holdfast.values import Outcome, RunSettings

SessionTools: TypeAlias = "Callable[[str], Sequence[Tool]]"
InLoopTool: TypeAlias = "Callable[[ToolAsked], Awaitable[ToolResult]]"
# It gets the tools of the run, too.
RecordedTool: TypeAlias = "Callable[[ToolAsked, RunningCall, Registry], Awaitable[ToolResult]]"


class FeatureContext(Struct, frozen=True):
    """The inputs of a feature's tools and resources. The store removes secrets from inputs."""

    settings: "Settings"
    store: "Store"
    clock: "Clock"
    secrets: "Redactor"  # what texts are cleaned of; a feature that gets further secrets adds them
    config: Path | None = None  # the file that the settings come from


class ToolsContext(Struct, frozen=True):
    """The inputs of a feature's session tools."""

    settings: "Settings"
    clock: "Clock"
    environment: Mapping[str, str]  # of child processes, without secrets
    kept_out: tuple[str, ...]  # paths that no tool opens
    sandbox: "Callable[[], Sandbox]"  # blocks until it's tested
    connect_s: float = 0.0  # how long to wait until all servers are connected; 0: they connect meanwhile


class DoctorContext(Struct, frozen=True):
    """The inputs of a feature's checks. While offline, they call no other program."""

    settings: "Settings"
    workspace: Path
    clock: "Clock"
    is_offline: bool


class RunContext(Struct, frozen=True):
    """The run: its state, log and asks, and the dependencies of all runs."""

    view: "SharedFold"
    log: "RunLog"
    asks: "Asks"
    deps: "AgentDeps"  # `deps.features` has what the features keep open


class ContextPart(Struct, frozen=True):
    """Text for the model besides the conversation. The name identifies it in later runs of the session."""

    name: str
    text: str
    sources: tuple[str, ...] = ()  # the outside content in it, as `context.read` lists it


class ContextRequest(Struct, frozen=True):
    """The run that begins or resumes, for a feature's context."""

    view: "SharedFold"
    log: "RunLog"
    deps: "AgentDeps"
    workspace: Path


class ContextReader(Protocol):
    """A feature's context of one run, from files. Concurrent runs with equal keys share one read."""

    @property
    def key(self) -> Hashable:
        """Everything that the read depends on besides the workspace."""
        ...

    def read(self, *, trusted: bool) -> Any:
        """Read the files. `trusted`: no command created protected files. Blocks."""
        ...

    def parts(self, found: Any) -> Sequence[ContextPart]:
        """Return the parts, in order, from what was read for this run or for another one."""
        ...


class Continue(Struct, frozen=True):
    """The run doesn't end: these events are appended, and the model is called again."""

    events: "Sequence[RunEvent]"


class AgentChoice(Struct, frozen=True):
    """The named agent of a run, and the run's other settings."""

    name: str
    settings: "RunSettings"
    workspace: Path | None  # None: not the agents of a workspace


class UnusableAgent(Exception):
    """The named agent exists, but can't be used. The text is the reason."""


class FileEdit(Struct, frozen=True):
    """An edit that runs without approval if undo covers it: its files, and their greatest size afterwards."""

    paths: tuple[str, ...]
    bytes_max: int


class DeclaringRun(Struct, frozen=True):
    """A run before its next model call, and the tools that it has."""

    run: "Run"
    session: "Session"
    tools: "Registry"
    deps: "AgentDeps"


class RunHooks(Struct, frozen=True, kw_only=True):
    """A feature's hooks in every run. They run in catalog order, and may run again after a crash.

    Those that aren't async are pure functions, except `tools` and `recorded_tools`.
    """

    # Called when a run that answers begins or resumes. It may read logs, from a cache. The reader that it
    # returns reads in the thread that reads the workspace's instructions. The session's first run adds
    # the parts to the system text. A later run gets a note about each part that changed.
    context: "Callable[[ContextRequest], Awaitable[ContextReader | None]] | None" = None

    # Instructions for the model, from the run's settings, or empty.
    instructions: "Callable[[RunSettings], str] | None" = None

    # Makes the run read-only: the reason, which is the result of any other tool call, or empty. The declared
    # tools stay the same. The run's memories need a person's approval.
    only_reads: "Callable[[Run], str] | None" = None

    # How the feature's own tools are declared to the model now, of the tools that the run has: None for one
    # that it isn't offered. The tools that aren't named are declared as they are.
    declared_tools: "Callable[[DeclaringRun], Mapping[str, ToolSpec | None]] | None" = None

    # Called before a model call whose messages have attachments. It can record texts about them
    # (`FoldHooks.attachment_texts`), and returns whether it did.
    attachments: "Callable[[RunContext, Sequence[Message]], Awaitable[bool]] | None" = None

    # Tools that the agent loop carries out instead of `Tool.run`, by name: they use the log and asks.
    tools: "Callable[[RunContext], Mapping[str, InLoopTool]] | None" = None

    # Tools that use the log as well, but are judged and recorded like any other call. Their effects are on
    # logs, under the call's effect key, so none is unknown after a crash.
    recorded_tools: "Callable[[RunContext], Mapping[str, RecordedTool]] | None" = None

    # Called when a run begins or resumes, before its first model call. Return its outcome, or None to let it
    # work.
    begin: "Callable[[RunContext], Awaitable[Outcome | None]] | None" = None

    # Called directly before a tool call starts, after any approval. It can only tighten the verdict: return
    # why the call is denied, or empty.
    narrow: "Callable[[RunContext, ToolAsked], Awaitable[str]] | None" = None

    # Called with the result of a tool call that began, in the step that appends it.
    after_result: "Callable[[RunContext, ToolAsked, ToolResult], Awaitable[None]] | None" = None

    # Called when a run has an outcome, and again before it ends: then with the seconds it may take.
    ending: "Callable[[RunContext, Outcome, float | None], Awaitable[None]] | None" = None

    # Called before each tool call that isn't read-only, one at a time. Returns whether it can be undone. In
    # `edits`, also called with the edit, before its verdict.
    before_change: "Callable[[RunContext, FileEdit | None], Awaitable[bool]] | None" = None

    # Called after the tool calls of a turn, and when the run ends: then with the seconds it may take.
    after_turn: "Callable[[RunContext, float | None], Awaitable[None]] | None" = None

    # Called with the time when the model has finished, before its output is checked. Return None to let the
    # run end, another outcome, or Continue.
    may_end: "Callable[[Run, int], Outcome | Continue | None] | None" = None


class FoldHooks(Struct, frozen=True, kw_only=True):
    """The effects of a feature's events on the folds of a session. Pure.

    While a run is running or stopping, every `RunEvent` of a feature can follow any other event of the run.
    """

    # Steps of the run's state. A feature keeps its own state in `run.features`, under its name.
    run: "Mapping[type[Event], Callable[[Run, Any], None]]" = field(default_factory=dict[Any, Any])

    # Steps of the run's view for people: each may return an entry of the transcript.
    view: "Mapping[type[Event], Callable[[RunView, int, Any], Entry | None]]" = field(
        default_factory=dict[Any, Any]
    )

    # Events to keep in `Transcript.kept` with their seq, instead of a step in `view`. Rewinds remove them,
    # and a redo brings them back.
    kept: "Sequence[type[Event]]" = ()

    # Texts for the model beside an attachment, from events that name it (`blob`). The newest event counts,
    # and rewinds don't remove it.
    attachment_texts: "Mapping[type[Event], Callable[[Any], str]]" = field(default_factory=dict[Any, Any])

    # Text for the model after a summary of the conversation, from the kept events before it.
    after_summary: "Callable[[Sequence[Event]], str] | None" = None

    # Fields of a run in HTTP bodies (`TranscriptRun`).
    run_fields: "Callable[[Run], Mapping[str, Any]] | None" = None

    # Texts of events in the timeline.
    timeline: "Mapping[type[Event], Callable[[Any], str]]" = field(default_factory=dict[Any, Any])


class SlashCommand(Struct, frozen=True):
    """A slash command: its help text, and the "module:function" that runs it."""

    help: str
    run: str


class Expansion(Struct, frozen=True):
    """The message that a user's command stands for, and the settings of its run."""

    text: str
    model: str = ""
    plan_first: bool = False


class UserCommands(Struct, frozen=True):
    """Slash commands that users write themselves, for those that a chat doesn't know."""

    # In the terminal chat: the names and help texts, and the message for a command; None if there's none.
    listed: "Callable[[ChatScreen], Awaitable[Sequence[tuple[str, str]]]]"
    in_terminal: "Callable[[ChatScreen, str, str], Awaitable[Expansion | None]]"
    # In messengers, with the workspace, the command's name and its arguments.
    in_messenger: "Callable[[Path, str, str], Awaitable[Expansion | None]]"


class Upkeep(Struct, frozen=True):
    """What a feature, or the host, keeps of sessions outside the store, on this server."""

    forget: "Callable[[str], Awaitable[None]]"  # delete the data of a session that is being purged
    holds: "Callable[[str], bool]"  # whether there is data of the session; blocks
    drop_purged: "Callable[[], Awaitable[None]]"  # delete data of sessions that are purged by now
    collect: "Callable[[], Awaitable[float]]"  # free unused space; return the seconds until it's due again


class StoreBackend(Struct, frozen=True):
    """A kind of store that servers share."""

    # Opens the store, and its clock. `renewed` is called when a request that renewed the server's lease was
    # sent, with the time on the clock `steady_s`.
    open: "Callable[[Settings, Redactor, Callable[[float], None]], Awaitable[tuple[Store, Clock]]]"
    # Reads the store for checks; None if it's empty. Raises a JournalError.
    reader: "Callable[[Settings], AbstractAsyncContextManager[ReadableStore | None]]"
    # Findings of `holdfast doctor` about the store.
    check: "Callable[[Settings], Sequence[DoctorFinding]]"
    # Reads every log and blob as of one moment, for `holdfast store check`. The function says
    # why an event can't be applied. Raises a JournalError.
    verify: "Callable[[Settings, Callable[[Record], str]], Coroutine[Any, Any, Checked]]"
    # Copies the store as of one moment, while servers use it, to an SQLite store in a folder. Verified.
    # Raises a JournalError.
    back_up: "Callable[[Settings, Path], Coroutine[Any, Any, None]]"
    # Fills an empty store, which no server uses, from such a folder. Verified; a failure leaves it empty.
    restore: "Callable[[Settings, Path], Coroutine[Any, Any, None]]"


class Feature(Struct, frozen=True, kw_only=True):
    """A feature's parts, all optional. "module:name" is relative to the folder, and imported on first use."""

    name: str
    requires: tuple[str, ...] = ()  # features that this one can't work without

    # Its events: a tuple of types. They are decoded whether or not the feature is used.
    events: str = ""

    # The effects of its events on runs and transcripts: `FoldHooks`, imported with the folds.
    folds: str = ""

    # Its part in runs: `RunHooks`, imported with the agent loop.
    run: str = ""

    # Its events on each face: a mapping from event types to functions, imported with the face.
    # "terminal": `(renderer, event) -> str`; "acp": `(event) -> Update`; "ag_ui": `(event) -> AgUiEvent`;
    # "mcp": `(event) -> str`, the text of a progress notification.
    frames: Mapping[str, str] = field(default_factory=dict[str, str])

    # Fields of a session's newest page in HTTP bodies: `(transcript: Transcript) -> Mapping[str, object]`.
    session_fields: str = ""

    # HTTP: a tuple of `Operation`s, and the classes that answer them, by the first part of the endpoint. With
    # "triggers": "routes:TriggerRoutes", `triggers.list` is the method `list` of TriggerRoutes(RouteParts).
    operations: str = ""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])

    # Models besides the agents: a `ModelResolver` (server/model_names.py), made like a class of routes. It
    # answers OpenAI-compatible requests that name one of them.
    models: str = ""

    # Prometheus metrics, from its counters in `metrics.features`: `(metrics: Metrics) -> Iterable[Metric]`.
    metrics: str = ""

    # Owners of the feature's logs, by source: `async (log_id, fence, deps: RouteDeps) -> None`. A node runs
    # one for each log that it can claim.
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    # The tokens of targets with `auth`: `(context: FeatureContext) -> AsyncContextManager[Authorize]`. Opened
    # if there are such targets.
    authorize: str = ""

    # Its open resources, as `deps.features[name]` of agents: an async context manager
    # `(context: FeatureContext)`. It yields None if the feature is off.
    opened: str = ""

    # Whether it can undo a change of a file, for permission modes:
    # `(opened: Any, workspace: Path, path: str) -> bool`. Blocks.
    can_undo: str = ""

    # Finishes work that a crash interrupted, before runs resume: `async (deps: AgentDeps) -> None`. Called if
    # there are notes with the prefix `unfinished` of its catalog entry.
    recover: str = ""

    # Its data of sessions outside the store: `(deps: RouteDeps) -> Upkeep | None`.
    upkeep: str = ""

    # Sessions that it will write to again, so that retention keeps them:
    # `async (deps: RouteDeps) -> Collection[str]`. Called when a session is old enough to be deleted.
    sessions_in_use: str = ""

    # Named agents: `(opened: Any, choice: AgentChoice) -> RunSettings | None` returns the settings with
    # those of the agent, or None if there is no agent of this name. Raises UnusableAgent. Blocks.
    named_agent: str = ""

    # The agents that API clients can name as a model: `(opened: Any) -> Sequence[str]`. Blocks.
    agent_names: str = ""

    # Tools for every run: `(context: FeatureContext) -> Sequence[Tool]`.
    tools: str = ""

    # Tools that change while the server runs: `(context: ToolsContext) -> AsyncContextManager[SessionTools]`.
    # `AgentDeps.session_tools[name]` is called with a session's id before each use.
    session_tools: str = ""

    # Commands of `holdfast`, by name: a `typer.Typer` for a group, or a function (its first line is help).
    commands: Mapping[str, str] = field(default_factory=dict[str, str])

    # Commands of the terminal chat, such as "/undo": `async (chat: ChatScreen, text: str) -> None`.
    terminal_commands: Mapping[str, SlashCommand] = field(default_factory=dict[str, SlashCommand])

    # Shows the open proposals of a run in the terminal chat when the run ends:
    # `async (chat: ChatScreen, run_id: str) -> None`. Called if a tool's result names a proposal.
    terminal_proposals: str = ""

    # Commands in messenger chats, such as "undo", which return the reply:
    # `async (supervisor: Supervisor, session_id: str, *, text: str, by: str) -> str`.
    messenger_commands: Mapping[str, SlashCommand] = field(default_factory=dict[str, SlashCommand])

    # Commands that users write themselves: `UserCommands`.
    user_commands: str = ""

    # Checks of settings that are each valid, by section: `(table: Any) -> Iterator[ConfigIssue]`. Called for
    # each table of the section. Paths are relative to it.
    issues: Mapping[str, str] = field(default_factory=dict[str, str])

    # The settings for its routes: `(settings: Settings) -> Any`, stored in `deps.options.features[name]`, if
    # the section named like the feature isn't empty. Without this function, the section itself.
    configured: str = ""

    # Work beside the server until it's cancelled: `async (deps: RouteDeps, settings, runtime) -> None`.
    work: str = ""

    # The setting without which there are no resources, session tools or work, such as "telemetry.endpoint".
    # Empty: there always are.
    needs: str = ""

    # Its fields of /health/detailed: `async (deps: RouteDeps) -> Mapping[str, Any]`.
    health: str = ""

    # Findings of `holdfast doctor`: `async (context: DoctorContext) -> Sequence[DoctorFinding]`.
    doctor: str = ""

    # A store that servers share, used if `server.store` is set: `StoreBackend`.
    store: str = ""

    # Requests between the servers that share a store: a class like `Peers` (server/peers.py).
    peers: str = ""

    def is_used(self, settings: "Settings") -> bool:
        """Return whether the settings have what `needs` names."""
        return not self.needs or bool(attrgetter(self.needs)(settings))

    def part(self, name: str) -> Any:
        """Import a part by its "module:name"."""
        module, _, attribute = name.partition(":")
        return attrgetter(attribute)(import_module(f"holdfast.features.{self.name}.{module}"))

    def module(self, name: str) -> str:
        """Return the full name of the module that a part is in."""
        return f"holdfast.features.{self.name}.{name.partition(':')[0]}"
