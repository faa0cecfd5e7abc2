"""Programs that only read, as data: which of their options are known to change nothing, and what they read.

An option that a table does not name makes the command one to ask about, so that a new or abbreviated spelling
of a dangerous option is never taken for a harmless one.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from holdfast.policy.shell_words import Word

Operands: TypeAlias = Literal["paths", "path", "pattern", "text", "none"]
ALWAYS = "--"  # in place of options: with any of them and with none


@dataclass(frozen=True, slots=True)
class Reader:
    """One program, or one subcommand, that only reads with these options."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()  # options with a value, which is never a path
    operands: Operands = "paths"
    numbers: bool = False  # -20 is an option
    listing: frozenset[str] = frozenset()  # options without which an operand would make something new
    down: frozenset[str] = frozenset()  # options with which it goes down into directories


@dataclass(slots=True)
class Reading:
    """What is read, and why it may be more than that (empty if it is not)."""

    problem: str = ""
    paths: list[Word] = field(default_factory=list[Word])
    from_root_only: bool = False  # trusted only in the workspace's own directory
    down: list[Word] = field(default_factory=list[Word])  # directories that it goes down into


def reader(
    flags: str = "",
    valued: str = "",
    *,
    operands: Operands = "paths",
    numbers: bool = False,
    listing: str = "",
    down: str = "",
) -> Reader:
    """A table entry; a word of one dash stands for its letters: "-la" is -l and -a."""
    return Reader(
        frozenset(_options(flags)),
        frozenset(_options(valued)),
        operands=operands,
        numbers=numbers,
        listing=frozenset(_options(listing)),
        down=frozenset(_options(down)),
    )


def _options(text: str) -> list[str]:
    words = text.split()
    long = [word for word in words if word.startswith("--")]
    return long + [f"-{letter}" for word in words if not word.startswith("--") for letter in word[1:]]


_HASH = reader("-bt --binary --text --tag")
READERS: dict[str, Reader] = {
    "ls": reader(
        "-AaBbCcdFfGghiklmNnopqRrSstUuvXxZ1 --all --almost-all --color --classify --directory --full-time "
        "--human-readable --inode --recursive --reverse --size --group-directories-first --si",
        "-ITw --ignore --sort --time --time-style --width --format",
        down="-R --recursive",
    ),
    "cat": reader("-AbEensTtuv --number --show-all --show-ends --squeeze-blank --show-tabs"),
    "head": reader("-qvz --quiet --silent --verbose", "-nc --lines --bytes", numbers=True),
    "tail": reader(
        "-fFqvz --follow --quiet --silent --verbose --retry",
        "-ncs --lines --bytes --sleep-interval",
        numbers=True,
    ),
    "wc": reader("-clmwL --bytes --chars --lines --words --max-line-length"),
    "grep": reader(
        "-EFGPabcHhIiLlnoqrsvwxyzZ --extended-regexp --fixed-strings --perl-regexp --ignore-case --count "
        "--files-with-matches --files-without-match --line-number --only-matching --quiet --recursive "
        "--invert-match --word-regexp --line-regexp --with-filename --no-filename --no-messages --color "
        "--colour --text",
        "-ABCem --after-context --before-context --context --max-count --include --exclude --exclude-dir "
        "--regexp --binary-files",
        operands="pattern",
        numbers=True,
        down="-rR --recursive --dereference-recursive",
    ),
    "rg": reader(
        "-cFHiIlnNoPpqSsUvwx0 --count --count-matches --fixed-strings --ignore-case --smart-case "
        "--case-sensitive --files --files-with-matches --files-without-match --line-number "
        "--no-line-number --only-matching --pcre2 --heading --no-heading --with-filename --no-filename "
        "--invert-match --word-regexp --line-regexp --multiline --json --stats --trim --vimgrep --column "
        "--no-messages --quiet --type-list",
        "-ABCegmtTrM --after-context --before-context --context --glob --iglob --max-count --max-depth "
        "--type --type-not --replace --regexp --color --sort --sortr --max-columns --threads",
        operands="pattern",
        down=ALWAYS,
    ),
    "pwd": reader("-LP", operands="none"),
    "true": reader(operands="text"),
    "false": reader(operands="text"),
    ":": reader(operands="text"),
    "echo": reader("-neE", operands="text"),
    "printf": reader(operands="text"),
    "sleep": reader(operands="text"),
    "seq": reader("-w --equal-width", "-sf --separator --format", operands="text"),
    "basename": reader("-az --multiple", "-s --suffix", operands="text"),
    "dirname": reader("-z", operands="text"),
    "realpath": reader("-emsqz --canonicalize-existing --canonicalize-missing --no-symlinks"),
    "readlink": reader("-efmnqz --canonicalize"),
    "stat": reader("-fLtx --file-system --terse", "-c --format --printf"),
    "file": reader("-bEhikL --brief --mime --mime-type --mime-encoding --dereference"),
    "du": reader(
        "-abchkmsSx0 --all --apparent-size --bytes --total --human-readable --summarize --one-file-system",
        "-d --max-depth --exclude --threshold",
        down=ALWAYS,
    ),
    "df": reader("-ahHiklPT --human-readable --inodes --local --total --print-type"),
    "tree": reader("-aCdDfFghipsuvtr --dirsfirst --noreport --du --prune", "-LIP --filelimit", down=ALWAYS),
    "date": reader("-uRI --utc --iso-8601 --rfc-email", "--rfc-3339", operands="text"),
    "uname": reader("-amnoprsv --all", operands="none"),
    "whoami": reader(operands="none"),
    "id": reader("-gGnru --user --group --groups --name", operands="text"),
    "nproc": reader("--all", operands="none"),
    "which": reader("-as", operands="text"),
    "type": reader("-aftpP", operands="text"),
    "cut": reader("-sz --complement --only-delimited", "-bcdf --bytes --characters --delimiter --fields"),
    "sort": reader(
        "-bcCdfghiMmnRrsuVz --numeric-sort --reverse --unique --human-numeric-sort --version-sort --check "
        "--ignore-case --stable",
        "-ktS --key --field-separator --buffer-size",
    ),
    "uniq": reader("-cdiuz --count --repeated --unique --ignore-case", "-fsw", operands="path"),
    "tr": reader("-cCdst --complement --delete --squeeze-repeats", operands="text"),
    "nl": reader("-p", "-bdfhilnsvw"),
    "tac": reader("-br", "-s"),
    "rev": reader(),
    "fold": reader("-bs", "-w"),
    "column": reader("-tx --table", "-cso"),
    "paste": reader("-sz --serial", "-d --delimiters"),
    "join": reader("-iz", "-aejotv12"),
    "comm": reader("-123iz"),
    "cmp": reader("-bls --print-bytes --silent --quiet", "-in"),
    "diff": reader(
        "-abBcdeEiNnpqstTuwyZ --brief --unified --side-by-side --ignore-all-space --color "
        "--ignore-blank-lines --new-file --report-identical-files --suppress-common-lines --context",
        "-CUWx --exclude --label --width",
        down="-r --recursive",
    ),
    "md5sum": _HASH,
    "sha1sum": _HASH,
    "sha256sum": _HASH,
    "sha512sum": _HASH,
    "cksum": reader(),
    "strings": reader("-af", "-nt --bytes --radix"),
    "od": reader("-bcdfhiloxsv", "-ANjtSw"),
    "hexdump": reader("-bcCdox", "-ns"),
}


