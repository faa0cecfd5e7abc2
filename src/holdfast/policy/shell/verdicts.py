"""Judges a shell command: its steps with the reasons to ask about each, and reasons to refuse the whole."""

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.policy.autorun_files import autorun_in, written_later
from holdfast.policy.path_facts import HARMLESS_DEVICES, PathFacts
from holdfast.policy.secret_reads import secret_reads
from holdfast.policy.shell.autorun_writes import autorun_findings, links_made, through_links
from holdfast.policy.shell.commands import Redirect, Script, SimpleCommand
from holdfast.policy.shell.dangers import bombs, circles, dangers, losses
from holdfast.policy.shell.file_patterns import has_patterns, with_names
from holdfast.policy.shell.git import repository_findings
from holdfast.policy.shell.guesses import guessed
from holdfast.policy.shell.programs import concerns
from holdfast.policy.shell.read_only_programs import ReadVerdict, reading_of
from holdfast.policy.shell.syntax import TEXT_BYTES_MAX, parse
from holdfast.policy.shell.words import (
    EXPANDED,
    FROM_INPUT,
    LOOPED,
    SYSTEM_DIRECTORIES,
    Word,
    known_name,
    likely_name,
)
from holdfast.policy.shell.wrappers import ScriptStep, steps
from holdfast.policy.verdicts import PolicyFinding

DIRECTORIES_MAX = 4
STEPS_MAX = 1_000
GUESSES_MAX = 2_000
STEPS_READ_MAX = 20_000
TOO_MANY = "It runs more commands than Holdfast checks."

# fmt: off
# Variables that only change how a program prints or how much it says.
_HARMLESS_SETTINGS = frozenset((
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "LINES",
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "RUST_BACKTRACE", "NODE_ENV", "DEBUG",
))
# fmt: on
_COPIES = frozenset(("cp", "mv", "install", "ln"))
_GREPS = frozenset(("grep", "egrep", "fgrep"))
# Not file:, whose path is a path here, and no host that begins with a slash or a dot.
_ADDRESS = re.compile(
    r"(?:--?[\w-]+=)?((?:https?|ftps?|wss?|ssh|git|rsync|sftp)://(?:[^\W_]|\[).*)", re.IGNORECASE | re.DOTALL
)
# Variables that hold no secret, and the status of the last command.
_KNOWN_VARIABLES = re.compile(r"\$(?:(?:HOME|PWD|OLDPWD|USER|LOGNAME|SHELL)\b|\?)")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_MORE_EXPANSIONS = re.compile(r"[$`*?\[{~]")
_TOO_LONG = (
    f"A command can be up to {TEXT_BYTES_MAX // 1024} kB long. Write the text to a file and run the file."
)


class JudgedStep(Struct, frozen=True):
    """One step: its words, where it would run, what it may touch, and its findings."""

    argv: tuple[str, ...]
    settings: tuple[str, ...]  # NAME=value, for this command alone
    literal: bool  # the words are all fixed
    outers: tuple[tuple[str, ...], ...]  # the words of the wrappers around it
    cwds: tuple[str, ...]
    findings: tuple[PolicyFinding, ...]
    fed: bool
    writes: tuple[str, ...]  # resolved targets of redirections that write
    paths: tuple[str, ...]  # resolved places that its words and other redirections may name
    down: tuple[str, ...]  # resolved directories that it goes down into
    reads: tuple[str, ...] = ()  # resolved sources of redirections that read


class JudgedScript(Struct, frozen=True):
    """All steps of a command, why it is refused (empty if it is not), and the words of what else may run."""

    steps: tuple[JudgedStep, ...]
    denials: tuple[str, ...]
    guesses: tuple[tuple[str, ...], ...] = ()


ReadSteps: TypeAlias = Callable[[tuple[str, ...]], tuple[ScriptStep, ...]]


