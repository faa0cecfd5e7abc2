"""`holdfast doctor`: what works here, what doesn't, and what to do about it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from rich.console import Console
from rich.text import Text
from typing_extensions import override

from holdfast.catalog import FEATURES
from holdfast.cli.doctor import machine, store
from holdfast.cli.doctor.findings import DoctorFinding, State, counted, fault, note, ok
from holdfast.cli.doctor.targets import ask_targets
from holdfast.cli.terminal.output import echo, echo_json
from holdfast.config.load import BadConfiguration, Loaded, load_configuration
from holdfast.config.settings import Settings
from holdfast.host.stores import shared_backend
from holdfast.host.used_settings import changed_settings
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.system_clock import SystemClock
from holdfast.safe_text import exact_line, safe
from holdfast.targets import Target

_Asked = TypeVar("_Asked")
AskOutside: TypeAlias = Callable[[Settings], Awaitable[Sequence[DoctorFinding]]]
Ask: TypeAlias = Callable[[Sequence[Target]], Awaitable[Sequence[DoctorFinding]]]

OK, FAILED = 0, 1
MARKS: Mapping[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("!", "magenta"),
    "fault": ("✗", "bold red"),
}


async def ask_outside(settings: Settings) -> Sequence[DoctorFinding]:
    """Run the checks of features."""
    return await _of_features(settings, offline=False)


async def ask_nobody_outside(settings: Settings) -> Sequence[DoctorFinding]:
    """The same without calling any other program."""
    return await _of_features(settings, offline=True)


async def _of_features(settings: Settings, *, offline: bool) -> Sequence[DoctorFinding]:
    workspace = await asyncio.to_thread(lambda: settings.workspace)
    context = DoctorContext(settings, workspace, SystemClock(), offline)
    checks = [feature.part(feature.doctor) for feature in FEATURES.values() if feature.doctor]
    return [finding for check in checks for finding in await check(context)]


class Report(Protocol):
    """Where findings go as they are made."""

    def busy(self, what: str) -> AbstractContextManager[object]:
        """Show that something takes a while."""
        ...

    def progress(self, what: str) -> None:
        """Show the progress."""
        ...

    def write(self, finding: DoctorFinding) -> None:
        """Write one finding."""
        ...

    def end(self, findings: Sequence[DoctorFinding]) -> None:
        """End the report."""
        ...


def doctor(
    flags: Mapping[str, object],
    *,
    report: Report | None = None,
    ask: Ask = ask_targets,
    ask_others: AskOutside = ask_outside,
) -> int:
    """Check everything and report; the exit code is 1 if there's a fault."""
    report = report or (ColourReport() if sys.stdout.isatty() else PlainReport())
    findings: list[DoctorFinding] = []
    for finding in examine(flags, report, ask=ask, ask_others=ask_others):
        findings.append(finding)
        report.write(finding)
    report.end(findings)
    return FAILED if any(finding.state == "fault" for finding in findings) else OK


async def ask_nobody(targets: Sequence[Target]) -> Sequence[DoctorFinding]:
    """Report skipped target checks."""
    return [
        note(f"target {target.name}", "not checked", "run doctor without --offline") for target in targets
    ]


EVERYBODY = (ask_targets, ask_outside)
NOBODY = (ask_nobody, ask_nobody_outside)


def examine(
    flags: Mapping[str, object],
    report: Report,
    *,
    ask: Ask = ask_targets,
    ask_others: AskOutside = ask_outside,
) -> Iterator[DoctorFinding]:
    """Every finding, in order."""
    try:
        loaded = load_configuration(flags)
    except BadConfiguration as error:
        for line in error.lines:
            yield fault("configuration", line, "fix it, then run `holdfast config check`")
        yield machine.versions()
        return
    yield from _configuration(loaded)
    settings = loaded.settings
    yield machine.versions()
    yield machine.data_directory(settings.data_dir)
    served, holder = machine.serving(settings.data_dir)
    yield served
    if holder is not None and (changed := changed_settings(loaded)):
        line = f"the running server uses different values for {', '.join(changed)}"
        yield note("settings", line, "restart the server to apply this configuration")
    yield machine.port(settings, holder)
    yield machine.disk_room(settings.data_dir)
    yield from _store(loaded, report)
    yield machine.open_files(settings)
    if holder is not None and (found := machine.files_of_server(holder)) is not None:
        yield found
    yield machine.ripgrep()
    yield machine.daemons()
    yield machine.sandbox(settings)
    yield machine.quarantine(settings.data_dir)
    yield machine.page()
    with report.busy("checking features"):
        others = asyncio.run(_answers(ask_others, settings))
    yield from others
    if loaded.is_demo:
        advice = "set a key such as ANTHROPIC_API_KEY, start a local model server, or configure [[targets]]"
        yield note("targets", "none configured, so the built-in demo model answers", advice)
    else:
        targets = [
            target for target in settings.model_targets() if not target.auth
        ]  # a feature checks the rest
        with report.busy(f"calling {counted(len(targets), 'target')}"):
            answers = asyncio.run(_answers(ask, targets))
        yield from answers