def read_with(table: Reader, words: tuple[Word, ...]) -> Reading:
    """What a program reads with these words (its name is the first), as its table says."""
    reading = Reading()
    operands: list[Word] = []
    seen: set[str] = {ALWAYS}
    at = 1
    while at < len(words) and words[at].text != "--":
        text = words[at].text
        if not text.startswith("-") or text == "-":
            operands.append(words[at])
        else:
            known, takes_next = _option(table, text, seen)
            if not known and not (table.operands == "text" and words[0].text == "echo"):
                reading.problem = f"`{words[0].text} {text}` is not known to only read."
            if takes_next:
                at += 1
                _check_value(reading, words[at : at + 1])
        at += 1
    operands += words[at + 1 :]
    _place(table, reading, operands=operands, seen=seen)
    return reading


def _check_value(reading: Reading, value: tuple[Word, ...]) -> None:
    """Treat the word behind an option as a path too, should the program see an operand there."""
    reading.paths += value
    if value and value[0].text.startswith("-") and not value[0].text[1:].isdigit():
        reading.problem = f"`{value[0].text}` may be an option of its own."


def _option(table: Reader, text: str, seen: set[str]) -> tuple[bool, bool]:
    """Whether an option is known, and whether its value is the next word."""
    if table.numbers and text[1:].isdigit():
        return True, False
    if text.startswith("--"):
        name, joined, _ = text.partition("=")
        seen.add(name)
        return name in table.flags | table.valued, name in table.valued and not joined
    for nth, letter in enumerate(text[1:], start=1):
        seen.add(f"-{letter}")
        if f"-{letter}" in table.valued:
            return True, nth + 1 == len(text)
        if f"-{letter}" not in table.flags:
            return False, False
    return True, False


def _place(table: Reader, reading: Reading, *, operands: list[Word], seen: set[str]) -> None:
    """Say which operands are paths, or why there should be none."""
    has_pattern = table.operands == "pattern" and not seen & {"-e", "--regexp", "--files", "--type-list"}
    named = operands[1:] if has_pattern else operands
    if seen & table.down:
        reading.down = named or [Word(".")]
    match table.operands:
        case "paths" | "pattern":
            reading.paths += named
        case "path":
            reading.paths += operands
            if len(operands) > 1:
                reading.problem = f"It writes to `{operands[1].text}`."
        case "none":
            if operands:
                reading.problem = f"`{operands[0].text}` is not known to only be read."
        case "text":
            pass
    if table.listing and operands and not seen & table.listing:
        reading.problem = f"`{operands[0].text}` may be made or changed by it."