def judge_script(
    argv: tuple[str, ...], facts: PathFacts, *, cwd: str, read: ReadSteps | None = None
) -> JudgedScript:
    """Judge everything that an argv would run; of `sh -c TEXT`, the text is judged.

    `read` is `steps_of`, or does the same in another process.
    """
    if any(len(text.encode("utf-8", "replace")) > TEXT_BYTES_MAX for text in argv):
        return JudgedScript((), (_TOO_LONG,))
    judged: list[JudgedStep] = []
    denials = [sentence for text in argv for sentence in bombs(text)]
    # A path is looked at for several reasons, and a real resolver asks the disk each time.
    facts = replace(facts, resolve=cache(facts.resolve), repository=cache(facts.repository))
    facts = replace(facts, below=cache(facts.below))
    cwds = tuple(facts.resolved(cwd, ("/",)))
    found = (read or steps_of)(argv)
    facts = replace(facts, given=_given(found))
    links: frozenset[str] = frozenset()
    denials += circles([step.command for step in found])
    # A step that changes files may also change which ones a pattern of a later step finds.
    only_reads = all(step.guess or _leaves_alone(step) for step in found)
    for step in found:
        command = step.command
        if step.guess:
            continue
        denials += dangers(command, facts, cwds=cwds, reads_only=_only_reads(command))
        one = _judge_step(step, _reading(command), facts, cwds=cwds)
        if only_reads:
            one = _if_harmless(step, one, facts)
        more = through_links(command, facts, cwds=cwds, links=links)
        judged.append(replace(one, findings=(*one.findings, *more)))
        links |= links_made(command, facts, cwds=cwds)
        cwds = _moved(command, facts, cwds)
    guesses = [step.command for step in found if step.guess]
    # Seen from every directory that the script may have come to: what they say is too generous anyway.
    for command in guesses:
        cwds = _moved(command, facts, cwds)
    for command in guesses:
        denials += dangers(command, facts, cwds=cwds, reads_only=_only_reads(command))
    words = dict.fromkeys(tuple(word.text for word in command.words) for command in guesses if command.words)
    return JudgedScript(tuple(judged), tuple(dict.fromkeys(denials)), tuple(words))


def steps_of(argv: tuple[str, ...]) -> tuple[ScriptStep, ...]:
    """Everything that an argv would run, and what else it may run, up to a maximum."""
    certain: list[ScriptStep] = []
    guesses: dict[SimpleCommand, ScriptStep] = {}
    for step in islice(_steps(argv), STEPS_READ_MAX):
        if not step.guess:
            certain.append(step)
        elif len(guesses) < GUESSES_MAX:
            guesses.setdefault(step.command, step)
    if len(certain) > STEPS_MAX:
        certain = [ScriptStep(SimpleCommand(), (PolicyFinding("syntax", TOO_MANY),)), *certain[:STEPS_MAX]]
    return (*certain, *guesses.values())


def unread(argv: tuple[str, ...], why: str) -> tuple[ScriptStep, ...]:
    """The steps of an argv that could not be parsed: why, and what it may run."""
    commands = [command for text in argv for command in guessed(text)]
    guesses = (ScriptStep(command, guess=True) for command in commands[:GUESSES_MAX])
    return (ScriptStep(SimpleCommand(), (PolicyFinding("syntax", why),)), *guesses)


def _given(found: tuple[ScriptStep, ...]) -> frozenset[str]:
    """The variables that are never set to an empty value."""
    settings = [each for step in found for each in step.command.assignments]
    empty = {name for name, value in settings if not value.text and value.why != LOOPED}
    unknown = {name for name, value in settings if value.text and not value.literal}
    return frozenset(name for name, _ in settings) - empty - unknown


