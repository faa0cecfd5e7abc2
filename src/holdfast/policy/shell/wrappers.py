"""Wrappers: commands that run other commands, and how to find the command that actually runs.

A wrapper is opened by its entry in the table, or not at all. If the entry does not fit (an option that it
does not name, a text that is not literal), the step has a finding; the command inside is still followed
as far as it can be read, so that forbidden commands are found there too.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.policy.shell.commands import RESERVED, Script, SimpleCommand
from holdfast.policy.shell.guesses import (
    Depth,
    bare,
    behind,
    filled,
    moves_of,
    printed_texts,
    substituted_in,
    telling_in,
    texts_in,
)
from holdfast.policy.shell.syntax import parse
from holdfast.policy.shell.words import FROM_INPUT, Word, known_name, likely_name
from holdfast.policy.verdicts import PolicyFinding

NESTING_MAX = 8

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_OTHER_USER = "it runs a program as another user"
_STARTS = "it runs another program in a way that Holdfast does not check"


class ScriptStep(Struct, frozen=True):
    """One command as it would run, and the findings about its wrappers."""

    command: SimpleCommand
    findings: tuple[PolicyFinding, ...] = ()
    outers: tuple[tuple[str, ...], ...] = ()  # the words of the wrappers that were opened
    unseen: bool = False  # it runs a text that comes from elsewhere
    guess: bool = False  # it may be what runs: a reason to refuse, never one to allow


class _Wrapper(Struct, frozen=True):
    """How to tell a wrapper's own words from those of the command that it runs."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()  # options with a value that change nothing in what runs
    doubted: frozenset[str] = frozenset()  # options with a value that do
    operands: int = 0
    assigns: bool = False
    why: str = ""  # if set, the wrapper always asks


def _wrapper(
    flags: str = "", valued: str = "", *, doubted: str = "", operands: int = 0, why: str = ""
) -> _Wrapper:
    return _Wrapper(
        flags=frozenset(flags.split()),
        valued=frozenset(valued.split()),
        doubted=frozenset(doubted.split()),
        operands=operands,
        why=why,
    )


_WRAPPERS: dict[str, _Wrapper] = {
    "time": replace(_wrapper("-p"), assigns=True),  # a word of the shell: settings may follow it
    "command": _wrapper("-p"),
    "builtin": _wrapper(),
    "exec": _wrapper("-c -l", doubted="-a"),  # a program of many names goes by the one that it is given
    "nohup": _wrapper(),
    "nice": _wrapper("", "-n --adjustment"),
    "stdbuf": _wrapper("", "-i -o -e --input --output --error"),
    "timeout": _wrapper(
        "--foreground --preserve-status -v --verbose", "-k -s --kill-after --signal", operands=1
    ),
    "env": replace(_wrapper(doubted="-u --unset -C --chdir -S --split-string"), assigns=True),
    "sudo": replace(
        _wrapper("-n -E -H -S -k -b", doubted="-u -g -h -p -C -r -t -T -U -D -R", why=_OTHER_USER),
        assigns=True,
    ),
    "doas": _wrapper("-n", doubted="-u -C -a", why=_OTHER_USER),
    "su": _wrapper(doubted="-c -s -g", operands=1, why=_OTHER_USER),
    "runuser": _wrapper(doubted="-u -g -c -s", why=_OTHER_USER),
    "pkexec": _wrapper(doubted="--user", why=_OTHER_USER),
    "coproc": _wrapper(why="it leaves a process running in the background"),
    "busybox": _wrapper(why=_STARTS),
    "toybox": _wrapper(why=_STARTS),
    "setsid": _wrapper("-w -f -c", why=_STARTS),
    "ionice": _wrapper("-t", "-c -n -p", why=_STARTS),
    "chrt": _wrapper(operands=1, why=_STARTS),
    "taskset": _wrapper(operands=1, why=_STARTS),
    "flock": _wrapper("-n -x -s", "-w -E", operands=1, why=_STARTS),
    "chroot": _wrapper(operands=1, why=_STARTS),
    "unshare": _wrapper(why=_STARTS),
    "nsenter": _wrapper(doubted="-t", why=_STARTS),
    "strace": _wrapper("-f", doubted="-o -e -p -s", why=_STARTS),
    "watch": _wrapper("", "-n -d", why=_STARTS),
    "parallel": _wrapper("", "-j -n", why=_STARTS),
    "systemd-run": _wrapper(why=_STARTS),
    "script": _wrapper(doubted="-c", why=_STARTS),
    "ssh": _wrapper(doubted="-i -p -l -o -F -J", operands=1, why="it runs a program on another machine"),
}
_XARGS = _wrapper(
    "-0 -r -t -x --null --no-run-if-empty --verbose",
    "-n -P -I -L -d -s -E --max-args --max-procs --replace --max-lines --delimiter",
    doubted="-a --arg-file",
)
_SHELLS = frozenset(("sh", "bash", "dash"))
_OTHER_SHELLS = frozenset(("zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"))
_SHELL_FLAGS = frozenset(("--norc", "--noprofile", "--posix", "--login"))
_SHELL_LETTERS = frozenset("ceuxlof")
_KEEPS_TEXTS = frozenset(("alias", "mapfile", "readarray", "complete", "compgen", "bind"))
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def steps(script: Script, *, depth: Depth | None = None) -> Iterator[ScriptStep]:
    """Every command that the script would run, with wrappers opened, in order; and the guesses."""
    depth = depth or Depth()
    unseen = False
    telling = telling_in(script.commands)
    for command in script.commands:
        opened = list(_open(command, depth))
        yield from opened
        yield from _as_guesses(_guesses(command, opened, depth=depth.guessed))
        for step in opened:
            unseen = unseen or step.unseen
            if any(word.why == FROM_INPUT for word in step.command.words):
                yield from (ScriptStep(each, guess=True) for each in filled(step.command.words, telling))
    for command in script.guesses:
        opened = list(_open(command, depth.guessed))
        yield from _as_guesses([*opened, *_guesses(command, opened, depth=depth.guessed)])
    for text in printed_texts(script.commands) if unseen else ():
        yield from _as_guesses(_inside(SimpleCommand(), text, depth=depth.guessed))


