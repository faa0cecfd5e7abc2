"""Every table and key of holdfast.toml, with its default and one sentence about it."""

from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Annotated, Literal, TypeAlias

import msgspec

from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Amount, AtLeast0, AtLeast1, Port, Seconds, Secret, doc
from holdfast.config.limits import LimitSettings
from holdfast.messages import ANSWER_BYTES_MAX
from holdfast.policy.verdicts import RuleVerdict
from holdfast.sandbox.profile import SandboxMode
from holdfast.targets import Patience, RetryLimits, Target, Wire
from holdfast.values import ApprovalMode, Budget, Durability, MemoryMode, OnExpiry, OnRestart, RelayKeep

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class BlobStoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.blob_store]: where a Postgres store keeps attachments and other blobs over 1 MiB."""

    bucket: Annotated[
        str,
        doc(
            "The bucket, in Amazon S3 or a service with the same API; if empty, large blobs are in the "
            "database. Needs the extra `holdfast[s3]`.",
            "name",
        ),
    ] = ""
    endpoint: Annotated[str, doc("The URL of the service; if empty, Amazon S3.", "url or empty")] = ""
    region: Annotated[str, doc("The region of the bucket.", "name")] = "us-east-1"
    prefix: Annotated[
        str, doc("What the names of all objects begin with, for a bucket with other things in it.", "name")
    ] = ""
    access_key_id: Annotated[
        Secret,
        doc("The id of the access key; if empty, AWS's variables or the machine's role give access.", "key"),
    ] = Secret()
    secret_access_key: Annotated[Secret, doc("The access key that belongs to this id.", "key")] = Secret()


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server]: where the server listens, who may use it, and where it keeps its data."""

    host: Annotated[
        str, doc("The address to listen on. Any address but loopback needs a configured key.", "host")
    ] = "127.0.0.1"
    port: Annotated[Port, doc("The port to listen on; 0 picks a free one.")] = 8642
    hosts: Annotated[
        tuple[str, ...],
        doc(
            "Other host names of the server; requests for any other name are refused. A server that listens "
            "on every address answers to each of its addresses.",
            "host name",
        ),
    ] = ()
    public_url: Annotated[
        str,
        doc(
            "The page's public URL, for links to it. If unset, links use the address that the client called.",
            "url",
        ),
    ] = ""
    data_dir: Annotated[str, doc("The directory for the database, blobs, key and lock.", "path")] = (
        "~/.local/share/holdfast"
    )
    store: Annotated[
        Secret,
        doc(
            "A Postgres database that several servers share, as `postgresql://user:password@host/name`; if "
            "empty, an SQLite file in data_dir. Needs the extra `holdfast[postgres]`.",
            "database",
        ),
    ] = Secret()
    store_direct: Annotated[
        Secret,
        doc(
            "The address of the database itself, if `store` leads through a pooler such as PgBouncer in "
            "transaction mode. Leases, notifications and migrations use it.",
            "database",
        ),
    ] = Secret()
    node_name: Annotated[
        str,
        doc(
            "The name of this server among those that share a database; if empty, it is made from the "
            "machine's name and data_dir. No two may have the same.",
            "name",
        ),
    ] = ""
    node_url: Annotated[
        str, doc("The URL at which the other servers reach this one; people are shown it.", "url or empty")
    ] = ""
    volumes: Annotated[
        dict[str, str],
        doc(
            "Folders that several servers share, by name. A session whose workspace is in one goes on at any "
            "server that lists it; any other session waits for the server that has its files.",
            "path",
        ),
    ] = {}
    api_keys: Annotated[
        tuple[Secret, ...] | None,
        doc(
            "The keys that open the server. If absent, the first start makes one; if empty, none is needed.",
            "key",
        ),
    ] = None
    cors_origins: Annotated[
        tuple[str, ...], doc("Other origins whose web pages may call the API; * means all.", "origin")
    ] = ()
    workspaces: Annotated[
        tuple[str, ...],
        doc(
            "Folders that keys without the scope `admin` can use as a workspace, including subfolders. "
            "`agent.workspace` is always allowed.",
            "path",
        ),
    ] = ()
    max_concurrent_runs: Annotated[
        AtLeast1,
        doc(
            "The most concurrent runs; further ones are queued. Keys that use less than a sixteenth of this "
            "limit share an extra quarter, so no key can block the others."
        ),
    ] = 64
    on_restart: Annotated[OnRestart, doc("What happens to a run that a crash or restart interrupted.")] = (
        "resume"
    )
    drain_s: Annotated[
        Seconds,
        doc("How long runs may work on to a safe point after the first signal to end; 0 means not at all."),
    ] = 10.0
    durability: Annotated[
        Durability, doc("What stored events survive: a power cut, or only the end of the process (faster).")
    ] = "power"
    keep_deltas_days: Annotated[
        AtLeast0,
        doc(
            "How long the pieces in which an answer arrived are kept after the run ends; 0 means forever. "
            "The text itself always stays."
        ),
    ] = 30
    spool_dir: Annotated[
        str,
        doc(
            "A directory of its own for output that can't be written to the database yet; if empty, it is "
            "inside data_dir.",
            "path",
        ),
    ] = ""
    limits: LimitSettings = LimitSettings()
    blob_store: BlobStoreSettings = BlobStoreSettings()


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[log]: the log file, which has every line, and what is printed as well."""

    file: Annotated[
        str, doc("The log file, which is rotated; if empty, holdfast.log in data_dir.", "path")
    ] = ""
    level: Annotated[LogLevel, doc("The lowest level that is also printed.")] = "info"


class PatienceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.patience]: how many seconds each state of an attempt may be silent; 0 means no limit."""

    connect_s: Annotated[Seconds | None, doc("Until the connection is made.")] = None
    upload_s: Annotated[Seconds | None, doc("While none of the request is accepted.")] = None
    first_event_s: Annotated[Seconds | None, doc("Until the first event of any kind.")] = None
    first_event_cap_s: Annotated[
        Seconds | None, doc("The highest value that request size and learning may raise first_event_s to.")
    ] = None
    first_progress_s: Annotated[Seconds | None, doc("From the first event to the first output.")] = None
    gap_s: Annotated[Seconds | None, doc("Between two pieces of output.")] = None
    strict: Annotated[bool, doc("Whether first_event_s also applies to large requests.")] = False


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[targets.retry]: how often a call may try, and how long if nothing answers."""

    attempts_max: Annotated[
        AtLeast1, doc("The most attempts of one call on all targets; the default target's value applies.")
    ] = 5
    attempts_per_target_max: Annotated[AtLeast1, doc("The most attempts of one call on one target.")] = 3
    unreachable_s: Annotated[
        Seconds,
        doc(
            "How long to retry a target while nothing answers at its address; this uses up no attempts. A "
            "target that has never answered gets at most 10 s, one with a fallback elsewhere 5 s."
        ),
    ] = 60.0
    unreachable_resumed_s: Annotated[
        Seconds,
        doc("The same for a run that resumes after a crash or restart, when the model may come back later."),
    ] = 300.0
    backoff_base_s: Annotated[
        Seconds, doc("The wait before a second attempt; it doubles with each further one.")
    ] = 1.0
    backoff_max_s: Annotated[Seconds, doc("The longest such wait.")] = 20.0
    hedge: Annotated[
        bool,
        doc("Whether to also call the next target once half of the first-event patience has passed."),
    ] = False


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[targets]]: the models to call; the first is the default, the others are fallbacks in order."""

    name: Annotated[str, doc("The name of the target in Holdfast.", "name")]
    wire: Annotated[
        Wire, doc("The protocol: OpenAI Responses, OpenAI Chat Completions or Anthropic Messages.")
    ]
    base_url: Annotated[str, doc("The endpoint, without the path of a single call.", "url")]
    model: Annotated[str, doc("The endpoint's name for the model.", "name")]
    api_key: Annotated[Secret, doc("The key; a local server may need none.", "key")] = Secret("")
    context_window: Annotated[AtLeast1, doc("How many tokens fit into the model's context window.")] = 200_000
    headers: Annotated[dict[str, Secret], doc("Additional headers for every request.", "header")] = {}
    proxy: Annotated[
        Secret | None,
        doc(
            "The HTTP proxy, as http://USER:PASSWORD@HOST:PORT. If absent, HTTPS_PROXY, HTTP_PROXY, "
            "ALL_PROXY and NO_PROXY apply, except to this machine; if empty, no proxy is used.",
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
            context_window=self.context_window,
            headers={name: str(value) for name, value in self.headers.items()},
            proxy=str(self.proxy or ""),
            patience=Patience(**msgspec.structs.asdict(self.patience)),
            retry=RetryLimits(**msgspec.structs.asdict(self.retry)),
        )


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent.budget]: what one run may use; 0 means no limit."""

    tokens: Annotated[AtLeast0, doc("The most tokens, input and output together.")] = 0
    cost_usd: Annotated[Amount, doc("The most US dollars, as far as prices are known.")] = 0.0
    minutes: Annotated[Amount, doc("The most minutes of work; waiting for people doesn't count.")] = 0.0


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[agent]: what every run starts with."""

    instructions: Annotated[
        str,
        doc("Instructions for the model, or file:PATH; AGENTS.md of the workspace is added.", "text or file"),
    ] = ""
    workspace: Annotated[str, doc("The directory in which agents work.", "path")] = "."
    turns_max: Annotated[AtLeast0, doc("The most model answers in one run; 0 means no limit.")] = 100
    children_max: Annotated[
        AtLeast0, doc("The most sub-agents of one session that work at once; 0 means that there are none.")
    ] = 8
    children_depth_max: Annotated[
        AtLeast1, doc("The most levels of sub-agents: 1 means that they have none of their own.")
    ] = 3
    answer_bytes_max: Annotated[
        AtLeast1,
        doc(
            "The most bytes in one model answer: text, reasoning, tool arguments. A longer one ends the run."
        ),
    ] = ANSWER_BYTES_MAX
    title_target: Annotated[
        str,
        doc(
            'The target that titles chats after their first answer; empty means the default, "off" none.',
            "name",
        ),
    ] = ""
    summary_target: Annotated[
        str, doc("The target that summarizes long conversations; empty means the run's own.", "name")
    ] = ""
    skills: Annotated[
        tuple[str, ...],
        doc("Further folders with skills, beside `skills` in your configuration directory.", "path"),
    ] = ()
    memory: Annotated[
        MemoryMode,
        doc(
            "Whether the agent remembers things between conversations: ask means that you accept each; auto "
            "that what you typed yourself is remembered at once, and anything else is asked; off means never."
        ),
    ] = "ask"
    budget: BudgetSettings = BudgetSettings()

    def run_budget(self) -> Budget:
        """What a run may use, including turns."""
        budget = self.budget
        return Budget(
            tokens=budget.tokens, cost_usd=budget.cost_usd, turns=self.turns_max, minutes=budget.minutes
        )


class WebSearchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[web_search]: the service that the tool web_search asks; without one there is no such tool."""

    service: Annotated[
        Literal["", "searxng", "brave", "tavily", "exa", "duckduckgo"],
        doc("The service; if empty, agents can't search the web."),
    ] = ""
    url: Annotated[
        str, doc("The address of a SearXNG server, or another one of the service.", "url or empty")
    ] = ""
    api_key: Annotated[Secret, doc("The key, for Brave, Tavily and Exa.", "key")] = Secret()


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[keys]]: what an API key may use; 0 means no limit."""

    name: Annotated[
        str, doc("The name of the key, as `holdfast keys list` shows it; * means each key without its own.")
    ]
    budget_usd_per_day: Annotated[
        Amount, doc("The most US dollars of one day (UTC), as far as prices are known.")
    ] = 0.0
    budget_tokens_per_day: Annotated[
        AtLeast0, doc("The most tokens of one day (UTC), input and output together.")
    ] = 0
    requests_per_minute: Annotated[
        AtLeast0, doc("The most relayed requests and new runs within a minute.")
    ] = 0
    one_user: Annotated[
        bool,
        doc(
            "Whether only one person uses the key. If true, a chat completion without a chat id continues "
            "the session with the same history."
        ),
    ] = False


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[relay]: model calls of other programs, which Holdfast passes on to its targets."""

    models: Annotated[
        dict[str, tuple[str, ...]],
        doc(
            "Model names, or patterns with *, and the target that answers each, or a list of them. Further "
            "ones in a list are fallbacks. The names and models of targets are always relayed.",
            "name",
        ),
    ] = {}
    wait_s: Annotated[
        Seconds, doc("The longest wait that a provider may ask for; the client is told of a longer one.")
    ] = 60.0
    headers: Annotated[
        tuple[str, ...], doc("Further headers of clients that go to the provider; never credentials.", "name")
    ] = ()
    body_bytes_max: Annotated[AtLeast1, doc("The largest relayed request body, in bytes.")] = 32_000_000
    keep: Annotated[
        RelayKeep,
        doc("What is stored of each call: a small record of its usage, everything as a session, or nothing."),
    ] = "usage"


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[approvals.rules]]: which actions run without asking, always ask, or never run. Set one of these."""

    allow: Annotated[str, doc("The tool whose matching actions run without asking.", "name")] = ""
    ask: Annotated[str, doc("The tool whose matching actions always ask.", "name")] = ""
    deny: Annotated[str, doc("The tool whose matching actions never run.", "name")] = ""
    argv: Annotated[
        tuple[str, ...],
        doc("The words that a matching command starts with; allow covers only harmless words after them."),
    ] = ()
    exact: Annotated[bool, doc("Whether an allowed command must consist of exactly the words in argv.")] = (
        False
    )
    paths: Annotated[
        tuple[str, ...],
        doc(
            "The paths that a matching action touches; deny and ask also match a search or listing of a "
            "folder above.",
            "path",
        ),
    ] = ()
    host: Annotated[str, doc("The host that a matching action calls.", "host name")] = ""

    @property
    def verdict(self) -> RuleVerdict:
        """Which of the three it is."""
        return "allow" if self.allow else "ask" if self.ask else "deny"

    @property
    def tool(self) -> str:
        """The tool that the rule is about."""
        return self.allow or self.ask or self.deny


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[approvals]: when a person is asked, and what happens if nobody answers (silence is never consent)."""

    mode: Annotated[
        ApprovalMode,
        doc("Ask about every change, allow what the sandbox contains, or ask nobody and deny."),
    ] = "ask"
    expires_s: Annotated[AtLeast0, doc("How long a question stays open; 0 means until someone answers.")] = (
        86_400
    )
    on_expiry: Annotated[
        OnExpiry, doc("Whether a run continues without the action, or stops, if nobody answers.")
    ] = "continue"
    rules: tuple[RuleSettings, ...] = ()


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[sandbox]: what the commands that agents run can reach."""

    mode: Annotated[
        SandboxMode,
        doc(
            "Use a sandbox if this machine can run one, refuse to start without one, or use none; "
            "`holdfast doctor` says what it holds here."
        ),
    ] = "auto"
    network: Annotated[
        Literal["off", "on"] | tuple[str, ...],
        doc(
            "Which hosts commands can reach: none, all, or a list of host names. A host that can be reached "
            "can be sent your data.",
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
        doc("Whether commands share the caches of package managers in your home folder and can change them."),
    ] = False


class UndoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[undo]: snapshots of the workspace, so that what runs change can be undone."""

    enabled: Annotated[
        bool, doc("Whether the workspace is stored before a run changes it, so that this can be undone.")
    ] = True
    seconds_max: Annotated[
        float, msgspec.Meta(gt=0, le=600), doc("The longest that one snapshot may take, in seconds.")
    ] = 20.0
    files_max: Annotated[AtLeast1, doc("The most files that a workspace may have to be covered.")] = 100_000
    file_bytes_max: Annotated[
        int, msgspec.Meta(ge=1, le=50_000_000), doc("The largest file that is covered, in bytes.")
    ] = 10_000_000
    total_bytes_max: Annotated[
        AtLeast1, doc("The largest workspace that is covered, in bytes, without what is left out.")
    ] = 2_000_000_000
    keep_days: Annotated[
        Amount, doc("How long snapshots are kept, in days; purging a session removes its own at once.")
    ] = 30.0


class McpSandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[mcp_servers.sandbox]: what a server that is started by a command can reach."""

    mode: Annotated[
        Literal["auto", "off"],
        doc("Run the program in the sandbox if commands run in one (bubblewrap only), or never."),
    ] = "auto"
    network: Annotated[
        Literal["off", "on"] | tuple[str, ...],
        doc("Which hosts the program can reach: none, all, or a list of host names."),
    ] = "on"
    write: Annotated[
        tuple[str, ...],
        doc("Paths that the program can change, in addition to those in its command and env.", "path"),
    ] = ()
    read: Annotated[tuple[str, ...], doc("Secret files that the program can read.", "path")] = ()
    caches: Annotated[
        bool,
        doc("Whether the program shares the caches of package managers in your home folder, or has its own."),
    ] = False


class McpOAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[mcp_servers.oauth]: how to sign in to a server, if that can't be discovered."""

    client_id: Annotated[str, doc("The id of a client that you registered yourself.")] = ""
    client_secret: Annotated[Secret, doc("Its secret, if it has one.", "key")] = Secret("")
    client_metadata_url: Annotated[
        str, doc("The https URL of a client ID metadata document, used instead of a registration.")
    ] = ""
    issuer: Annotated[
        str, doc("The only authorization server that gets the client_secret. Set it with a client_secret.")
    ] = ""
    scope: Annotated[str, doc("The scopes to ask for if the server names none, separated by spaces.")] = ""
    redirect_port: Annotated[
        Port, doc("The port of 127.0.0.1 that the sign-in page leads back to; 0 means any free port.")
    ] = 0


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[mcp_servers]]: servers of additional tools, either started by a command or called at a URL."""

    name: Annotated[str, doc("The name of the server in Holdfast, and the prefix of its tools.", "name")]
    command: Annotated[tuple[str, ...], doc("The program to start and its arguments.")] = ()
    url: Annotated[str, doc("The URL of a running server.", "url with query")] = ""
    env: Annotated[dict[str, Secret], doc("Environment variables for the program.", "variable")] = {}
    headers: Annotated[
        dict[str, Secret], doc("Additional headers for every request to the URL.", "header")
    ] = {}
    transport: Annotated[
        Literal["auto", "http", "sse"],
        doc("How to talk to the URL: streamable HTTP, the older SSE, or whichever works."),
    ] = "auto"
    roots: Annotated[
        Literal["off", "workspace"],
        doc("Whether the server is told the workspace as its root. Some servers then use no other folder."),
    ] = "off"
    oauth: McpOAuthSettings = McpOAuthSettings()
    sandbox: McpSandboxSettings = McpSandboxSettings()


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    targets: tuple[TargetSettings, ...] = ()
    agent: AgentSettings = AgentSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    relay: RelaySettings = RelaySettings()
    keys: tuple[KeySettings, ...] = ()
    approvals: ApprovalSettings = ApprovalSettings()
    sandbox: SandboxSettings = SandboxSettings()
    undo: UndoSettings = UndoSettings()
    mcp_servers: tuple[McpServerSettings, ...] = ()
    channels: tuple[ChannelSettings, ...] = ()

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
        """What this server is called among those that share its database."""
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
