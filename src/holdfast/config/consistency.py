"""Checks settings that are each valid but don't work together."""

import difflib
import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from holdfast.catalog import FEATURES, absent_features
from holdfast.config.approvals import ApprovalSettings, RuleSettings
from holdfast.config.server import CONVERSATIONS, ServerSettings
from holdfast.config.settings import (
    McpOAuthSettings,
    McpSandboxSettings,
    McpServerSettings,
    RetrySettings,
    SandboxSettings,
    Settings,
    TargetSettings,
)
from holdfast.config.sources import ConfigIssue, KeyPath
from holdfast.config.target_secrets import KEY_CHARS_MIN
from holdfast.config.value_formats import is_loopback
from holdfast.decisions.deadlines import is_local
from holdfast.policy.tool_names import BUILT_IN, MCP_PREFIX
from holdfast.targets import Target, Wire, unsupported
from holdfast.values import EVERY_SOURCE, OPENAI, RELAY, RunSettings

if TYPE_CHECKING:
    from holdfast.policy.approval_rules import ApprovalRule

CALL_PATHS: Mapping[Wire, str] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
}
TEMPERATURE_MAX = 2.0
SOCKET_BYTES_MAX = 100  # the system's limit is 107 on Linux and 103 on macOS
_EFFORT = re.compile(r"[a-z0-9]{0,16}")


def issues_in(
    settings: msgspec.Struct, table: Mapping[str, object], *, section: str
) -> Iterator[ConfigIssue]:
    """The issues of a table whose keys are each valid; paths are relative to the table."""
    for feature in FEATURES.values():
        if section in feature.issues:
            yield from feature.part(feature.issues[section])(settings)
    match settings:
        case ServerSettings():
            yield from _server(settings)
            yield from _address(settings)
            yield from _blob_store(settings)
        case TargetSettings():
            yield from _target(settings)
        case RetrySettings():
            yield from _retry(settings)
        case RuleSettings():
            yield from _rule(table)
        case McpServerSettings():
            yield from _mcp_server(settings)
        case SandboxSettings() | McpSandboxSettings():
            yield from _sandbox(settings)
        case Settings():
            yield from _together(settings)
        case _:
            return


def _hosts(path: KeyPath, hosts: tuple[str, ...]) -> Iterator[ConfigIssue]:
    if not hosts:
        return
    from holdfast.policy.host_rules import BadHost, host_rules  # few settings have rules for hosts

    try:
        host_rules(hosts)
    except BadHost as error:
        yield ConfigIssue(path, str(error))


def _sandbox(sandbox: SandboxSettings | McpSandboxSettings) -> Iterator[ConfigIssue]:
    if not isinstance(sandbox.network, str):
        yield from _hosts(("network",), sandbox.network)
    if not (sandbox.write or sandbox.read):
        return
    from holdfast.policy.lifts import why_not_given  # few settings have paths

    for name, paths in (("write", sandbox.write), ("read", sandbox.read)):
        for path in paths:
            if not path.startswith("/"):
                yield ConfigIssue((name,), f"{path!r} must be an absolute path")
            elif why := why_not_given(normpath(path)):
                yield ConfigIssue((name,), why)


def _server(server: ServerSettings) -> Iterator[ConfigIssue]:
    loopback = is_loopback(server.host)
    if not server.data_dir.strip():
        yield ConfigIssue(("data_dir",), "must not be empty")
    if not loopback and server.api_keys is None:
        yield ConfigIssue(
            ("host",), "is not loopback, so api_keys needs a key (for example, set HOLDFAST_API_KEY)"
        )
    if not loopback and server.api_keys == ():
        yield ConfigIssue(("api_keys",), f"can be empty only on loopback, but host is {server.host}")
    if server.api_keys == () and "*" in server.cors_origins:
        yield ConfigIssue(
            ("cors_origins",), "must not be * while api_keys is empty: any web page could use the server"
        )
    for index, key in enumerate(server.api_keys or ()):
        path: KeyPath = ("api_keys", index)
        if not key:
            yield ConfigIssue(path, "must not be empty")
        elif len(key) < KEY_CHARS_MIN:
            short = f"has fewer than {KEY_CHARS_MIN} characters"
            yield ConfigIssue(
                path, short if loopback else f"{short}, and host is not loopback", is_warning=loopback
            )