def _guesses(command: SimpleCommand, opened: list[ScriptStep], *, depth: Depth) -> Iterator[ScriptStep]:
    """Return the other commands that a command may run, directly or indirectly."""
    texts = [text for each in (command, *(step.command for step in opened)) for text in _kept_texts(each)]
    name = likely_name(command.words[0]) if command.words else ""
    doubted = any(finding.kind == "wrapper" for step in opened for finding in step.findings)
    if doubted and (name in _WRAPPERS or name == "xargs"):
        yield from (ScriptStep(each) for each in (*moves_of(command), *behind(command)))
        texts += texts_in(command)
    for text in dict.fromkeys(texts):
        yield from _inside(command, text, depth=depth)


def _kept_texts(command: SimpleCommand) -> Iterator[str]:
    """The texts that a command substitutes, or stores to be run later."""
    yield from substituted_in(command)
    yield from (value.text for _, value in command.assignments if " " in value.text)
    if command.words and likely_name(command.words[0]) in _KEEPS_TEXTS:
        yield from texts_in(command)


def _as_guesses(found: Iterable[ScriptStep]) -> Iterator[ScriptStep]:
    return (replace(step, guess=True) for step in found)


def _open(command: SimpleCommand, depth: Depth) -> Iterator[ScriptStep]:
    """Open one command, and note its wrappers on each step."""
    texts = tuple(word.text for word in command.words)
    for step in _opened(command, depth):
        wrapped = texts and step.command.words != command.words
        yield replace(step, outers=(texts, *step.outers)) if wrapped else step


def _opened(command: SimpleCommand, depth: Depth) -> Iterator[ScriptStep]:
    """Open one command as far as the table goes."""
    if not command.words:
        yield ScriptStep(command)
        return
    first, *rest = command.words
    name = likely_name(first)
    if depth.nesting > NESTING_MAX:
        yield ScriptStep(command, (PolicyFinding("wrapper", "It is wrapped too deeply to check."),))
    elif name in _SHELLS or name in _OTHER_SHELLS:
        yield from _open_shell(command, name, depth=depth)
    elif name == "find":
        yield from _open_find(command, depth)
    elif name in {"eval", "trap"}:
        yield from _open_text(command, name, depth=depth)
    elif name == "command" and rest and rest[0].text in {"-v", "-V"}:
        yield ScriptStep(
            replace(command, words=(Word("type", first.why), *rest[1:])), tuple(_doubts((first,), name))
        )
    elif name in _WRAPPERS or name == "xargs":
        yield from _open_wrapper(command, name, depth=depth)
    elif name in RESERVED or _ASSIGNMENT.match(first.text):
        yield ScriptStep(
            command, (PolicyFinding("syntax", f"`{first.text}` appears where a command is expected."),)
        )
        yield from _as_guesses(_open(bare(command), depth.deeper.guessed))
    else:
        yield ScriptStep(command, unseen=name in {"source", "."})