def _steps(argv: tuple[str, ...]) -> Iterator[ScriptStep]:
    match argv:
        case [("sh" | "/bin/sh" | "bash" | "/bin/bash" | "/usr/bin/bash"), "-c", text]:
            script = parse(text)
            if script.findings:
                yield ScriptStep(
                    SimpleCommand(), tuple(PolicyFinding("syntax", sentence) for sentence in script.findings)
                )
            yield from steps(script)
        case []:
            yield ScriptStep(SimpleCommand(), (PolicyFinding("syntax", "It contains no command."),))
        case _:
            yield from steps(Script((SimpleCommand(words=tuple(Word(each) for each in argv)),)))


def _reading(command: SimpleCommand) -> ReadVerdict | None:
    """Return the files that the command would read, if its program is a known system program."""
    name = known_name(command.words[0]) if command.words else ""
    return reading_of(name, command.words) if name else None


def _only_reads(command: SimpleCommand) -> bool:
    reading = _reading(command)
    return reading is not None and not reading.problem


def _leaves_alone(step: ScriptStep) -> bool:
    """Whether a step changes no file and no variable, except that of a plain loop."""
    command = step.command
    if _is_plain_loop(command):
        return not step.findings
    writes = any(redirect.kind in {"write", "append"} for redirect in command.redirects)
    return _only_reads(command) and not (step.findings or command.assignments or writes)


def _is_plain_loop(command: SimpleCommand) -> bool:
    """Whether this only gives a loop's variable its next value, under a name that no program obeys."""
    names = [name for name, _ in command.assignments]
    return (
        bool(names)
        and not (command.words or command.redirects)
        and command.loop_names.issuperset(names)
        and all(value.why == LOOPED for _, value in command.assignments)
        and all(_PLAIN_NAME.fullmatch(name) and "proxy" not in name for name in names)
    )


def _if_harmless(step: ScriptStep, otherwise: JudgedStep, facts: PathFacts) -> JudgedStep:
    """A milder verdict in a script that only reads: on a plain loop, and on patterns by what they match now.

    Patterns are judged in every directory in which the step may run.
    """
    command = step.command
    if _is_plain_loop(command):
        return replace(otherwise, findings=())
    if not has_patterns(command.words):
        return otherwise
    judged: list[JudgedStep] = []
    for cwd in otherwise.cwds:
        words = with_names(command.words, facts, cwd=cwd)
        if words is None:
            return otherwise
        spread = replace(step, command=replace(command, words=words))
        judged.append(_judge_step(spread, _reading(spread.command), facts, cwds=(cwd,)))
    if any(one.findings for one in judged):
        return otherwise
    return replace(
        judged[0],
        argv=tuple(word for one in judged for word in one.argv),
        literal=False,
        cwds=otherwise.cwds,
        paths=tuple(sorted({path for one in judged for path in one.paths})),
        down=tuple(sorted({path for one in judged for path in one.down})),
    )


def _judge_step(
    step: ScriptStep, reading: ReadVerdict | None, facts: PathFacts, *, cwds: tuple[str, ...]
) -> JudgedStep:
    command = step.command
    findings = [*step.findings, *_words(command), *_settings(command)]
    for redirect in command.redirects:
        findings += _redirect(redirect, facts, cwds=cwds)
    if any(not facts.inside(cwd) for cwd in cwds):
        findings.append(PolicyFinding("outside", "It may run in a directory outside the workspace."))
    if command.looped and _changes_directory(command):
        findings.append(PolicyFinding("syntax", "It changes its directory in a loop."))
    if command.words:
        findings += _program(command, reading, facts, cwds=cwds)
    mentioned = {path for word in command.words[1:] for path in facts.mentioned(word, cwds)}
    sources = [redirect.target for redirect in command.redirects if redirect.kind == "read"]
    reads = {path for source in sources for path in facts.named(source, cwds)}
    down = {path for word in (reading.down if reading else ()) for path in facts.named(word, cwds)}
    return JudgedStep(
        argv=tuple(word.text for word in command.words),
        settings=tuple(f"{name}={value.text}" for name, value in command.assignments),
        literal=all(word.literal for word in command.words),
        outers=step.outers,
        cwds=cwds,
        findings=tuple(dict.fromkeys(findings)),
        fed=command.fed,
        writes=tuple(sorted(_written(command, facts, cwds))),
        paths=tuple(sorted(mentioned | reads)),
        down=tuple(sorted(down)),
        reads=tuple(sorted(reads - HARMLESS_DEVICES)),
    )


