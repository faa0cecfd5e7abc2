"""`holdfast config trust`: from now on, the configuration file of a directory counts as it stands."""

import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.configuration import BadConfiguration, Given, load, outside
from holdfast.cli.configuration_files import FILE_NAME, ConfigFile, config_home, read_config
from holdfast.cli.configuration_trust import TrustBook, TrustUnreadable
from holdfast.settings import Settings

OK, FAILED = 0, 1


def trust(name: str | None) -> int:
    """Show what the file may do and let it count; the exit code."""
    try:
        file, given = _given(name)
        settings = load(given).settings
        _book(given).trust(file.path, file.text)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    print(f"{file.path.resolve()} counts from now on, as it stands. A change of it needs your trust again.")
    for line in powers(settings):
        print(f"  {line}")
    return OK


def distrust(name: str | None) -> int:
    """Let the file no longer count; the exit code."""
    path = _path(name)
    try:
        known = _book(outside({"config": None})).forget(path)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    print(f"{path.resolve()} no longer counts." if known else f"{path.resolve()} was not trusted.")
    return OK


def _path(name: str | None) -> Path:
    path = Path(name or FILE_NAME)
    return path / FILE_NAME if path.is_dir() else path


def _given(name: str | None) -> tuple[ConfigFile, Given]:
    path = _path(name)
    file = read_config(path)
    if file is None:
        raise BadConfiguration([f"{path}: there is no such file"])
    return file, outside({"config": str(path)})


def _book(given: Given) -> TrustBook:
    return TrustBook(config_home(given.environ))


def powers(settings: Settings) -> Iterator[str]:
    """What a configuration can do to its user, in plain words."""
    for target in settings.targets:
        yield f"sends conversations to {target.base_url} (target {target.name})"
    for server in settings.mcp_servers:
        yield f"starts {' '.join(server.command)}" if server.command else f"calls tools at {server.url}"
    if settings.approvals.mode != "ask":
        yield f"asks less before it acts (approvals.mode = {settings.approvals.mode})"
    for rule in settings.approvals.rules:
        if rule.verdict == "allow":
            what = " ".join((*rule.argv, *rule.paths, rule.host)).strip() or "anything"
            yield f"lets {rule.tool} run unasked: {what}"
    if settings.agent.instructions:
        yield "tells every run what to do first (agent.instructions)"