def _open_wrapper(command: SimpleCommand, name: str, *, depth: Depth) -> Iterator[ScriptStep]:
    """Open a wrapper of the table."""
    wrapper = _XARGS if name == "xargs" else _WRAPPERS[name]
    split = _Split(command.words, wrapper)
    inner = command.words[split.at :]
    findings = [*_doubts(command.words[: split.at], name), *split.findings(name)]
    if name == "xargs":
        inner = (*(inner or (Word("echo"),)), Word("…", FROM_INPUT))
    if not inner:
        yield ScriptStep(command, tuple(findings))
        return
    assignments = (*command.assignments, *split.assignments)
    opened = replace(command, words=inner, assignments=assignments)
    yield from _with(findings, _open(opened, depth.deeper))


class _Split:
    """Reads a wrapper's own words; `at` is where the command inside begins."""

    def __init__(self, words: tuple[Word, ...], wrapper: _Wrapper) -> None:
        self.wrapper = wrapper
        self.unknown: list[str] = []
        self.assignments: list[tuple[str, Word]] = []
        self.at = 1
        while self.at < len(words) and self._own(words[self.at].text):
            self.at += 1
        self.at = min(self.at + wrapper.operands, len(words))
        while wrapper.assigns and self.at < len(words) and _ASSIGNMENT.match(words[self.at].text):
            name, _, value = words[self.at].text.partition("=")
            self.assignments.append((name, Word(value, words[self.at].why)))
            self.at += 1

    def _own(self, text: str) -> bool:
        """Whether this word is an option; steps over an option's value, and over the end of options."""
        if text == "--":
            self.at += 1
            return False
        if not text.startswith("-"):
            return False
        option, joined, _ = text.partition("=")
        known = self.wrapper.flags | self.wrapper.valued
        takes = self.wrapper.valued | self.wrapper.doubted
        short_with_value = len(text) > 2 and text[:2] in self.wrapper.valued  # noqa: PLR2004 -- dash and letter
        if option not in known and not short_with_value and not re.fullmatch(r"-\d+", text):
            self.unknown.append(text)
        if option in takes and not joined:
            self.at += 1
        return True

    def findings(self, name: str) -> Iterator[PolicyFinding]:
        """Findings for what is not known about this use of the wrapper."""
        if self.wrapper.why:
            yield PolicyFinding("wrapper", f"`{name}`: {self.wrapper.why}.")
        for option in self.unknown:
            yield PolicyFinding("wrapper", f"Holdfast does not know what `{name} {option}` runs.")


def _open_shell(command: SimpleCommand, name: str, *, depth: Depth) -> Iterator[ScriptStep]:
    """Open sh -c TEXT; without a text, a shell runs a script or reads its input."""
    at, odd, takes_text = _shell_options(command.words)
    findings = [*_doubts(command.words[:at], name)]
    findings += [
        PolicyFinding("wrapper", f"`{name} {option}` changes how the shell reads its commands.")
        for option in odd
    ]
    if name in _OTHER_SHELLS:
        findings.append(
            PolicyFinding("wrapper", f"`{name}` has its own syntax, which Holdfast does not check.")
        )
    operand = command.words[at] if at < len(command.words) else None
    if takes_text and operand is not None:
        if not operand.literal:
            findings.append(
                PolicyFinding("wrapper", f"The text that `{name} -c` runs is not known in advance.")
            )
        # What stands behind the text is handed to it as parameters, and may be used there only by expansion.
        yield ScriptStep(replace(command, words=()), tuple(findings), unseen=not operand.literal)
        yield from _inside(command, operand.text, depth=depth)
    elif operand is not None and operand.text not in {"-", "/dev/stdin", "/dev/fd/0"} and "-s" not in odd:
        yield ScriptStep(command, tuple(findings), unseen=not operand.literal)
    else:
        findings.append(PolicyFinding("wrapper", f"`{name}` runs whatever it reads from its input."))
        yield ScriptStep(command, tuple(findings), unseen=True)
        for redirect in command.redirects:
            if redirect.kind == "document":
                yield from _inside(command, redirect.target.text, depth=depth)


