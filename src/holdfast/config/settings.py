"""Every table and key of holdfast.toml, with its default and one sentence about it."""

from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Annotated, Literal, TypeAlias

import msgspec

from holdfast.config.approvals import ApprovalSettings
from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Amount, AtLeast0, AtLeast1, Port, Seconds, Secret, doc
from holdfast.config.server import KeySettings, ServerSettings
from holdfast.messages import ANSWER_BYTES_MAX
from holdfast.sandbox.profile import SandboxMode
from holdfast.targets import Patience, RetryLimits, Target, Wire
from holdfast.values import (
    Budget,
    MemoryMode,
    RelayKeep,
)

SignInName: TypeAlias = Literal["", "codex", "copilot", "nous"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[log]: the log file, which contains every level, and the level to print."""

    file: Annotated[
        str, doc("Log file, rotated automatically. If empty, holdfast.log in data_dir.", "path")
    ] = ""
    level: Annotated[LogLevel, doc("Lowest level to also print.")] = "info"
    format: Annotated[
        Literal["text", "json"],
        doc("`json`: one object per line, with the ids of the request, session and run that it's about."),
    ] = "text"


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[telemetry]: traces and metrics for an OpenTelemetry collector."""

    endpoint: Annotated[
        str,
        doc("URL of a collector that accepts OTLP over HTTP. If empty, nothing is exported.", "url or empty"),
    ] = ""
    headers: Annotated[
        dict[str, Secret], doc("Additional headers for every export, such as a key.", "header")
    ] = {}
    service_name: Annotated[str, doc("Name of this service in traces and metrics.", "name")] = "holdfast"
    metrics_s: Annotated[
        float, msgspec.Meta(ge=1, le=3600), doc("How often to export metrics, in seconds.")
    ] = 30.0
    content: Annotated[
        bool,
        doc("Whether traces contain messages, answers, and the arguments and results of tools."),
    ] = False


class PatienceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.patience]: how many seconds each phase of an attempt can be silent; 0 means no limit."""

    connect_s: Annotated[Seconds | None, doc("Until the connection is open.")] = None
    upload_s: Annotated[Seconds | None, doc("During the upload, while the provider accepts no data.")] = None
    first_event_s: Annotated[Seconds | None, doc("Until the first event, of any kind.")] = None
    first_event_cap_s: Annotated[
        Seconds | None,
        doc("Upper bound for first_event_s, which is raised for large requests and slow targets."),
    ] = None
    first_progress_s: Annotated[Seconds | None, doc("From the first event to the first output.")] = None
    gap_s: Annotated[Seconds | None, doc("Between two chunks of output.")] = None
    strict: Annotated[bool, doc("Whether first_event_s also applies to large requests.")] = False


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.retry]: limits and delays for retrying model calls."""

    attempts_max: Annotated[
        AtLeast1, doc("Maximum attempts per call across all targets. The default target's value applies.")
    ] = 5
    attempts_per_target_max: Annotated[AtLeast1, doc("Maximum attempts per call on one target.")] = 3
    unreachable_s: Annotated[
        Seconds,
        doc(
            "How long to retry a target that can't be reached, without using up attempts. At most 10 s if it "
            "has never answered, and 5 s if it has a fallback elsewhere."
        ),
    ] = 60.0
    unreachable_resumed_s: Annotated[
        Seconds,
        doc("The same, for a run resumed after a crash or restart. The model might start later."),
    ] = 300.0
    backoff_base_s: Annotated[
        Seconds, doc("Delay before the second attempt. It doubles with each further attempt.")
    ] = 1.0
    backoff_max_s: Annotated[Seconds, doc("Maximum delay between attempts.")] = 20.0
    hedge: Annotated[
        bool,
        doc("Whether to also call the next target after half of the first-event patience."),
    ] = False


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[targets]]: models to call. The first is the default; the others are fallbacks, in order."""

    name: Annotated[str, doc("Name of the target in Holdfast.", "name")]
    wire: Annotated[Wire, doc("Protocol: OpenAI Responses, OpenAI Chat Completions or Anthropic Messages.")]
    base_url: Annotated[str, doc("Base URL, without the path of a call.", "url")]
    model: Annotated[str, doc("Model name at the endpoint.", "name")]
    api_key: Annotated[Secret, doc("API key. Local servers might not need one.", "key")] = Secret("")
    api_keys: Annotated[
        tuple[Secret, ...],
        doc("Use instead of `api_key`: if a key reaches a limit or is rejected, calls use the next.", "key"),
    ] = ()
    auth: Annotated[SignInName, doc("Sign-in to use instead of a key. See `holdfast auth`.")] = ""
    context_window: Annotated[AtLeast1, doc("Size of the model's context window, in tokens.")] = 200_000
    vision: Annotated[
        bool, doc("Whether the model sees images. If not, `agent.vision_target` can describe them.")
    ] = True
    reasoning_effort: Annotated[
        str, doc("Default reasoning effort, such as low, medium or high. If empty, the model's.", "name")
    ] = ""
    temperature: Annotated[Amount | None, doc("Default temperature, from 0 to 2. If unset, the model's.")] = (
        None
    )
    max_output_tokens: Annotated[AtLeast0, doc("Default limit of one answer; 0 means the model's.")] = 0
    headers: Annotated[dict[str, Secret], doc("Additional headers for every request.", "header")] = {}
    proxy: Annotated[
        Secret | None,
        doc(
            "HTTP proxy, as http://USER:PASSWORD@HOST:PORT. If unset, HTTPS_PROXY, HTTP_PROXY, ALL_PROXY "
            "and NO_PROXY apply, except to this machine. An empty value disables the proxy.",
            "proxy",
        ),
    ] = None
    patience: PatienceSettings = PatienceSettings()
    retry: RetrySettings = RetrySettings()

    def target(self) -> Target:
        """The target as model calls use it."""
        return Target(
            name=self.name,
            wire=self.wire,
            base_url=self.base_url,
            model=self.model,
            api_key=str(self.api_key),
            api_keys=tuple(map(str, self.api_keys)),
            auth=self.auth,
            context_window=self.context_window,
            vision=self.vision,
            headers={name: str(value) for name, value in self.headers.items()},
            reasoning_effort=self.reasoning_effort,
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            proxy=str(self.proxy or ""),
            patience=Patience(**msgspec.structs.asdict(self.patience)),
            retry=RetryLimits(**msgspec.structs.asdict(self.retry)),
        )


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent.budget]: limits per run; 0 means no limit."""

    tokens: Annotated[AtLeast0, doc("Maximum tokens, input and output combined.")] = 0
    cost_usd: Annotated[Amount, doc("Maximum cost in US dollars, as far as prices are known.")] = 0.0
    minutes: Annotated[
        Amount, doc("Maximum working time in minutes. Time spent waiting for people doesn't count.")
    ] = 0.0


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent]: defaults for every run."""

    identity: Annotated[
        str,
        doc("Who the agent is, or file:PATH. The model reads it before the base prompt.", "text or file"),
    ] = ""
    prompt: Annotated[
        str,
        doc(
            "Base prompt: `default`, your own text or file:PATH, or `none`, which also drops the "
            "description of the environment.",
            "text or file",
        ),
    ] = "default"
    instructions: Annotated[
        str,
        doc("Instructions for the model, or file:PATH, added to the base prompt.", "text or file"),
    ] = ""
    workspace: Annotated[str, doc("Directory that agents work in.", "path")] = "."
    turns_max: Annotated[AtLeast0, doc("Maximum model answers per run; 0 means no limit.")] = 100
    children_max: Annotated[
        AtLeast0, doc("Maximum concurrent sub-agents per session; 0 disables sub-agents.")
    ] = 8
    children_depth_max: Annotated[
        AtLeast1, doc("Maximum levels of sub-agents. With 1, sub-agents can't start their own.")
    ] = 3
    answer_bytes_max: Annotated[
        AtLeast1,
        doc("Maximum bytes in one model answer: text, reasoning, tool arguments. A longer one ends the run."),
    ] = ANSWER_BYTES_MAX
    title_target: Annotated[
        str,
        doc(
            'Target that titles chats after the first answer. If empty, the default. "off" disables titles.',
            "name",
        ),
    ] = ""
    summary_target: Annotated[
        str, doc("Target that summarizes long conversations. If empty, the run's own.", "name")
    ] = ""
    vision_target: Annotated[
        str,
        doc(
            "Target that describes images to targets with `vision = false`. If empty, those get no images.",
            "name",
        ),
    ] = ""
    skills: Annotated[
        tuple[str, ...],
        doc("Additional skill folders, besides `skills` in your configuration directory.", "path"),
    ] = ()
    memory: Annotated[
        MemoryMode,
        doc(
            "Memory across conversations. `ask`: you accept each memory. `auto`: memories from your own "
            "messages are saved immediately; others need approval. `off`: none."
        ),
    ] = "ask"
    budget: BudgetSettings = BudgetSettings()

    def run_budget(self) -> Budget:
        """Limits per run, including turns."""
        budget = self.budget
        return Budget(
            tokens=budget.tokens, cost_usd=budget.cost_usd, turns=self.turns_max, minutes=budget.minutes
        )


class WebSearchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[web_search]: service behind the tool web_search. If unset, the tool isn't available."""

    service: Annotated[
        Literal["", "searxng", "brave", "tavily", "exa", "duckduckgo"],
        doc("Search service. If empty, agents can't search the web."),
    ] = ""
    url: Annotated[str, doc("URL of a SearXNG server, or another URL for the service.", "url or empty")] = ""
    api_key: Annotated[Secret, doc("API key for Brave, Tavily or Exa.", "key")] = Secret()


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[browser]: a browser for agents, in the sandbox. It needs bubblewrap."""

    enabled: Annotated[bool, doc("Whether agents can use a browser.")] = False
    command: Annotated[
        tuple[str, ...],
        msgspec.Meta(min_length=1),
        doc("Program and arguments of the Playwright MCP server."),
    ] = ("playwright-mcp",)
    executable: Annotated[
        str, doc("Program of Chromium or Chrome. If empty, the first one in PATH.", "path")
    ] = ""
    hosts: Annotated[
        tuple[str, ...],
        doc(
            "Hosts that all pages can load from, such as `*.example.com`. Private addresses need an "
            "entry, such as `127.0.0.1:8000`."
        ),
    ] = ()
    browsers_max: Annotated[AtLeast1, doc("Browsers at the same time, one for each run that uses it.")] = 4


class SpeechSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[speech]: transcripts of voice notes, by a command or at a target."""

    command: Annotated[
        tuple[str, ...],
        doc(
            "Command that prints the text of an audio file. It gets the path in place of `{file}`, or as its "
            "last argument, and runs in the sandbox."
        ),
    ] = ()
    read: Annotated[tuple[str, ...], doc("Files and folders that the command can read.", "path")] = ()
    target: Annotated[
        str, doc("Target to use instead of a command: its endpoint `/audio/transcriptions`.", "name")
    ] = ""
    model: Annotated[str, doc("Model for the transcripts. If empty, the target's.", "name")] = ""
    deadline_s: Annotated[Seconds, doc("Longest time for one voice note.")] = 120.0

    @property
    def is_on(self) -> bool:
        """Whether voice notes are transcribed."""
        return bool(self.command or self.target)


class SignInSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[sign_ins]]: alternative issuers for sign-ins, such as GitHub Enterprise."""

    name: Annotated[Literal["codex", "copilot", "nous"], doc("Name of the sign-in.")]
    issuer: Annotated[str, doc("Base URL of the issuer.", "url")]


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[relay]: model calls from other programs, forwarded to Holdfast's targets."""

    models: Annotated[
        dict[str, tuple[str, ...]],
        doc(
            "Target for each model name or pattern with *, or a list of targets, in which the later ones are "
            "fallbacks. Target names and their models are always relayed.",
            "name",
        ),
    ] = {}
    wait_s: Annotated[
        Seconds, doc("Longest provider-requested wait to honor. Longer ones are returned to the client.")
    ] = 60.0
    headers: Annotated[
        tuple[str, ...],
        doc("Additional client headers to forward to the provider; never credentials.", "name"),
    ] = ()
    body_bytes_max: Annotated[AtLeast1, doc("Maximum size of a relayed request body, in bytes.")] = 32_000_000
    keep: Annotated[
        RelayKeep,
        doc("Data to store per call: `usage` (a small record), `all` (as a session) or `none`."),
    ] = "usage"


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[sandbox]: files and hosts that agents' commands can reach."""

    mode: Annotated[
        SandboxMode,
        doc(
            "`auto`: use a sandbox if this machine can run one. `require`: don't start without one. `off`: "
            "use none. `holdfast doctor` shows what it protects on this machine."
        ),
    ] = "auto"
    network: Annotated[
        Literal["off", "on"] | tuple[str, ...],
        doc(
            "Hosts that commands can reach: none, all, or a list of host names. Commands can send your data "
            "to any of them.",
        ),
    ] = "off"
    write: Annotated[
        tuple[str, ...], doc("Paths outside the workspace that commands can change.", "path")
    ] = ()
    read: Annotated[
        tuple[str, ...],
        doc("Paths outside the workspace, or secret files in it, that commands can read.", "path"),
    ] = ()
    caches: Annotated[
        bool,
        doc("Whether commands can use and change the package manager caches in your home folder."),
    ] = False


class UndoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[undo]: workspace snapshots, so you can undo a run's changes."""

    enabled: Annotated[bool, doc("Whether to take a snapshot of the workspace before a run changes it.")] = (
        True
    )
    seconds_max: Annotated[
        float, msgspec.Meta(gt=0, le=600), doc("Maximum duration of one snapshot, in seconds.")
    ] = 20.0
    files_max: Annotated[AtLeast1, doc("Maximum number of files in a covered workspace.")] = 100_000
    file_bytes_max: Annotated[
        int, msgspec.Meta(ge=1, le=50_000_000), doc("Maximum size of a covered file, in bytes.")
    ] = 10_000_000
    total_bytes_max: Annotated[
        AtLeast1, doc("Maximum size of a covered workspace, in bytes, excluding files that aren't covered.")
    ] = 2_000_000_000
    keep_days: Annotated[
        Amount, doc("How long to keep snapshots, in days. Purging a session deletes its snapshots.")
    ] = 30.0


class McpSandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[mcp_servers.sandbox]: files and hosts that a server started by a command can reach."""

    mode: Annotated[
        Literal["auto", "off"],
        doc("`auto`: run the program in the sandbox if commands use one (bubblewrap only). `off`: never."),
    ] = "auto"
    network: Annotated[
        Literal["off", "on"] | tuple[str, ...],
        doc("Hosts that the program can reach: none, all, or a list of host names."),
    ] = "on"
    write: Annotated[
        tuple[str, ...],
        doc("Paths that the program can change, besides those in its command and env.", "path"),
    ] = ()
    read: Annotated[tuple[str, ...], doc("Secret files that the program can read.", "path")] = ()
    caches: Annotated[
        bool,
        doc("Whether the program uses the package manager caches in your home folder, or its own."),
    ] = False


class McpOAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[mcp_servers.oauth]: sign-in settings that can't be discovered."""

    client_id: Annotated[str, doc("ID of a client that you registered yourself.")] = ""
    client_secret: Annotated[Secret, doc("The client's secret, if it has one.", "key")] = Secret("")
    client_metadata_url: Annotated[
        str, doc("https URL of a client ID metadata document, used instead of a registration.")
    ] = ""
    issuer: Annotated[
        str, doc("Only authorization server that receives client_secret. Required with client_secret.")
    ] = ""
    scope: Annotated[str, doc("Scopes to request if the server names none, separated by spaces.")] = ""
    redirect_port: Annotated[Port, doc("Port on 127.0.0.1 for the OAuth redirect; 0 picks a free one.")] = 0


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[mcp_servers]]: MCP servers with additional tools, started by a command or called at a URL."""

    name: Annotated[str, doc("Name of the server in Holdfast, and the prefix of its tools.", "name")]
    command: Annotated[tuple[str, ...], doc("Program to start, and its arguments.")] = ()
    url: Annotated[str, doc("URL of a running server.", "url with query")] = ""
    env: Annotated[dict[str, Secret], doc("Environment variables for the program.", "variable")] = {}
    headers: Annotated[
        dict[str, Secret], doc("Additional headers for every request to the URL.", "header")
    ] = {}
    transport: Annotated[
        Literal["auto", "http", "sse"],
        doc("Transport for the URL: streamable HTTP, the older SSE, or whichever works."),
    ] = "auto"
    roots: Annotated[
        Literal["off", "workspace"],
        doc(
            "Whether to send the workspace to the server as an MCP root. Some servers then use no other "
            "folder."
        ),
    ] = "off"
    oauth: McpOAuthSettings = McpOAuthSettings()
    sandbox: McpSandboxSettings = McpSandboxSettings()


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[hooks]]: your programs that check tool calls and runs, or act on them."""

    on: Annotated[
        Literal["before_tool", "after_tool", "run_start", "run_end"], doc("When to start the program.")
    ]
    command: Annotated[
        tuple[str, ...],
        doc("Program and arguments. It starts in the folder `~/.config/holdfast`, outside the sandbox."),
    ]
    name: Annotated[str, doc("Name in messages. Default: the command.")] = ""
    tools: Annotated[
        tuple[str, ...],
        doc(
            "Tools that the hook applies to, such as `shell` or `mcp_*`. If empty, all. Only for tool hooks."
        ),
    ] = ()
    deadline_s: Annotated[Seconds, doc("Time limit. Late `before_tool` and `run_start` hooks deny.")] = 10.0

    @property
    def shown_name(self) -> str:
        """The name in messages."""
        return self.name or " ".join(self.command)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    targets: tuple[TargetSettings, ...] = ()
    agent: AgentSettings = AgentSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    browser: BrowserSettings = BrowserSettings()
    speech: SpeechSettings = SpeechSettings()
    relay: RelaySettings = RelaySettings()
    sign_ins: tuple[SignInSettings, ...] = ()
    keys: tuple[KeySettings, ...] = ()
    approvals: ApprovalSettings = ApprovalSettings()
    sandbox: SandboxSettings = SandboxSettings()
    undo: UndoSettings = UndoSettings()
    mcp_servers: tuple[McpServerSettings, ...] = ()
    channels: tuple[ChannelSettings, ...] = ()
    hooks: tuple[HookSettings, ...] = ()

    @property
    def target_auth(self) -> tuple[str, ...]:
        """The sign-ins that targets use."""
        return tuple(target.auth for target in self.targets if target.auth)

    @property
    def data_dir(self) -> Path:
        """Where all data is kept."""
        return Path(self.server.data_dir)

    @property
    def store_path(self) -> Path:
        """The SQLite file that holds every session."""
        return self.data_dir / "holdfast.db"

    @property
    def node_name(self) -> str:
        """Return this server's name among those that share its database."""
        if self.server.node_name:
            return self.server.node_name
        # Two servers on one machine have different data directories, because each locks its own.
        place = sha256(str(self.data_dir.absolute()).encode()).hexdigest()[:4]
        return f"{gethostname() or 'node'}-{place}"

    @property
    def volumes(self) -> dict[str, Path]:
        """Folders that several servers share, by name."""
        return {name: Path(folder).absolute() for name, folder in self.server.volumes.items()}

    @property
    def spool_dir(self) -> Path:
        """Where output waits until the database can take it."""
        return Path(self.server.spool_dir) if self.server.spool_dir else self.data_dir / "spool"

    @property
    def workspace(self) -> Path:
        """The directory in which agents work: the current one unless another is set."""
        return Path(self.agent.workspace).absolute()

    @property
    def log_file(self) -> Path:
        """Where the log is written."""
        return Path(self.log.file) if self.log.file else self.data_dir / "holdfast.log"

    def model_targets(self) -> tuple[Target, ...]:
        """The targets as model calls use them, the default first; none means the demo model."""
        return tuple(map(TargetSettings.target, self.targets))
