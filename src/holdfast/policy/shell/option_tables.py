"""Tables of programs that only read: their harmless options, and what their words mean.

`read_with` applies a table to a command. An option that is not in the table needs approval, so that a new or
abbreviated spelling of a dangerous option is never taken for a harmless one.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, TypedDict, Unpack

from msgspec import Struct, field

from holdfast.policy.shell.words import Word

Operands: TypeAlias = Literal[
    "paths",
    "path",
    "pattern",  # the first is a text, the others are paths
    "text",
    "none",
    "script",  # the first is a program of the workspace, and the others are for it
    "targets",  # of make: NAME=value is none
    "local",  # packages of Go, by a path
    "remote",  # the name of a remote repository, then branches
    "filter",  # the first is a program for jq
    "code",
]
Value: TypeAlias = Literal[
    "none",
    "named",  # none either, but it is harmless only to whoever names the option
    "text",
    "number",
    "read",  # a path
    "write",  # a path
]
Reach: TypeAlias = Literal["shown", "all", "linked"]
# What a jq program reads besides its input: variables, other files, and modules. It never writes or runs any.
JQ_MORE = re.compile(r"\b(?:env|ENV|import|include|input_filename|modulemeta|get_search_list)\b")
_READ_VALUES = frozenset[Value | None](("none", "text", "number"))
_FLAGS = frozenset[Value | None](("none", "named"))
_LETS_IN = frozenset(("-g", "--glob", "--iglob"))  # of ripgrep: a hidden file that fits is read, too
ALWAYS = "--"  # in place of options: with any of them and with none


class ProgramUsage(Struct, frozen=True):
    """The harmless uses of a program or subcommand: its options, and what its words mean."""

    options: Mapping[str, Value] = field(default_factory=dict[str, Value])
    operands: Operands = "paths"
    numbers: bool = False  # -20 is an option
    whole: bool = False  # one dash begins a whole name: -run, not -r -u -n
    listing: frozenset[str] = frozenset()  # options without which an operand would make something new
    down: frozenset[str] = frozenset()  # options with which it goes down into directories
    opens: Reach | None = None  # which files it reads there: not hidden ones, all, also through links
    similar: frozenset[str] | None = (
        None  # the options that a grant for similar commands covers; None: no grant
    )
    covers: str = ""  # a command that such a grant covers
    asks: str = ""  # and one that it does not


class ReadVerdict(Struct):
    """The files that a command reads, and why it may do more (empty if it only reads)."""

    problem: str = ""
    paths: list[Word] = field(default_factory=list[Word])
    from_root_only: bool = False  # trusted only in the workspace's own directory
    down: list[Word] = field(default_factory=list[Word])  # directories that it goes down into
    opens: Reach | None = None  # which files it reads there, if it reads them


class _More(TypedDict, total=False):
    operands: Operands
    numbers: bool
    whole: bool
    opens: Reach
    covers: str
    asks: str


def usage(
    flags: str = "",
    text: str = "",
    *,
    values: Mapping[Value, str] = MappingProxyType({}),
    listing: str = "",
    down: str = "",
    similar: str | None = None,
    **more: Unpack[_More],
) -> ProgramUsage:
    """A table entry: options without a value, those with a text, and `values` for those with another one.

    `similar` lists the options that keep a command as harmless as the one that a person approved: none that
    loses work, skips a check, forces anything or rewrites history.
    A word of one dash stands for its letters ("-la" is -l and -a), unless names are `whole`.
    """
    whole = more.get("whole", False)
    given: dict[Value, str] = {"none": flags, "text": text, **values}
    return ProgramUsage(
        {option: value for value, words in given.items() for option in _options(words, whole=whole)},
        listing=frozenset(_options(listing, whole=whole)),
        down=frozenset(_options(down, whole=whole)),
        similar=None if similar is None else frozenset(_options(similar, whole=whole)),
        **more,
    )


def _options(text: str, *, whole: bool) -> list[str]:
    words = text.split()
    long = [word for word in words if whole or word.startswith("--")]
    return long + [f"-{letter}" for word in words if word not in long for letter in word[1:]]


_HASH = usage("-bt --binary --text --tag")
READERS: dict[str, ProgramUsage] = {
    "ls": usage(
        "-AaBbCcdFfGghiklmNnopqRrSstUuvXxZ1 --all --almost-all --color --classify --directory --full-time "
        "--human-readable --inode --recursive --reverse --size --group-directories-first --si",
        "-ITw --ignore --sort --time --time-style --width --format",
        down="-R --recursive",
    ),
    "cat": usage("-AbEensTtuv --number --show-all --show-ends --squeeze-blank --show-tabs"),
    "head": usage("-qvz --quiet --silent --verbose", "-nc --lines --bytes", numbers=True),
    "tail": usage(
        "-fFqvz --follow --quiet --silent --verbose --retry",
        "-ncs --lines --bytes --sleep-interval",
        numbers=True,
    ),
    "wc": usage("-clmwL --bytes --chars --lines --words --max-line-length"),
    "grep": usage(
        "-EFGPabcHhIiLlnoqrsvwxyzZ --extended-regexp --fixed-strings --perl-regexp --ignore-case --count "
        "--files-with-matches --files-without-match --line-number --only-matching --quiet --recursive "
        "--invert-match --word-regexp --line-regexp --with-filename --no-filename --no-messages --color "
        "--colour --text",
        "-ABCem --after-context --before-context --context --max-count --include --exclude --exclude-dir "
        "--regexp --binary-files",
        values={"read": "-f --file"},
        operands="pattern",
        numbers=True,
        down="-rR --recursive --dereference-recursive",
        opens="all",
    ),
    "rg": usage(
        "-cFHiIlnNoPpqSsUvwx0 --count --count-matches --fixed-strings --ignore-case --smart-case "
        "--case-sensitive --files --files-with-matches --files-without-match --line-number "
        "--no-line-number --only-matching --pcre2 --heading --no-heading --with-filename --no-filename "
        "--invert-match --word-regexp --line-regexp --multiline --json --stats --trim --vimgrep --column "
        "--no-messages --quiet --type-list",
        "-ABCegmtTrM --after-context --before-context --context --glob --iglob --max-count --max-depth "
        "--type --type-not --replace --regexp --color --sort --sortr --max-columns --threads",
        values={"read": "-f --file"},
        operands="pattern",
        down=ALWAYS,
        opens="shown",
    ),
    "jq": usage(
        "-acCjMnrsSe --compact-output --color-output --null-input --raw-output --raw-input --slurp "
        "--sort-keys --tab --exit-status --join-output",
        values={"number": "--indent"},
        operands="filter",
    ),
    "pwd": usage("-LP", operands="none"),
    "true": usage(operands="text"),
    "false": usage(operands="text"),
    ":": usage(operands="text"),
    "echo": usage("-neE", operands="text"),
    "printf": usage(operands="text"),
    "sleep": usage(operands="text"),
    "seq": usage("-w --equal-width", "-sf --separator --format", operands="text"),
    "basename": usage("-az --multiple", "-s --suffix", operands="text"),
    "dirname": usage("-z", operands="text"),
    "realpath": usage("-emsqz --canonicalize-existing --canonicalize-missing --no-symlinks"),
    "readlink": usage("-efmnqz --canonicalize"),
    "stat": usage("-fLtx --file-system --terse", "-c --format --printf"),
    "file": usage("-bEhikL --brief --mime --mime-type --mime-encoding --dereference"),
    "du": usage(
        "-abchkmsSx0 --all --apparent-size --bytes --total --human-readable --summarize --one-file-system",
        "-d --max-depth --exclude --threshold",
        down=ALWAYS,
    ),
    "df": usage("-ahHiklPT --human-readable --inodes --local --total --print-type"),
    "tree": usage("-aCdDfFghipsuvtr --dirsfirst --noreport --du --prune", "-LIP --filelimit", down=ALWAYS),
    "date": usage("-uRI --utc --iso-8601 --rfc-email", "--rfc-3339", operands="text"),
    "uname": usage("-amnoprsv --all", operands="none"),
    "whoami": usage(operands="none"),
    "id": usage("-gGnru --user --group --groups --name", operands="text"),
    "nproc": usage("--all", operands="none"),
    "which": usage("-as", operands="text"),
    "type": usage("-aftpP", operands="text"),
    "cut": usage("-sz --complement --only-delimited", "-bcdf --bytes --characters --delimiter --fields"),
    "sort": usage(
        "-bcCdfghiMmnRrsuVz --numeric-sort --reverse --unique --human-numeric-sort --version-sort --check "
        "--ignore-case --stable",
        "-ktS --key --field-separator --buffer-size",
        values={"write": "-o --output"},
    ),
    "uniq": usage("-cdiuz --count --repeated --unique --ignore-case", "-fsw", operands="path"),
    "tr": usage("-cCdst --complement --delete --squeeze-repeats", operands="text"),
    "nl": usage("-p", "-bdfhilnsvw"),
    "tac": usage("-br", "-s"),
    "rev": usage(),
    "fold": usage("-bs", "-w"),
    "column": usage("-tx --table", "-cso"),
    "paste": usage("-sz --serial", "-d --delimiters"),
    "join": usage("-iz", "-aejotv12"),
    "comm": usage("-123iz"),
    "cmp": usage("-bls --print-bytes --silent --quiet", "-in"),
    "diff": usage(
        "-abBcdeEiNnpqstTuwyZ --brief --unified --side-by-side --ignore-all-space --color "
        "--ignore-blank-lines --new-file --report-identical-files --suppress-common-lines --context",
        "-CUWx --exclude --label --width",
        down="-r --recursive",
        opens="linked",
    ),
    "md5sum": _HASH,
    "sha1sum": _HASH,
    "sha256sum": _HASH,
    "sha512sum": _HASH,
    "cksum": usage(),
    "strings": usage("-af", "-nt --bytes --radix"),
    "od": usage("-bcdfhiloxsv", "-ANjtSw"),
    "hexdump": usage("-bcCdox", "-ns"),
}


class Option(Struct, frozen=True):
    """One option of a word: its name, what its value is (None: the option is unknown), and the value.

    The value is None where the next word is the value.
    """

    name: str
    value: Value | None
    joined: str | None = ""


def options_in(table: ProgramUsage, text: str) -> Iterator[Option]:
    """The options in a word, up to the first that is unknown or takes the rest of the word."""
    if table.numbers and text[1:].isdigit():
        return
    if table.whole or text.startswith("--"):
        name, equals, joined = text.partition("=")
        value = table.options.get(name)
        takes_next = value is not None and value not in _FLAGS and not equals
        yield Option(name, value, None if takes_next else joined)
        return
    for nth, letter in enumerate(text[1:], start=2):
        value = table.options.get(f"-{letter}")
        if value in _FLAGS:
            yield Option(f"-{letter}", value)
        else:
            yield Option(f"-{letter}", value, text[nth:] or (None if value else ""))
            return


def read_with(table: ProgramUsage, words: tuple[Word, ...]) -> ReadVerdict:
    """Return the files that a program reads with these words (its name is the first), by its table."""
    reading = ReadVerdict()
    operands: list[Word] = []
    seen: set[str] = {ALWAYS}
    at = 1
    while at < len(words) and words[at].text != "--":
        text = words[at].text
        if not text.startswith("-") or text == "-":
            operands.append(words[at])
        else:
            found = tuple(options_in(table, text))
            seen.update(option.name for option in found)
            known = all(option.value in _READ_VALUES for option in found)
            if not known and not (table.operands == "text" and words[0].text == "echo"):
                reading.problem = f"`{words[0].text} {text}` may do more than read."
            if found and found[-1].joined is None:
                at += 1
                _check_value(reading, words[at : at + 1])
        at += 1
    operands += words[at + 1 :]
    _place(table, reading, operands=operands, seen=seen)
    return reading


def _check_value(reading: ReadVerdict, value: tuple[Word, ...]) -> None:
    """Treat the word after an option as a path too, in case the program reads it as an operand."""
    reading.paths += value
    if value and value[0].text.startswith("-") and not value[0].text[1:].isdigit():
        reading.problem = f"`{value[0].text}` may be read as an option."


def _place(table: ProgramUsage, reading: ReadVerdict, *, operands: list[Word], seen: set[str]) -> None:
    """Say which operands are paths, or why there should be none."""
    has_pattern = table.operands == "pattern" and not seen & {"-e", "--regexp", "--files", "--type-list"}
    named = operands[1:] if has_pattern else operands
    if seen & table.down:
        reading.down = named or [Word(".")]
        reading.opens = "all" if table.opens and seen & _LETS_IN else table.opens
    match table.operands:
        case "paths" | "pattern":
            reading.paths += named
        case "path":
            reading.paths += operands
            if len(operands) > 1:
                reading.problem = f"It writes to `{operands[1].text}`."
        case "filter":
            reading.paths += operands[1:]
            if operands and JQ_MORE.search(operands[0].text):
                reading.problem = "The jq program may read more than its files."
        case "text":
            pass
        case _:
            if operands:
                reading.problem = f"`{operands[0].text}` may do more than read."
    if table.listing and operands and not seen & table.listing:
        reading.problem = f"It may create or change `{operands[0].text}`."