def _address(server: ServerSettings) -> Iterator[ConfigIssue]:
    for name in ("keep_sessions_days", "keep_sessions_max", "keep_sessions_bytes"):
        for source in getattr(server, name):
            if source not in {EVERY_SOURCE, OPENAI, RELAY, *CONVERSATIONS}:
                known = ", ".join(sorted({OPENAI, RELAY, *CONVERSATIONS}))
                yield ConfigIssue((name, source), f"is not a source; the sources are {known} and *")
    if server.tls_key and not server.tls_cert:
        yield ConfigIssue(("tls_cert",), "must not be empty while tls_key is set")
    if server.tls_cert and server.unix_socket:
        yield ConfigIssue(("tls_cert",), "doesn't work with unix_socket: encrypt in the reverse proxy")
    if len(server.unix_socket.encode()) > SOCKET_BYTES_MAX:
        yield ConfigIssue(("unix_socket",), f"must be at most {SOCKET_BYTES_MAX} bytes long")


def _blob_store(server: ServerSettings) -> Iterator[ConfigIssue]:
    blobs = server.blob_store
    if blobs.bucket and not server.store:
        yield ConfigIssue(("blob_store", "bucket"), "needs a Postgres database in server.store")
    if not blobs.bucket and (blobs.endpoint or blobs.prefix or blobs.access_key_id):
        yield ConfigIssue(("blob_store", "bucket"), "must not be empty")
    if bool(blobs.access_key_id) != bool(blobs.secret_access_key):
        missing = "secret_access_key" if blobs.access_key_id else "access_key_id"
        yield ConfigIssue(("blob_store", missing), "must not be empty: set both the key's ID and its secret")


def _target(target: TargetSettings) -> Iterator[ConfigIssue]:
    url = urlsplit(target.base_url)
    local = is_local(url.hostname or "")
    call_path = CALL_PATHS[target.wire]
    if url.path.rstrip("/").endswith(call_path):
        yield ConfigIssue(("base_url",), f"must not include {call_path}, which every call adds")
    yield from _target_keys(target, local=local)
    if url.scheme == "http" and (target.api_key or target.api_keys) and not local:
        yield ConfigIssue(("base_url",), "uses http, so the key is sent unencrypted", is_warning=True)
    if not _EFFORT.fullmatch(target.reasoning_effort):
        yield ConfigIssue(("reasoning_effort",), "must be a level such as low, medium or high")
    if target.temperature is not None and target.temperature > TEMPERATURE_MAX:
        yield ConfigIssue(("temperature",), f"must be at most {TEMPERATURE_MAX:g}")
    defaults = RunSettings(
        reasoning_effort=target.reasoning_effort,
        temperature=target.temperature,
        max_output_tokens=target.max_output_tokens,
    )
    base_url = f"{url.scheme}://{url.hostname}{url.path}"
    named = Target(name=target.name, wire=target.wire, base_url=base_url, model=target.model)
    effort = f" with the reasoning effort {target.reasoning_effort}" if target.reasoning_effort else ""
    for name in unsupported(named, defaults):
        yield ConfigIssue((name,), f"isn't accepted by {url.hostname}{effort}")