async def _answers(
    ask: Callable[[_Asked], Awaitable[Sequence[DoctorFinding]]], asked: _Asked
) -> Sequence[DoctorFinding]:
    return await ask(asked)


def _configuration(loaded: Loaded) -> Iterator[DoctorFinding]:
    if loaded.ignored is not None:
        yield note("configuration", loaded.ignored.headline, loaded.ignored.advice)
    other = "no other holdfast.toml" if loaded.ignored else "no holdfast.toml"
    yield ok("configuration", f"read from {loaded.file}" if loaded.file else f"{other}; using the defaults")
    for warning in loaded.warnings:
        yield note("configuration", warning, "run `holdfast config check` for details")
    for text in loaded.notes:  # about variables of hermes-agent
        yield note("configuration", text, "unset the variable, or ignore this")


def _store(loaded: Loaded, report: Report) -> Iterator[DoctorFinding]:
    settings = loaded.settings
    if settings.server.store:
        with report.busy("checking the database"):
            found = shared_backend().check(settings)
        yield from found
        yield store.spool(settings)
        return

    def on_progress(done: int, total: int) -> None:
        report.progress(f"reading the store: {done} of {total} events")

    with report.busy("reading the store"):
        whole, checked = store.integrity(settings, on_progress=on_progress)
    yield whole
    yield machine.clock(checked.newest_ms)
    yield store.spool(settings)
    with report.busy("measuring the disk"):
        saving = store.saving(settings)
    yield saving


def _lines(finding: DoctorFinding) -> Sequence[str]:
    """The name, text and advice, each on one line: they can contain names of anyone's files."""
    return [exact_line(text) for text in (finding.name, finding.text, finding.advice)]


class PlainReport(Report):
    """Lines for a file or a pipe."""

    @override
    def busy(self, what: str) -> AbstractContextManager[object]:
        del what
        return nullcontext()

    @override
    def progress(self, what: str) -> None:
        pass

    @override
    def write(self, finding: DoctorFinding) -> None:
        name, text, advice = _lines(finding)
        echo(f"{finding.state:<5} {name}: {text}")
        if advice:
            echo(f"      {advice}")

    @override
    def end(self, findings: Sequence[DoctorFinding]) -> None:
        echo(summary(findings))


class JsonReport(PlainReport):
    """One JSON document for a program."""

    @override
    def write(self, finding: DoctorFinding) -> None:
        pass

    @override
    def end(self, findings: Sequence[DoctorFinding]) -> None:
        healthy = not any(finding.state == "fault" for finding in findings)
        echo_json(msgspec.json.format(msgspec.json.encode({"ok": healthy, "findings": findings})))


class ColourReport(PlainReport):
    """Marks in colour and a spinner, for a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._update: Callable[[str], None] = lambda _: None

    @override
    def busy(self, what: str) -> AbstractContextManager[object]:
        status = self._console.status(Text(safe(what)))
        self._update = lambda text: status.update(Text(safe(text)))
        return status

    @override
    def progress(self, what: str) -> None:
        self._update(what)

    @override
    def write(self, finding: DoctorFinding) -> None:
        mark, style = MARKS[finding.state]
        name, text, advice = _lines(finding)
        self._console.print(Text.assemble((mark, style), " ", (name, "bold"), f"  {text}"))
        if advice:
            self._console.print(Text(f"  → {advice}", style="cyan"))

    @override
    def end(self, findings: Sequence[DoctorFinding]) -> None:
        self._console.print(Text(f"\n{summary(findings)}", style="bold"))


def summary(findings: Sequence[DoctorFinding]) -> str:
    """The findings in one line."""
    faults = sum(finding.state == "fault" for finding in findings)
    notes = sum(finding.state == "note" for finding in findings)
    told = [counted(n, word) for n, word in ((faults, "fault"), (notes, "note")) if n]
    if faults:
        return f"{', '.join(told)}. Each one includes a suggested fix."
    return f"Everything works{f', with {told[0]}' if told else ''}."
