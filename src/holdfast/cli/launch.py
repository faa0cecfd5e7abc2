"""The commands that start an agent, as values: whoever read the command line, they begin the same way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from holdfast.host.fast_imports import ahead, uncollected


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """`holdfast serve`; None is "not given", here and below."""

    host: str | None = None
    port: int | None = None
    data_dir: str | None = None
    config: str | None = None
    workspace: str | None = None
    model: str | None = None
    no_auth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """`holdfast chat`, and `holdfast` alone."""

    session: str = ""
    model: str | None = None
    workspace: str | None = None
    data_dir: str | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`holdfast run`."""

    words: Sequence[str] = ()
    session: str = ""
    as_json: bool = False
    model: str | None = None
    workspace: str | None = None
    data_dir: str | None = None
    config: str | None = None


Start: TypeAlias = Serve | Chat | Run


def start(wanted: Start) -> int:
    """Do it; the exit code."""
    # It reads the certificates of all authorities meanwhile, for which it needs nobody.
    ahead("aiohttp")
    match wanted:
        case Serve():
            return _serve(wanted)
        case Chat():
            return _chat(wanted)
        case Run():
            return _run(wanted)
        case _:
            assert_never(wanted)


def _serve(wanted: Serve) -> int:
    with uncollected():
        from holdfast.cli.serve import serve
    flags = _flags(wanted) | {
        "host": wanted.host,
        "port": wanted.port,
        "model": wanted.model,
        "no_auth": wanted.no_auth or None,
    }
    return serve(flags)


def _chat(wanted: Chat) -> int:
    with uncollected():
        from holdfast.cli.chat.conversation import chat
    return chat(_flags(wanted), session=wanted.session, model=wanted.model or "")


def _run(wanted: Run) -> int:
    with uncollected():
        from holdfast.cli.run import Task, run, text_of
    task = Task(
        text=text_of(wanted.words),
        session_id=wanted.session,
        model=wanted.model or "",
        form="json" if wanted.as_json else "text",
    )
    return run(_flags(wanted), task)


def _flags(wanted: Start) -> dict[str, object]:
    return {"data_dir": wanted.data_dir, "config": wanted.config, "agent_workspace": wanted.workspace}
