"""The commands that start an agent, as values, independent of the command line parser."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

from msgspec import Struct, field

from holdfast.host.fast_imports import fast_imports, import_in_background

PORT_DIGITS = 5
_COMMON = {
    "--model": "model",
    "--workspace": "workspace",
    "--data-dir": "data_dir",
    "--config": "config",
}
_SESSION = {
    "--session": "session",
    "-s": "session",
    "--mode": "mode",
    "--effort": "effort",
    "--agent": "agent",
}


class ServeCommand(Struct, frozen=True, kw_only=True):
    """`holdfast serve`; None is "not given", here and below."""

    host: str | None = None
    port: int | None = None
    data_dir: str | None = None
    config: str | None = None
    workspace: str | None = None
    model: str | None = None
    no_auth: bool = False


class ChatCommand(Struct, frozen=True, kw_only=True):
    """`holdfast chat`, and `holdfast` alone."""

    session: str = ""
    mode: str = ""
    effort: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    agent: str = ""
    model: str | None = None
    workspace: str | None = None
    data_dir: str | None = None
    config: str | None = None


class RunCommand(Struct, frozen=True, kw_only=True):
    """`holdfast run`."""

    words: Sequence[str] = ()
    session: str = ""
    mode: str = ""
    effort: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    agent: str = ""
    as_json: bool = False
    model: str | None = None
    workspace: str | None = None
    data_dir: str | None = None
    config: str | None = None


StartCommand: TypeAlias = ServeCommand | ChatCommand | RunCommand


class _Options(Struct, frozen=True):
    """A command's options, by the field that each fills."""

    make: Callable[..., StartCommand]
    texts: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict[str, str])


_OPTIONS: Mapping[str, _Options] = MappingProxyType(
    {
        "run": _Options(RunCommand, _COMMON | _SESSION, {"--json": "as_json"}),
        "chat": _Options(ChatCommand, _COMMON | _SESSION),
        "serve": _Options(ServeCommand, _COMMON | {"--host": "host"}, {"--no-auth": "no_auth"}),
    }
)


def parse_quickly(line: Sequence[str]) -> StartCommand | None:
    """Parse the command line, if it's one of these without unusual options."""
    if not line or line[0].partition("=")[0] in _OPTIONS["chat"].texts:
        return _parse(_OPTIONS["chat"], line)  # without a command it is the chat, with its options
    options = _OPTIONS.get(line[0])
    return None if options is None else _parse(options, line[1:])


def _parse(options: _Options, line: Sequence[str]) -> StartCommand | None:
    given: dict[str, Any] = {}
    words: list[str] = []
    rest = iter(line)
    for word in rest:
        name, equals, behind = word.partition("=")
        if word in options.flags:
            given[options.flags[word]] = True
        elif name in options.texts and (name.startswith("--") or not equals):
            value = behind if equals else next(rest, "")
            if value.startswith("-") or not value:
                return None
            given[options.texts[name]] = value
        elif word == "--port" and options.make is ServeCommand:
            value = next(rest, "")
            if not (value.isascii() and value.isdigit()) or len(value) > PORT_DIGITS:
                return None
            given["port"] = int(value)
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    if words and options.make is not RunCommand:
        return None
    return options.make(**given, words=words) if words else options.make(**given)


def start(wanted: StartCommand) -> int:
    """Do it; the exit code."""
    match wanted:
        case ServeCommand():
            return _serve(wanted)
        case ChatCommand():
            return _chat(wanted)
        case RunCommand():
            return _run(wanted)
        case _:
            assert_never(wanted)


def _serve(wanted: ServeCommand) -> int:
    with fast_imports():
        from holdfast.cli.serve import serve
    flags = _flags(wanted) | {
        "host": wanted.host,
        "port": wanted.port,
        "model": wanted.model,
        "no_auth": wanted.no_auth or None,
    }
    return serve(flags)


def _import_client() -> None:
    """Import the HTTP client, which loads the CA certificates. A server doesn't need it to start."""
    import_in_background("aiohttp")


def _chat(wanted: ChatCommand) -> int:
    _import_client()
    with fast_imports():
        from holdfast.cli.chat.conversation import ChatStart, chat
    if wrong := _wrong_mode(wanted.mode):
        return wrong
    start = ChatStart(
        session=wanted.session,
        model=wanted.model or "",
        mode=wanted.mode,
        options=_model_options(wanted),
        agent=wanted.agent,
    )
    return chat(_flags(wanted), start)


def _model_options(wanted: ChatCommand | RunCommand) -> dict[str, object]:
    """Return the effort, temperature and length that messages are sent with."""
    given: dict[str, object] = {"temperature": wanted.temperature, "max_tokens": wanted.max_tokens}
    given["reasoning_effort"] = wanted.effort or None
    return {name: value for name, value in given.items() if value is not None}


def _wrong_mode(mode: str) -> int:
    """Report a mode that doesn't exist; the exit code, or 0."""
    from holdfast.values import MODES

    if not mode or mode in MODES:
        return 0
    from holdfast.cli.terminal.output import echo_error

    echo_error(f"holdfast: --mode must be one of {', '.join(MODES)}")
    return 2


def _run(wanted: RunCommand) -> int:
    _import_client()
    with fast_imports():
        from holdfast.cli.run import Task, read_task, run
    if wrong := _wrong_mode(wanted.mode):
        return wrong
    task = Task(
        text=read_task(wanted.words),
        session_id=wanted.session,
        model=wanted.model or "",
        mode=wanted.mode,
        options=_model_options(wanted),
        agent=wanted.agent,
        form="json" if wanted.as_json else "text",
    )
    return run(_flags(wanted), task)


def _flags(wanted: StartCommand) -> dict[str, object]:
    return {"data_dir": wanted.data_dir, "config": wanted.config, "agent_workspace": wanted.workspace}