def _target_keys(target: TargetSettings, *, local: bool) -> Iterator[ConfigIssue]:
    has_key = bool(target.api_key or target.api_keys)
    if target.auth and has_key:
        yield ConfigIssue(("auth",), "can't be combined with a key: the sign-in takes its place")
    if not (has_key or target.auth or target.headers or local):
        yield ConfigIssue((), "has no api_key", is_warning=True)
    if target.api_key and target.api_keys:
        yield ConfigIssue(("api_keys",), "can't be combined with api_key; list all keys here")
    for index, key in enumerate(target.api_keys):
        if not key or key in target.api_keys[:index]:
            problem = "must not be empty" if not key else "repeats a key of the list"
            yield ConfigIssue(("api_keys", index), problem)


def _retry(retry: RetrySettings) -> Iterator[ConfigIssue]:
    if retry.backoff_base_s > retry.backoff_max_s:
        yield ConfigIssue(
            ("backoff_base_s",), f"must not be more than backoff_max_s, which is {retry.backoff_max_s:g}"
        )


_MCP_TOOL = re.compile(rf"{MCP_PREFIX}[A-Za-z0-9_-]+")


def _rule(table: Mapping[str, object]) -> Iterator[ConfigIssue]:
    """Check it as the policy reads it: an empty list is not the same as none."""
    from holdfast.policy.approval_rules import EVERY_TOOL, BadRule, rule_from  # only rules need it

    try:
        rule = rule_from(table)
    except BadRule as error:
        yield ConfigIssue((), f"is not valid: {error}")
        return
    if rule.tool.startswith(MCP_PREFIX):
        if not _MCP_TOOL.fullmatch(rule.tool):
            yield ConfigIssue((rule.verdict,), "is not a tool; a rule names one tool, or all with *")
    elif rule.tool not in {*BUILT_IN, EVERY_TOOL}:
        near = difflib.get_close_matches(rule.tool, BUILT_IN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the tools are {', '.join(BUILT_IN)}"
        yield ConfigIssue((rule.verdict,), f"is not a tool; {hint}")


def rules_of(approvals: ApprovalSettings) -> "tuple[ApprovalRule, ...]":
    """The configured rules as the approval policy knows them."""
    if not approvals.rules:
        return ()
    from holdfast.policy.approval_rules import ApprovalRule, plain_host  # only rules need it

    return tuple(
        ApprovalRule(
            rule.verdict,
            rule.tool,
            argv=rule.argv,
            paths=rule.paths,
            host=plain_host(rule.host),
            exact=rule.exact,
        )
        for rule in approvals.rules
    )


def _mcp_server(server: McpServerSettings) -> Iterator[ConfigIssue]:
    if bool(server.command) == bool(server.url):
        yield ConfigIssue((), "needs either a command or a url")
    elif server.command and not server.command[0].strip():
        yield ConfigIssue(("command",), "must start with the name of a program")
    elif server.command and server.headers:
        yield ConfigIssue(("headers",), "only work with a url; use env with a command")
    elif server.command and (server.transport != "auto" or server.oauth != McpOAuthSettings()):
        key = "oauth" if server.oauth != McpOAuthSettings() else "transport"
        yield ConfigIssue((key,), "only works with a url")
    elif server.oauth.client_secret and not server.oauth.client_id:
        yield ConfigIssue(("oauth", "client_id"), "is required with client_secret")
    elif server.url and server.env:
        yield ConfigIssue(("env",), "only works with a command; use headers with a url")
    else:
        yield from _unusable(server)


def _unusable(server: McpServerSettings) -> Iterator[ConfigIssue]:
    """Check it as its tools read it, so that errors show before the server starts."""
    from holdfast.config.mcp_servers import BadMcpServer, mcp_config  # few configurations have one

    try:
        mcp_config(server)
    except BadMcpServer as error:
        yield ConfigIssue((), f"can't be used: {error}")


def _relay(settings: Settings) -> Iterator[ConfigIssue]:
    names = [target.name for target in settings.targets]
    for model, wanted in settings.relay.models.items():
        path: KeyPath = ("relay", "models", model)
        if not wanted:
            yield ConfigIssue(path, "must name a target")
        for name in wanted:
            if name not in names:
                yield ConfigIssue(
                    path, f"names no target: {name!r}; the targets are {', '.join(names) or 'none'}"
                )
    if settings.relay.keep == "none":
        for index, key in enumerate(settings.keys):
            if key.budget_usd_per_day or key.budget_tokens_per_day:
                why = 'counts relayed calls, so relay.keep must be "usage" or "all"'
                yield ConfigIssue(("keys", index), f"has a budget, which {why}")
    for index, target in enumerate(settings.targets):
        if _is_this_server(target.base_url, settings.server):
            yield ConfigIssue(
                ("targets", index, "base_url"),
                "is this server's own address, so it would call itself; set the provider's URL",
            )


def _is_this_server(base_url: str, server: ServerSettings) -> bool:
    url = urlsplit(base_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    own = {server.host, *server.hosts}
    host = url.hostname or ""
    return server.port == port and (host in own or is_loopback(host))


def _together(settings: Settings) -> Iterator[ConfigIssue]:
    for section, feature in absent_features(settings).items():
        yield ConfigIssue((*section.split("."),), f"needs the feature {feature}, which isn't installed")
    hedging = settings.targets and settings.targets[0].retry.hedge
    if hedging and len(settings.targets) == 1:
        yield ConfigIssue(("targets", 0, "retry", "hedge"), "needs a second target", is_warning=True)
    yield from _relay(settings)
    owners: dict[tuple[str, ...], str] = {}
    for index, channel in enumerate(settings.channels):
        if (owner := owners.setdefault(channel.bot, channel.name)) != channel.name:
            text = f"is also that of the channel {owner}; make a bot for each"
            yield ConfigIssue(("channels", index, "token"), text)
    yield from _hosts(("browser", "hosts"), settings.browser.hosts)
    title = settings.agent.title_target
    known = {name for target in settings.targets for name in (target.name, target.model)}
    if title not in {"", "off", *known}:
        names = ", ".join(target.name for target in settings.targets) or "none"
        yield ConfigIssue(("agent", "title_target"), f'names no target; use "off" or one of these: {names}')
    if settings.agent.summary_target not in {"", *known}:
        names = ", ".join(target.name for target in settings.targets) or "none"
        yield ConfigIssue(("agent", "summary_target"), f"names no target; use one of these: {names}")
    yield from _vision(settings)
    yield from _speech(settings)
    yield from _web_search(settings)


def _speech(settings: Settings) -> Iterator[ConfigIssue]:
    speech = settings.speech
    if not speech.target:
        return
    found = next((one for one in settings.targets if one.name == speech.target), None)
    if speech.command:
        yield ConfigIssue(("speech", "target"), "can't be combined with `command`: remove one of them")
    elif found is None:
        names = ", ".join(target.name for target in settings.targets) or "none"
        yield ConfigIssue(("speech", "target"), f"names no target; use one of these: {names}")
    elif found.auth:
        yield ConfigIssue(("speech", "target"), "needs a target with an API key: sign-ins take no audio")


def _vision(settings: Settings) -> Iterator[ConfigIssue]:
    wanted, here = settings.agent.vision_target, ("agent", "vision_target")
    if not wanted:
        return
    seeing = [target for target in settings.targets if target.vision]
    if wanted not in {name for target in seeing for name in (target.name, target.model)}:
        names = ", ".join(target.name for target in seeing) or "none"
        yield ConfigIssue(here, f"names no target that sees images; use one of these: {names}")
    elif len(seeing) == len(settings.targets):
        yield ConfigIssue(here, "has no effect, because no target has `vision = false`", is_warning=True)


def _web_search(settings: Settings) -> Iterator[ConfigIssue]:
    search = settings.web_search
    if search.service == "searxng" and not search.url:
        yield ConfigIssue(("web_search", "url"), "is missing: set the URL of your SearXNG server")
    if search.service in {"brave", "tavily", "exa"} and not search.api_key:
        yield ConfigIssue(("web_search", "api_key"), f"is missing: {search.service} needs one")
