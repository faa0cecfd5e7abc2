"""Commands that an ambiguous text may run: used to refuse, never to allow.

Guesses split the text by its operators and include too much rather than too little. They count only for
what is always refused and for rules that deny or ask.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.policy.shell.commands import RESERVED, Redirect, SimpleCommand
from holdfast.policy.shell.here_documents import mask_documents
from holdfast.policy.shell.words import FROM_INPUT, Word, WordReader, likely_name

COMMANDS_MAX = 5_000
WORDS_MAX = 32
TELLING_MAX = 32

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PARAMETER = re.compile(r"\$\{[#!]?([A-Za-z_]\w*+)(?:[^{}'\"\\\n]|\\.|'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\")*+\}")
_SUBSTITUTION = re.compile(r"\$[(\[]|`|\\\n")
_BACKTICKS = re.compile(r"`([^`]*)`")
_ARROWS = re.compile(r"[<>]+[|&]?")
_BEFORE = RESERVED | frozenset(("time", "-p", "coproc"))
_SAYS = frozenset(("echo", "printf"))


class Depth(Struct, frozen=True):
    """How deeply a command is wrapped, whether it is a guess, and the texts already guessed at."""

    nesting: int = 0
    guess: bool = False
    seen: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])

    @property
    def deeper(self) -> "Depth":
        """One wrapper further in."""
        return replace(self, nesting=self.nesting + 1)

    @property
    def guessed(self) -> "Depth":
        """The same, for what may run."""
        return replace(self, guess=True)

    def is_new(self, text: str) -> bool:
        """Whether a text is new; guesses reach the same text in many ways."""
        key = (self.nesting, text)
        if self.guess and key in self.seen:
            return False
        self.seen.update((key,) if self.guess else ())
        return True


def guessed(text: str) -> Iterator[SimpleCommand]:
    """The commands of a text, if every operator outside quotes ended one."""
    masked, _ = mask_documents(text)
    plain = _PARAMETER.sub(r"$\1", masked)
    found = islice(_between_operators(_SUBSTITUTION.sub(_opened, plain)), COMMANDS_MAX)
    return iter(dict.fromkeys(found))


def _opened(found: re.Match[str]) -> str:
    return "" if found[0] == "\\\n" else ";"


def _between_operators(text: str) -> Iterator[SimpleCommand]:
    reader = WordReader(text)
    words: list[Word] = []
    redirects: list[Redirect] = []
    arrow = ""
    while reader.at < len(text):
        char = text[reader.at]
        if char in " \t":
            reader.at += 1
        elif char == "#":
            line_end = text.find("\n", reader.at)
            reader.at = line_end if line_end >= 0 else len(text)
        elif found := _ARROWS.match(text, reader.at):
            arrow, reader.at = found[0], found.end()
        elif char in ";|&()\n":
            reader.at += 1
            yield _command(words, redirects)
            words, redirects, arrow = [], [], ""
        else:
            word = reader.word()
            if arrow:
                redirects.append(Redirect("write" if ">" in arrow else "read", word))
                arrow = ""
            elif word.text in {"{", "}"}:
                yield _command(words, redirects)
                words, redirects = [], []
            else:
                words.append(word)
    yield _command(words, redirects)


def _command(words: list[Word], redirects: list[Redirect]) -> SimpleCommand:
    return bare(SimpleCommand(words=tuple(words), redirects=tuple(redirects)))


def bare(command: SimpleCommand) -> SimpleCommand:
    """The command without the shell keywords and assignments before it."""
    words, first = command.words, 0
    while first < len(words) and (words[first].text in _BEFORE or _ASSIGNMENT.match(words[first].text)):
        first += 1
    return replace(command, words=words[first:])


def behind(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield the commands that a wrapper may run: from each word on, as not all options are known."""
    for at in range(1, min(len(command.words), WORDS_MAX)):
        yield replace(command, words=command.words[at : at + WORDS_MAX])


def moves_of(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """The changes of directory that a wrapper's options may make before it runs something."""
    texts = [word.text for word in command.words[:WORDS_MAX]]
    for text, after in zip_longest(texts, texts[1:], fillvalue=""):
        option, joined, value = text.partition("=")
        if option in {"-C", "-D", "--chdir"}:
            yield SimpleCommand(words=(Word("cd"), Word(value if joined else after)))


def texts_in(command: SimpleCommand) -> Iterator[str]:
    """The words that may be texts for a shell: whole, or after an option letter or an =."""
    for text in [word.text for word in command.words[1:WORDS_MAX]]:
        if any(char in text for char in " \t\n"):
            if text.startswith("-"):
                yield text.partition("=")[2] if text.startswith("--") else text[2:].removeprefix("=")
            else:
                yield text
                yield from (text.partition("=")[2],) if _ASSIGNMENT.match(text) else ()


def substituted_in(command: SimpleCommand) -> Iterator[str]:
    """The texts between backticks in its here-documents, which the parser skips."""
    for redirect in command.redirects:
        if redirect.kind == "document" and not redirect.target.literal:
            yield from _BACKTICKS.findall(redirect.target.text)


def printed_texts(commands: Sequence[SimpleCommand]) -> Iterator[str]:
    """The literal texts that commands print, for whatever reads them."""
    for command in commands:
        if command.words and likely_name(command.words[0]) in _SAYS:
            texts = [word.text for word in command.words[1:]]
            yield " ".join(texts)
            yield from texts if len(texts) > 1 else ()


def telling_in(commands: Sequence[SimpleCommand]) -> tuple[SimpleCommand, ...]:
    """The first commands whose words show what they pass to xargs."""
    named = (each for each in commands if each.words and likely_name(each.words[0]) in {*_SAYS, "find"})
    return tuple(islice(named, TELLING_MAX))


def filled(inner: tuple[Word, ...], commands: Sequence[SimpleCommand]) -> Iterator[SimpleCommand]:
    """Return the commands that xargs would run with other commands' output, or for files that find finds."""
    fixed = tuple(word for word in inner if word.why != FROM_INPUT)
    if not fixed:
        return
    for command in commands:
        name = likely_name(command.words[0]) if command.words else ""
        if name in _SAYS:
            yield SimpleCommand(words=(*fixed, *command.words[1:]))
        elif name == "find" and likely_name(fixed[0]) == "rm":
            yield SimpleCommand(words=(*command.words, Word("-delete")))
