"""`holdfast config trust`: from now on, the configuration file of a directory counts as it stands."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.files import FILE_NAME, ConfigFile, config_home, read_config
from holdfast.config.load import BadConfiguration, ConfigInputs, Loaded, load, read_environment
from holdfast.config.secret_values import read_found_file
from holdfast.config.sources import KeyPath, dotted
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.config.value_formats import is_loopback
from holdfast.decisions.proxies import shown_proxy
from holdfast.safe_text import exact_line
from holdfast.values import asks_less

OK, FAILED = 0, 1


def trust(name: str | None) -> int:
    """Show what the file may do and let it count; the exit code."""
    try:
        file, inputs = _given(name)
        loaded = load(inputs)
        _book(inputs).trust(file.path, file.text)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    lines = [f"  {exact_line(line)}" for line in powers(loaded)]
    ending = " It:" if lines else ""
    echo(f"Holdfast now trusts {_shown(file.path)}. If the file changes, trust it again.{ending}")
    for line in lines:
        echo(line)
    return OK


def distrust(name: str | None) -> int:
    """Let the file no longer count; the exit code."""
    path = _path(name)
    try:
        known = _book(read_environment({"config": None})).forget(path)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    echo(f"Holdfast no longer trusts {_shown(path)}." if known else f"{_shown(path)} wasn't trusted.")
    return OK


def _shown(path: Path) -> str:
    return exact_line(str(path.resolve()))


def _path(name: str | None) -> Path:
    path = Path(name or FILE_NAME)
    return path / FILE_NAME if path.is_dir() else path


def _given(name: str | None) -> tuple[ConfigFile, ConfigInputs]:
    path = _path(name)
    file = read_config(path, read=read_found_file)
    if file is None:
        raise BadConfiguration([f"{path}: file not found"])
    return file, read_environment({"config": str(path)})


def _book(inputs: ConfigInputs) -> TrustedFiles:
    return TrustedFiles(config_home(inputs.environ))


def powers(loaded: Loaded) -> Iterator[str]:
    """Describe the risks of a configuration."""
    settings = loaded.settings
    for index, target in enumerate(settings.targets):
        yield f"sends conversations to {target.base_url} (target {target.name})"
        if target.proxy and _in_file(loaded, ("targets", index, "proxy")):
            yield f"sends them through the proxy {shown_proxy(target.proxy)}"
    for path, reference in loaded.references.items():
        if loaded.sources.near(path).kind == "file":
            yield f"reads {reference} (for {dotted(path)})"
    for server in settings.mcp_servers:
        yield f"starts {' '.join(server.command)}" if server.command else f"calls tools at {server.url}"
        if server.env:
            yield f"sets {', '.join(server.env)} for {server.name}"
    for hook in settings.hooks:
        yield f"starts {' '.join(hook.command)} ({hook.on}), outside the sandbox"
    for channel in settings.channels:
        yield f"lets people talk to the agent on {channel.kind} (channel {channel.name})"
    yield from _of_server(loaded)
    yield from _of_agent(loaded)


def _of_server(loaded: Loaded) -> Iterator[str]:
    server = loaded.settings.server
    if not is_loopback(server.host):
        yield f"lets other machines call the server (server.host = {server.host})"
    if _in_file(loaded, ("server", "api_keys")):
        who = "anyone with one of its keys" if server.api_keys else "anyone on this machine"
        yield f"lets {who} call the server (server.api_keys)"
    if server.workspaces:
        yield f"lets every key use workspaces in {', '.join(server.workspaces)} (server.workspaces)"
    if server.cors_origins:
        yield f"lets web pages of {', '.join(server.cors_origins)} call it (server.cors_origins)"


def _of_agent(loaded: Loaded) -> Iterator[str]:
    settings = loaded.settings
    if _in_file(loaded, ("agent", "workspace")):
        yield f"lets agents work in {settings.workspace} (agent.workspace)"
    if settings.approvals.mode != "ask":
        yield f"requires fewer approvals (approvals.mode = {settings.approvals.mode})"
    if asks_less(settings.approvals.mode_max, "ask"):
        yield f"lets chats and added keys require fewer approvals ({settings.approvals.mode_max})"
    for rule in settings.approvals.rules:
        if rule.verdict == "allow":
            what = " ".join((*rule.argv, *rule.paths, rule.host)).strip() or "anything"
            yield f"lets {rule.tool} run without approval: {what}"
    if settings.agent.instructions:
        yield "adds instructions to every run (agent.instructions)"


def _in_file(loaded: Loaded, path: KeyPath) -> bool:
    return loaded.sources.of(path).kind == "file"
