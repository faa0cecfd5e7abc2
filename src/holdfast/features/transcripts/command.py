"""Imports transcripts of Claude Code and Codex, and rescues damaged ones; their files stay unchanged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.load import BadConfiguration, load, read_environment
from holdfast.config.settings import Settings
from holdfast.features.transcripts import claude_code, codex
from holdfast.features.transcripts.conversation import ImportedConversation
from holdfast.features.transcripts.records import Losses, records
from holdfast.features.transcripts.storing import (
    no_workspace,
    own_workspace,
    preview_conversations,
    store_conversations,
)
from holdfast.host.lock import DirectoryBusy
from holdfast.interfaces.journal import JournalError
from holdfast.safe_text import safe_line

OK, FAILED = 0, 1
LOSSES_SHOWN_MAX = 50
LINE_CHARS_MAX = 1_000
RECORDS_TO_JUDGE = 100

How: TypeAlias = Literal["try", "do"]
Program: TypeAlias = Literal["claude-code", "codex"]
_HOMES: Mapping[Program, tuple[str, str]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
}


class _Report(Struct):
    """The losses, each with its file."""

    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, path: Path, losses: Losses) -> None:
        """Add those of a file."""
        self.lines += [f"{path}: {text}" for text in losses.texts]
        self.count += losses.count

    def show(self) -> None:
        """Print them."""
        for line in self.lines[:LOSSES_SHOWN_MAX]:
            echo(f"lost: {safe_line(line, LINE_CHARS_MAX)}")
        if self.count > LOSSES_SHOWN_MAX:
            echo(f"lost: and {self.count - min(len(self.lines), LOSSES_SHOWN_MAX)} more")


def import_from(
    program: Program, home: str | None, flags: Mapping[str, object], *, how: How, keep_workspaces: bool
) -> int:
    """Import all sessions of the program, or only report the result; returns the exit code."""
    found = _settings(flags)
    if found is None:
        return FAILED
    settings, environ = found
    variable, name = _HOMES[program]
    folder = Path(home or environ.get(variable) or f"{environ.get('HOME', '')}/{name}").expanduser()
    report = _Report()
    read = _claude_code if program == "claude-code" else _codex
    try:
        conversations = read(folder, report)
    except OSError as error:
        echo_error(
            f"holdfast: can't read sessions in {folder}: {error.strerror}; pass the program's directory"
        )
        return FAILED
    code = _import(conversations, settings, how=how, keep_workspaces=keep_workspaces)
    report.show()
    return code


def rescue_file(file: str, flags: Mapping[str, object], *, how: How) -> int:
    """Import one transcript as far as it is intact, and report what was lost; returns the exit code."""
    found = _settings(flags)
    if found is None:
        return FAILED
    path, losses = Path(file).expanduser(), Losses()
    try:
        conversation = _reader_of(path)(path, losses)
    except OSError as error:
        echo_error(f"holdfast: can't read {file}: {error.strerror}")
        return FAILED
    if conversation is None:
        echo_error(f"holdfast: found no messages of Claude Code or Codex in {file}")
        return FAILED
    _describe(conversation)
    if (code := _import(iter([conversation]), found[0], how=how, keep_workspaces=False)) != OK:
        return code
    report = _Report()
    report.add(path, losses)
    report.show()
    if not losses.count:
        echo("Nothing was lost.")
    if how == "do":
        echo(f"Continue it with `holdfast chat --session {conversation.session_id}`.")
    return OK


def _settings(flags: Mapping[str, object]) -> tuple[Settings, Mapping[str, str]] | None:
    try:
        inputs = read_environment(flags)
        settings = load(inputs).settings
    except BadConfiguration as error:
        echo_error(f"holdfast: {error}")
        return None
    if settings.server.store:
        echo_error(
            "holdfast: can only import into an SQLite store. Import with --data-dir and without "
            "server.store, then run `holdfast store copy`",
        )
        return None
    return settings, inputs.environ


def _import(
    conversations: Iterator[ImportedConversation], settings: Settings, *, how: How, keep_workspaces: bool
) -> int:
    data_dir = settings.data_dir
    try:
        if how == "do":
            workspace_of = own_workspace if keep_workspaces else no_workspace
            counts = store_conversations(conversations, data_dir, workspace_of=workspace_of)
        else:
            counts = preview_conversations(conversations, data_dir)
    except (DirectoryBusy, JournalError, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    for line in counts.lines():
        echo(line)
    if how == "try":
        echo("Dry run: nothing was written.")
    return OK


def _claude_code(home: Path, report: _Report) -> Iterator[ImportedConversation]:
    return _each(list(claude_code.files(home)), claude_code.read_claude_code, report)


def _codex(home: Path, report: _Report) -> Iterator[ImportedConversation]:
    archived = dict(codex.files(home))
    names = codex.names_of(home)

    def read(path: Path, losses: Losses) -> ImportedConversation | None:
        return codex.read_codex(path, losses, archived=archived[path], names=names)

    return _each(list(archived), read, report)


def _each(
    paths: Sequence[Path],
    read: Callable[[Path, Losses], ImportedConversation | None],
    report: _Report,
) -> Iterator[ImportedConversation]:
    for path in paths:
        losses = Losses()
        try:
            conversation = read(path, losses)
        except OSError as error:
            losses.add(f"can't read the file: {error.strerror}")
            conversation = None
        report.add(path, losses)
        if conversation is not None:
            yield conversation


def _reader_of(path: Path) -> Callable[[Path, Losses], ImportedConversation | None]:
    """The reader for the program that most of the first lines are of."""
    votes = 0
    for number, record in enumerate(records(path, Losses(), is_record=lambda _: True)):
        votes += codex.is_record(record) - claude_code.is_record(record)
        if number == RECORDS_TO_JUDGE:
            break
    return codex.read_codex if votes > 0 else claude_code.read_claude_code


def _describe(conversation: ImportedConversation) -> None:
    people = sum(message.role == "user" for message in conversation.messages)
    answers = sum(message.role == "assistant" for message in conversation.messages)
    calls = sum(len(message.tool_calls) for message in conversation.messages)
    results = sum(message.role == "tool" for message in conversation.messages)
    echo(
        f"{conversation.program}: {counted(people, 'message')} of the user, {counted(answers, 'answer')}, "
        f"{counted(calls, 'tool call')} and {counted(results, 'result')}"
    )