def _written(command: SimpleCommand, facts: PathFacts, cwds: tuple[str, ...]) -> frozenset[str]:
    """Where the command's output goes, as far as that is a file."""
    found = (
        facts.named(redirect.target, cwds)
        for redirect in command.redirects
        if redirect.kind in {"write", "append"}
    )
    return frozenset(path for paths in found for path in paths) - HARMLESS_DEVICES


def _words(command: SimpleCommand) -> Iterator[PolicyFinding]:
    echoes = bool(command.words) and known_name(command.words[0]) == "echo"
    for at, word in enumerate(command.words):
        if not word.literal and not (echoes and at and _is_known_variable(word, command.loop_names)):
            yield PolicyFinding("word", _unknown(command.words[0], word))


def _unknown(program: Word, word: Word) -> str:
    """Why a word that isn't fixed can't be checked, and for a search, what can."""
    if word.why != FROM_INPUT or word is program:
        return f"`{word.text}` {word.why}."
    name = likely_name(program)
    text = f"Another command chooses what `{name}` is run on, so that can't be checked before."
    return f"{text} `grep -r` on a folder can." if name in _GREPS else text


def _is_known_variable(word: Word, fixed: frozenset[str]) -> bool:
    """Whether a word is fixed text but for variables that anybody may see, or whose values the text has."""
    if word.why != EXPANDED:
        return False
    text = _KNOWN_VARIABLES.sub("", word.text)
    text = _VARIABLE.sub(lambda found: "" if found[1] in fixed else found[0], text)
    return not _MORE_EXPANSIONS.search(text)


def _settings(command: SimpleCommand) -> Iterator[PolicyFinding]:
    for name, value in command.assignments:
        if not value.literal:
            yield PolicyFinding("word", f"`{name}={value.text}` {value.why}.")
        if name not in _HARMLESS_SETTINGS or not value.literal or "/" in value.text:
            yield PolicyFinding("setting", f"It sets {name}, which may change what a program does.")


