"""What can be configured: every table and key of holdfast.toml with its default and its one sentence."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from holdfast.messages import ANSWER_BYTES_MAX
from holdfast.policy.verdicts import RuleVerdict
from holdfast.targets import Patience, RetryLimits, Target, Wire
from holdfast.values import ApprovalMode, Budget, Durability, OnExpiry, OnRestart

# What a text stands for, where its type alone does not say.
TextFormat: TypeAlias = Literal[
    "",
    "host",
    "host name",
    "name",
    "origin",
    "path",
    "proxy",
    "url",
    "url with query",
    "text or file",
    "key",
    "header",
    "variable",
]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

AtLeast0: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
AtLeast1: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Secret(str):
    """A text for which no repr, log line or traceback has a place; `str(secret)` is the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        """See the class."""
        return "Secret('…')" if self else "Secret('')"


def doc(sentence: str, meaning: TextFormat = "") -> msgspec.Meta:
    """The sentence of a key, for the reference, and what its text stands for."""
    return msgspec.Meta(description=sentence, extra={"meaning": meaning})


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.limits]: what one client may ask for."""

    body_bytes_max: Annotated[AtLeast1, doc("Largest request body.")] = 10_000_000
    json_depth_max: Annotated[AtLeast1, doc("Deepest nesting of a request's JSON.")] = 64
    content_parts_max: Annotated[AtLeast1, doc("Most content parts of one message.")] = 1_000
    queued_runs_max: Annotated[
        AtLeast0, doc("Most runs that wait for a free place; a further one is told to come back later.")
    ] = 1_000
    subscribers_max: Annotated[AtLeast1, doc("Most event streams open at once.")] = 1_000
    header_s: Annotated[Seconds, doc("How long a client may take to send a request's head; 0 is off.")] = 10.0
    body_s: Annotated[Seconds, doc("How long a client may be silent while it sends a body; 0 is off.")] = 30.0


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server]: where the server listens, who may come in, and where everything is kept."""

    host: Annotated[
        str, doc("The address to listen on; any other than loopback needs a configured key.", "host")
    ] = "127.0.0.1"
    port: Annotated[Port, doc("The port to listen on; 0 picks a free one.")] = 8642
    hosts: Annotated[
        tuple[str, ...],
        doc(
            "Further names that the server is called by; a request for any other name is refused. One that "
            "listens on every address is called by each of them.",
            "host name",
        ),
    ] = ()
    data_dir: Annotated[str, doc("Where the database, blobs, key and lock are kept.", "path")] = (
        "~/.local/share/holdfast"
    )
    api_keys: Annotated[
        tuple[Secret, ...] | None,
        doc("Who may come in; absent: a key is made at first start; empty: everyone on this machine.", "key"),
    ] = None
    cors_origins: Annotated[
        tuple[str, ...], doc("Web pages of other origins that may call the API; * is all of them.", "origin")
    ] = ()
    max_concurrent_runs: Annotated[AtLeast1, doc("Most runs at work at once; further ones wait.")] = 64
    on_restart: Annotated[OnRestart, doc("What happens to a run that a crash or a restart cut off.")] = (
        "resume"
    )
    drain_s: Annotated[
        Seconds, doc("How long runs may go on to a safe point after the first signal to end; 0: not at all.")
    ] = 10.0
    durability: Annotated[
        Durability, doc("What an event survives: a power cut, or only the end of the process (faster).")
    ] = "power"
    keep_deltas_days: Annotated[
        AtLeast0,
        doc(
            "How long the pieces in which an answer came are kept apart once the run is over; 0: for ever. "
            "Nothing of its text goes."
        ),
    ] = 30
    spool_dir: Annotated[
        str,
        doc(
            "Where output is kept while the database cannot take it, a directory for nothing else; "
            "empty: inside data_dir.",
            "path",
        ),
    ] = ""
    limits: LimitSettings = LimitSettings()


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[log]: the log file, which always has every line, and what is printed."""

    file: Annotated[str, doc("The log file, rotated; empty: holdfast.log in data_dir.", "path")] = ""
    level: Annotated[LogLevel, doc("From which level on a line is printed, too.")] = "info"


class PatienceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.patience]: how many seconds of silence each state of an attempt may last; 0 is off."""

    connect_s: Annotated[Seconds | None, doc("Until the connection stands.")] = None
    upload_s: Annotated[Seconds | None, doc("Without a byte of the request being taken.")] = None
    first_event_s: Annotated[Seconds | None, doc("Until the first event of any kind.")] = None
    first_event_cap_s: Annotated[
        Seconds | None, doc("The most that size and learning may raise first_event_s to.")
    ] = None
    first_progress_s: Annotated[Seconds | None, doc("From the first event to the first output.")] = None
    gap_s: Annotated[Seconds | None, doc("Between two pieces of output.")] = None
    strict: Annotated[bool, doc("Whether first_event_s holds for large requests too.")] = False


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.retry]: how often one call may try, and for how long if nobody is there."""

    attempts_max: Annotated[
        AtLeast1, doc("Most attempts of one call on all targets; the default target's number counts.")
    ] = 5
    attempts_per_target_max: Annotated[AtLeast1, doc("Most attempts of one call on one target.")] = 3
    unreachable_s: Annotated[
        Seconds,
        doc(
            "How long a target is tried again while nobody answers at its address; this uses up no attempts. "
            "A target that has never answered gets at most 10 s, one with a fallback elsewhere 5 s."
        ),
    ] = 60.0
    unreachable_resumed_s: Annotated[
        Seconds,
        doc("The same in a run that goes on after a crash or a restart: the model may come back later."),
    ] = 300.0
    backoff_base_s: Annotated[
        Seconds, doc("The wait before a second attempt, doubled for each further one.")
    ] = 1.0
    backoff_max_s: Annotated[Seconds, doc("The longest such wait.")] = 20.0
    hedge: Annotated[
        bool,
        doc("Whether the next target is asked as well when half of the first-event patience has passed."),
    ] = False


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[targets]]: the models to ask; the first is the default, the rest are fallbacks in order."""

    name: Annotated[str, doc("What the target is called here.", "name")]
    wire: Annotated[
        Wire, doc("The protocol: OpenAI Responses, OpenAI Chat Completions or Anthropic Messages.")
    ]
    base_url: Annotated[str, doc("The endpoint, without the path of the single call.", "url")]
    model: Annotated[str, doc("The model, as the endpoint calls it.", "name")]
    api_key: Annotated[Secret, doc("The key; a local server may want none.", "key")] = Secret("")
    context_window: Annotated[AtLeast1, doc("How many tokens the model takes in at once.")] = 200_000
    headers: Annotated[dict[str, Secret], doc("Further headers of every request.", "header")] = {}
    proxy: Annotated[
        Secret | None,
        doc(
            "The HTTP proxy on the way, http://USER:PASSWORD@HOST:PORT; absent: as HTTPS_PROXY, HTTP_PROXY, "
            "ALL_PROXY and NO_PROXY say, and none to this machine; empty: none.",
            "proxy",
        ),
    ] = None
    patience: PatienceSettings = PatienceSettings()
    retry: RetrySettings = RetrySettings()

    def target(self) -> Target:
        """The target as the model calls know it."""
        return Target(
            name=self.name,
            wire=self.wire,
            base_url=self.base_url,
            model=self.model,
            api_key=str(self.api_key),
            context_window=self.context_window,
            headers={name: str(value) for name, value in self.headers.items()},
            proxy=str(self.proxy or ""),
            patience=Patience(**msgspec.structs.asdict(self.patience)),
            retry=RetryLimits(**msgspec.structs.asdict(self.retry)),
        )


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent.budget]: what one run may use up; 0 is no limit."""

    tokens: Annotated[AtLeast0, doc("Most tokens, read and written.")] = 0
    cost_usd: Annotated[Amount, doc("Most dollars, as far as the price is known.")] = 0.0
    minutes: Annotated[Amount, doc("Most minutes of work, without waiting for people.")] = 0.0


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent]: what every run starts with."""

    instructions: Annotated[
        str,
        doc(
            "What the model is told first, or file:PATH; AGENTS.md of the workspace is added.", "text or file"
        ),
    ] = ""
    workspace: Annotated[str, doc("The directory that runs work in.", "path")] = "."
    turns_max: Annotated[AtLeast0, doc("Most model answers of one run; 0 is no limit.")] = 100
    answer_bytes_max: Annotated[
        AtLeast1,
        doc(
            "Most bytes of one model answer: text, reasoning and tool arguments. Past it the run is cut off."
        ),
    ] = ANSWER_BYTES_MAX
    budget: BudgetSettings = BudgetSettings()

    def run_budget(self) -> Budget:
        """What a run may use up, turns included."""
        budget = self.budget
        return Budget(
            tokens=budget.tokens, cost_usd=budget.cost_usd, turns=self.turns_max, minutes=budget.minutes
        )


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[approvals.rules]]: which actions run unasked, ask, or never run; each says exactly one of these."""

    allow: Annotated[str, doc("The tool whose fitting actions run unasked.", "name")] = ""
    ask: Annotated[str, doc("The tool whose fitting actions always ask.", "name")] = ""
    deny: Annotated[str, doc("The tool whose fitting actions never run.", "name")] = ""
    argv: Annotated[
        tuple[str, ...],
        doc("The words that a fitting command begins with; allow covers only harmless words behind them."),
    ] = ()
    exact: Annotated[bool, doc("Whether an allowed command has the words of argv and no others.")] = False
    paths: Annotated[
        tuple[str, ...],
        doc(
            "The paths that a fitting action may touch; "
            "deny and ask also fit a search or listing from above.",
            "path",
        ),
    ] = ()
    host: Annotated[str, doc("The host that a fitting action calls.", "host name")] = ""

    @property
    def verdict(self) -> RuleVerdict:
        """Which of the three it is."""
        return "allow" if self.allow else "ask" if self.ask else "deny"

    @property
    def tool(self) -> str:
        """The tool that the rule is about."""
        return self.allow or self.ask or self.deny


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[approvals]: when a person is asked, and what silence means (never consent)."""

    mode: Annotated[
        ApprovalMode,
        doc("Ask for all that changes something, allow it inside the workspace, or ask nobody and deny."),
    ] = "ask"
    expires_s: Annotated[AtLeast0, doc("How long a question stays open; 0: until it is answered.")] = 86_400
    on_expiry: Annotated[
        OnExpiry, doc("Whether a run goes on without the action, or ends, when nobody answered.")
    ] = "continue"
    rules: tuple[RuleSettings, ...] = ()


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[mcp_servers]]: servers of further tools, either started by a command or called at a URL."""

    name: Annotated[str, doc("What the server is called here; its tools carry it as a prefix.", "name")]
    command: Annotated[tuple[str, ...], doc("The program to start and its arguments.")] = ()
    url: Annotated[str, doc("Where a running server is.", "url with query")] = ""
    env: Annotated[dict[str, Secret], doc("Environment variables of the started program.", "variable")] = {}
    headers: Annotated[dict[str, Secret], doc("Further headers of every request to the URL.", "header")] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    targets: tuple[TargetSettings, ...] = ()
    agent: AgentSettings = AgentSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    mcp_servers: tuple[McpServerSettings, ...] = ()

    @property
    def data_dir(self) -> Path:
        """Where everything is kept."""
        return Path(self.server.data_dir)

    @property
    def store_path(self) -> Path:
        """The SQLite file that holds every session."""
        return self.data_dir / "holdfast.db"

    @property
    def spool_dir(self) -> Path:
        """Where output waits for the database."""
        return Path(self.server.spool_dir) if self.server.spool_dir else self.data_dir / "spool"

    @property
    def workspace(self) -> Path:
        """The directory that runs work in: that of the command, unless another is named."""
        return Path(self.agent.workspace).absolute()

    @property
    def log_file(self) -> Path:
        """Where the log is written."""
        return Path(self.log.file) if self.log.file else self.data_dir / "holdfast.log"

    def model_targets(self) -> tuple[Target, ...]:
        """The targets as the model calls know them, the default first; none means the demo model."""
        return tuple(map(TargetSettings.target, self.targets))
