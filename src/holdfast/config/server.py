"""The tables [server], [server.limits] and [server.blob_store]: address, access, storage and restarts."""

from typing import Annotated

import msgspec

from holdfast.catalog import CHAT_SOURCES
from holdfast.config.fields import Amount, AtLeast0, AtLeast1, Port, Seconds, Secret, doc
from holdfast.values import AUTOMATION, CHAT, ONE_SHOT, PAGE, Durability, OnRestart

# Sources of sessions that `*` covers in the settings `keep_sessions_…`.
CONVERSATIONS = frozenset({PAGE, CHAT, ONE_SHOT, "api", "hermes", AUTOMATION, *CHAT_SOURCES})


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.limits]: limits on requests and connections."""

    body_bytes_max: Annotated[AtLeast1, doc("Maximum size of a request body, in bytes.")] = 10_000_000
    json_depth_max: Annotated[AtLeast1, doc("Maximum nesting depth of JSON in a request.")] = 64
    content_parts_max: Annotated[AtLeast1, doc("Maximum number of content parts in a message.")] = 1_000
    queued_runs_max: Annotated[
        AtLeast0,
        doc(
            "Maximum number of queued runs. Further requests get a 429 with `Retry-After`. Keys that use "
            "less than a sixteenth of this limit share an extra quarter."
        ),
    ] = 1_000
    subscribers_max: Annotated[
        AtLeast1,
        doc(
            "Maximum number of open event streams and relayed calls. Keys that use less than a sixteenth of "
            "this limit share an extra quarter."
        ),
    ] = 1_000
    upload_bytes_per_day: Annotated[
        AtLeast0,
        doc("Maximum bytes of attachments per key and day (UTC); 0 means no limit."),
    ] = 5_000_000_000
    unauthenticated_max: Annotated[
        AtLeast1,
        doc(
            "Maximum number of connections open for over a second without a key. Beyond this, the oldest get "
            "a 503 with `Retry-After` and are closed."
        ),
    ] = 512
    header_s: Annotated[
        Seconds, doc("How long a client can take to send a request's headers; 0 means no limit.")
    ] = 10.0
    body_s: Annotated[Seconds, doc("How long a client can pause while sending a body; 0 means no limit.")] = (
        30.0
    )


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[keys]]: limits per API key; 0 means no limit."""

    name: Annotated[str, doc("Key name from `holdfast keys list`, or * for each key without its own entry.")]
    budget_usd_per_day: Annotated[
        Amount, doc("Maximum cost in US dollars per day (UTC), as far as prices are known.")
    ] = 0.0
    budget_tokens_per_day: Annotated[
        AtLeast0, doc("Maximum tokens per day (UTC), input and output combined.")
    ] = 0
    requests_per_minute: Annotated[AtLeast0, doc("Maximum relayed requests and new runs per minute.")] = 0
    one_user: Annotated[
        bool,
        doc(
            "Whether only one person uses the key. If true, a chat completion without a chat id continues "
            "the session with the same history."
        ),
    ] = False

    @property
    def has_budget(self) -> bool:
        """Whether what it uses in a day is limited."""
        return bool(self.budget_usd_per_day or self.budget_tokens_per_day)


class BlobStoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.blob_store]: S3 storage for a Postgres store's attachments and other blobs over 1 MiB."""

    bucket: Annotated[
        str,
        doc(
            "Bucket in Amazon S3 or a compatible service. If empty, large blobs are stored in the database. "
            "Requires `holdfast[s3]`.",
            "name",
        ),
    ] = ""
    endpoint: Annotated[str, doc("Service URL. If empty, Amazon S3.", "url or empty")] = ""
    region: Annotated[str, doc("Bucket region.", "name")] = "us-east-1"
    prefix: Annotated[
        str, doc("Object name prefix, for a bucket that you share with other data.", "name")
    ] = ""
    access_key_id: Annotated[
        Secret,
        doc("Access key ID. If empty, Holdfast uses the AWS variables or the machine's role.", "key"),
    ] = Secret()
    secret_access_key: Annotated[Secret, doc("Secret access key for this ID.", "key")] = Secret()

    @property
    def place(self) -> str:
        """Where it is, for people."""
        prefix = f"/{self.prefix.strip('/')}" if self.prefix.strip("/") else ""
        return f"bucket {self.bucket}{prefix} at {self.endpoint or 'Amazon S3'}"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server]: network address, access, storage and restarts."""

    host: Annotated[
        str, doc("Address to listen on. Addresses other than loopback require an API key.", "host")
    ] = "127.0.0.1"
    port: Annotated[Port, doc("Port to listen on; 0 picks a free one.")] = 8642
    unix_socket: Annotated[
        str,
        doc(
            "Unix socket to listen on instead of host and port, for a reverse proxy. Its owner and its group "
            "can connect.",
            "path",
        ),
    ] = ""
    tls_cert: Annotated[
        str,
        doc(
            "Certificate in PEM format, followed by its chain. If set, the server speaks HTTPS. A renewed "
            "file is loaded within a minute.",
            "path",
        ),
    ] = ""
    tls_key: Annotated[
        str, doc("Private key of tls_cert, without a password. If empty, it's in the same file.", "path")
    ] = ""
    mount_path: Annotated[
        str,
        doc(
            "Path under which a reverse proxy serves this server, such as /agents. The proxy can pass it on "
            "or remove it.",
            "mount path",
        ),
    ] = ""
    trusted_proxies: Annotated[
        tuple[str, ...],
        doc(
            "Addresses or networks of reverse proxies whose X-Forwarded-Proto and X-Forwarded-Host count; "
            "`unix` for those that connect to unix_socket. These headers are ignored from all others.",
            "address or network",
        ),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        doc(
            "Additional host names of the server. Requests for any other name are rejected. A server that "
            "listens on all addresses accepts requests for each of them.",
            "host name",
        ),
    ] = ()
    public_url: Annotated[
        str,
        doc(
            "Public URL of the page, for links. If empty, links use the address that the client called.",
            "url",
        ),
    ] = ""
    model_name: Annotated[
        str,
        doc(
            "Name of the agent in GET /v1/models and /v1/capabilities. If empty, the default target's model.",
            "name",
        ),
    ] = ""
    data_dir: Annotated[str, doc("Directory for the database, blobs, key and lock.", "path")] = (
        "~/.local/share/holdfast"
    )
    store: Annotated[
        Secret,
        doc(
            "Postgres database to share between servers, as `postgresql://user:password@host/name`. If "
            "empty, an SQLite file in data_dir. Requires `holdfast[postgres]`.",
            "database",
        ),
    ] = Secret()
    store_direct: Annotated[
        Secret,
        doc(
            "Direct URL of the database, if `store` is a pooler such as PgBouncer in transaction mode. Used "
            "for leases, notifications and migrations.",
            "database",
        ),
    ] = Secret()
    node_name: Annotated[
        str,
        doc(
            "Name of this server, unique among those that share a database. If empty, it's derived from the "
            "machine's name and data_dir.",
            "name",
        ),
    ] = ""
    node_url: Annotated[
        str, doc("URL where other servers reach this one. Also shown to users.", "url or empty")
    ] = ""
    volumes: Annotated[
        dict[str, str],
        doc(
            "Folders that several servers share, by name. Any server that lists a volume can continue the "
            "sessions whose workspace is on it. Other sessions wait for the server that has their files.",
            "path",
        ),
    ] = {}
    api_keys: Annotated[
        tuple[Secret, ...] | None,
        doc(
            "API keys. If unset, the first start generates one. An empty list disables authentication.",
            "key",
        ),
    ] = None
    cors_origins: Annotated[
        tuple[str, ...], doc("Origins whose web pages can call the API; * allows all.", "origin")
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
            "Maximum number of concurrent runs; more are queued. Keys that use less than a sixteenth of this "
            "limit share an extra quarter, so no key can block the others."
        ),
    ] = 64
    on_restart: Annotated[
        OnRestart, doc("Whether to resume or end runs that a crash or restart interrupted.")
    ] = "resume"
    drain_s: Annotated[
        Seconds,
        doc("How long active runs get to reach a safe point on shutdown; 0 doesn't wait."),
    ] = 10.0
    durability: Annotated[
        Durability, doc("`power`: stored events survive a power cut. `process`: only a crash (faster).")
    ] = "power"
    keep_deltas_days: Annotated[
        AtLeast0,
        doc(
            "How long to keep an answer's streaming deltas after the run ends; 0 keeps them forever. The "
            "text itself is always kept."
        ),
    ] = 30
    keep_sessions_days: Annotated[
        dict[str, AtLeast1],
        doc(
            "How long to keep sessions after their last change, by source: `page`, `chat`, `run`, `api`, "
            "`automation`, `telegram`, `slack`, `discord`, `email`, `matrix`, `bridge`, `hermes`, or `*` for "
            "the others. `openai` and `relay` are 30 if unset. Pinned sessions and those in use stay."
        ),
    ] = {}
    keep_sessions_max: Annotated[
        dict[str, AtLeast1],
        doc("How many sessions to keep, by source. Those unchanged for longest are deleted first."),
    ] = {}
    keep_sessions_bytes: Annotated[
        dict[str, AtLeast1],
        doc(
            "How many bytes of events and attachments to keep, by source, checked at startup and once a day. "
            "Sessions unchanged for longest are deleted first; the newest one stays."
        ),
    ] = {}
    spool_dir: Annotated[
        str,
        doc(
            "Separate directory for output that can't be written to the database yet. If empty, a directory "
            "in data_dir.",
            "path",
        ),
    ] = ""
    limits: LimitSettings = LimitSettings()
    blob_store: BlobStoreSettings = BlobStoreSettings()