def _redirect(redirect: Redirect, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[PolicyFinding]:
    """Findings for one redirection."""
    target = redirect.target
    if redirect.kind == "document":
        if not target.literal:
            yield PolicyFinding("word", "Its input text is expanded when the command runs.")
        return
    if redirect.kind == "dup":
        return
    if not target.literal:
        yield PolicyFinding("word", f"`{target.text}` {target.why}.")
    for path in sorted(facts.named(target, cwds) - HARMLESS_DEVICES):
        yield from _kept(path, facts)
        if redirect.kind == "read":
            if not facts.inside(path):
                yield PolicyFinding("outside", f"It reads {path}, which is outside the workspace.")
        elif not facts.inside(path):
            yield PolicyFinding("write_outside", f"It writes {path}, which is outside the workspace.")
        elif autorun_in(path, facts):
            yield PolicyFinding("autorun", written_later(path))
        else:
            yield PolicyFinding("write", f"It writes {path}.")


def _program(
    command: SimpleCommand, reading: ReadVerdict | None, facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Findings for the program with its words; only for its paths if it only reads."""
    yield from secret_reads(command, reading, facts, cwds=cwds)
    reads = reading is not None and not reading.problem
    if likely_name(command.words[0]).lower() == "git":
        yield from repository_findings(command.words, facts, cwds=cwds, reads=reads)
    if reading is not None and not reading.problem:
        if reading.from_root_only and set(cwds) != {facts.workspace}:
            yield PolicyFinding("change", "`git` may use the settings of another repository there.")
        for word in reading.paths:
            yield from _named(word, facts, cwds=cwds)
        return
    name = command.words[0].text
    yield PolicyFinding("change", f"`{name}` may change something." if reading is None else reading.problem)
    yield from concerns(command.words)
    yield from (PolicyFinding("program", sentence) for sentence in losses(command, facts, cwds=cwds))
    yield from _origin(command.words[0], facts, cwds=cwds)
    yield from _put_in_place(command, facts, cwds=cwds)
    yield from autorun_findings(command, facts, cwds=cwds)
    for word in command.words[1:]:
        if address := _ADDRESS.fullmatch(word.text):
            # Its host is no path. A program may still take the whole address for the name of a file.
            yield PolicyFinding("network", f"`{address[1]}` is an address of another machine.")
            yield from _at(facts.named(Word(address[1], word.why), cwds), facts)
        else:
            yield from _named(word, facts, cwds=cwds)


def _origin(word: Word, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[PolicyFinding]:
    """Findings for a program that is neither the system's nor the workspace's, or whose name is not plain."""
    if not word.text.isascii():
        yield PolicyFinding("wrapper", f"The name `{word.text}` contains letters that look like others.")
    directory = posixpath.dirname(word.text)
    if directory and not (posixpath.normpath(word.text) == word.text and directory in SYSTEM_DIRECTORIES):
        for path in sorted(facts.named(word, cwds)):
            if not facts.inside(path):
                yield PolicyFinding("outside", f"It runs {path}, which is outside the workspace.")


def _named(word: Word, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[PolicyFinding]:
    """Findings for the paths that a word may name."""
    yield from _at(facts.mentioned(word, cwds), facts)


def _at(paths: frozenset[str], facts: PathFacts) -> Iterator[PolicyFinding]:
    for path in sorted(paths - HARMLESS_DEVICES):
        yield from _kept(path, facts)
        if not facts.inside(path):
            yield PolicyFinding("outside", f"{path} is outside the workspace.")


def _kept(path: str, facts: PathFacts) -> Iterator[PolicyFinding]:
    """Findings for secret files and for Holdfast's configuration."""
    if why := facts.kept(path):
        yield PolicyFinding("secret", why, escapes=facts.is_unmasked(path))


def _put_in_place(
    command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Findings for a copy that would overwrite the configuration file in its folder."""
    name, words = likely_name(command.words[0]).lower(), command.words[1:]
    folder, own = posixpath.split(facts.config)
    if name not in _COPIES or not own or all(posixpath.basename(word.text) != own for word in words):
        return
    # The folder may stand right behind the letters of an option (-vt.), and ln without one means its own.
    joined = [word.text.partition("t")[2] for word in words if word.text.startswith("-")]
    here = ["."] if name == "ln" and sum(not word.text.startswith("-") for word in words) == 1 else []
    targets = (*words, *(Word(text) for text in (*joined, *here) if text))
    if any(folder in facts.mentioned(word, cwds) for word in targets):
        yield PolicyFinding(
            "secret", f"`{name}` may overwrite {facts.config}, which is Holdfast's configuration."
        )


def _changes_directory(command: SimpleCommand) -> bool:
    return bool(command.words) and command.words[0].text in {"cd", "pushd"}


def _moved(command: SimpleCommand, facts: PathFacts, cwds: tuple[str, ...]) -> tuple[str, ...]:
    """Every directory in which the next command may run: cd may fail, so the old ones stay."""
    if not _changes_directory(command):
        return cwds
    operands = [word for word in command.words[1:] if not word.text.startswith("-")]
    target = facts.expanded(operands[0]) if operands else facts.home
    # A shell takes `link/..` for where it is, the system for where the link leads.
    plain = {facts.resolve(posixpath.normpath(posixpath.join(cwd, target))) for cwd in cwds}
    found = plain | facts.resolved(target, cwds)
    moved = tuple(dict.fromkeys((*cwds, *sorted(found))))
    return moved if len(moved) <= DIRECTORIES_MAX else (*moved[:DIRECTORIES_MAX], "/")