def _shell_options(words: tuple[Word, ...]) -> tuple[int, list[str], bool]:
    """Where a shell's operands begin, which of its options are odd, and whether one of them is -c."""
    at, takes_text = 1, False
    odd: list[str] = []
    while at < len(words) and words[at].text[:1] in {"-", "+"} and words[at].text not in {"-", "--"}:
        text = words[at].text
        if text.startswith("--"):
            if text not in _SHELL_FLAGS:
                odd.append(text)
                at += text in {"--rcfile", "--init-file"}
        else:
            takes_text = takes_text or "c" in text
            odd += [f"-{letter}" for letter in text[1:] if letter not in _SHELL_LETTERS]
            at += text.count("o") + text.count("O")
        at += 1
    if at < len(words) and words[at].text in {"-", "--"}:
        at += 1
    return min(at, len(words)), odd, takes_text


def _open_text(command: SimpleCommand, name: str, *, depth: Depth) -> Iterator[ScriptStep]:
    """Open eval, which runs its words as one text, and trap, which keeps one for later."""
    first = 2 if [word.text for word in command.words[1:2]] == ["--"] else 1
    texts = command.words[first:] if name == "eval" else command.words[first : first + 1]
    findings = [*_doubts(command.words, name)]
    if name == "trap":
        findings.append(PolicyFinding("wrapper", "`trap` runs a command later."))
    unseen = any(not word.literal for word in texts)
    yield ScriptStep(replace(command, words=()), tuple(findings), unseen=unseen)
    yield from _inside(command, " ".join(word.text for word in texts), depth=depth)


def _open_find(command: SimpleCommand, depth: Depth) -> Iterator[ScriptStep]:
    """Show find itself, and the commands that it would run for the files it finds."""
    runs = list(_run_by_find(command.words))
    findings = (PolicyFinding("wrapper", "`find` runs a program for each file."),) if runs else ()
    yield ScriptStep(command, findings)
    for inner in runs:
        filled = tuple(Word(word.text, FROM_INPUT) if "{}" in word.text else word for word in inner)
        if filled:
            yield from _open(replace(command, words=filled, redirects=(), assignments=()), depth.deeper)


def _run_by_find(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The words of each command behind -exec and its like; what stands in one of them is that one's own."""
    begun: list[Word] | None = None
    for word in words:
        if begun is None:
            begun = [] if word.text in _FIND_RUNS else None
        elif word.text in {";", "+"}:
            yield tuple(begun)
            begun = None
        else:
            begun.append(word)
    if begun is not None:
        yield tuple(begun)


def _inside(command: SimpleCommand, text: str, *, depth: Depth) -> Iterator[ScriptStep]:
    """The steps of a text that another command runs."""
    if depth.nesting >= NESTING_MAX:
        yield ScriptStep(
            replace(command, words=()), (PolicyFinding("wrapper", "It is wrapped too deeply to check."),)
        )
        return
    if not depth.is_new(text):
        return
    script = parse(text)
    found = tuple(PolicyFinding("syntax", sentence) for sentence in script.findings)
    if found:
        yield ScriptStep(SimpleCommand(), found)
    inner = tuple(_within(command, each) for each in script.commands)
    guesses = tuple(_within(command, each) for each in script.guesses)
    yield from steps(replace(script, commands=inner, guesses=guesses), depth=depth.deeper)


def _within(outer: SimpleCommand, inner: SimpleCommand) -> SimpleCommand:
    """A command of a text, with what is true of the command that runs the text."""
    return replace(
        inner,
        fed=inner.fed or outer.fed,
        forks=inner.forks or outer.forks,
        looped=inner.looped or outer.looped,
        functions=inner.functions | outer.functions,
    )


def _doubts(words: tuple[Word, ...], name: str) -> Iterator[PolicyFinding]:
    """Findings for a wrapper's own words: they must be literal, and its name must mean the known program."""
    for word in words:
        if not word.literal:
            yield PolicyFinding("word", f"`{word.text}` {word.why}.")
    if known_name(words[0]) != name:
        yield PolicyFinding("wrapper", f"`{words[0].text}` may not be the program `{name}`.")


def _with(findings: list[PolicyFinding], found: Iterator[ScriptStep]) -> Iterator[ScriptStep]:
    """Add findings to the first of the steps."""
    for nth, step in enumerate(found):
        yield replace(step, findings=(*findings, *step.findings)) if nth == 0 else step
