"""Applies `.gitignore` files without git.

A repository chooses these patterns, so no pattern may take long: stars don't backtrack into each other, and a
pattern with more than two `**` is dropped, which covers more files and not fewer.
"""

import os
import re
import stat
from functools import lru_cache
from typing import Final

from msgspec import Struct

# Files that tools can generate again, ignored even if no .gitignore lists them.
CACHES: Final = """\
__pycache__/
.pytest_cache/
.mypy_cache/
.ruff_cache/
.pytype/
.hypothesis/
.ipynb_checkpoints/
.tox/
.nox/
.nyc_output/
.parcel-cache/
.turbo/
.eslintcache
.DS_Store
"""
RULES_MAX: Final = 2_000
FILE_BYTES_MAX: Final = 256 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DEEP_MAX: Final = 2
_NEVER: Final = r"(?!)"
_POSIX: Final = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "xdigit": "0-9a-fA-F",
    "punct": re.escape("!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"),
}


class _Rule(Struct, frozen=True):
    pattern: re.Pattern[str]
    by_name: bool  # matches the last part of a path, at any depth
    folders_only: bool
    ignores: bool  # False for a pattern that begins with "!"


class IgnoreRules(Struct, frozen=True):
    """The patterns of one file; the last one that matches decides."""

    rules: tuple[_Rule, ...] = ()
    any_name: re.Pattern[str] | None = None
    any_path: re.Pattern[str] | None = None

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path below the file's folder is ignored; None if no pattern is about it."""
        name = path.rpartition("/")[2]
        by_name = self.any_name is not None and self.any_name.match(name) is not None
        by_path = self.any_path is not None and self.any_path.match(path) is not None
        if not (by_name or by_path):
            return None
        for rule in reversed(self.rules):
            if (rule.by_name and not by_name) or (rule.folders_only and not is_folder):
                continue
            if rule.pattern.match(name if rule.by_name else path):
                return rule.ignores
        return None


@lru_cache(maxsize=1_000)
def parse_rules(text: str) -> IgnoreRules:
    """The rules of a file with this text."""
    rules: list[_Rule] = []
    sources: dict[bool, list[str]] = {True: [], False: []}
    for line in text.removeprefix("\ufeff").split("\n")[:RULES_MAX]:
        parsed = _parsed(line.removesuffix("\r"))
        if parsed is not None:
            rule, source = parsed
            rules.append(rule)
            sources[rule.by_name].append(source)
    any_name, any_path = (
        re.compile("|".join(f"(?:{one})" for one in sources[by_name]), re.DOTALL)
        if sources[by_name]
        else None
        for by_name in (True, False)
    )
    return IgnoreRules(tuple(rules), any_name, any_path)


class Ignored(Struct, frozen=True):
    """The rules of the folders from the top down to one, each with the length of its path."""

    rules: tuple[tuple[int, IgnoreRules], ...] = ()

    def within(self, prefix: str, folder_fd: int) -> "Ignored":
        """With the rules in the folder, whose path is `prefix` with a slash at the end, or empty."""
        try:
            with os.fdopen(os.open(".gitignore", _FLAGS, dir_fd=folder_fd), "rb") as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                text = file.read(FILE_BYTES_MAX).decode("utf-8", "surrogateescape") if is_file else ""
        except OSError:
            return self  # it has none, or none that may be read
        return Ignored((*self.rules, (len(prefix), parse_rules(text)))) if text else self

    def covers(self, path: str, *, is_folder: bool) -> bool:
        """Whether the path is ignored, if the folders above it aren't."""
        for start, one in reversed(self.rules):
            if (verdict := one.verdict(path[start:], is_folder=is_folder)) is not None:
                return verdict
        return False


def _parsed(line: str) -> tuple[_Rule, str] | None:
    if not line or line.startswith("#"):
        return None
    text = re.sub(r"(?<!\\) +\Z", "", line)
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text or text.count("**") > _DEEP_MAX:
        return None
    by_name = "/" not in text
    source = (_component(text) if by_name else _path(text.removeprefix("/"))) + r"\Z"
    return _Rule(re.compile(source, re.DOTALL), by_name, folders_only, ignores), source


def _path(text: str) -> str:
    """The regular expression for a pattern with slashes."""
    parts = text.split("/")
    result = ""
    for nth, part in enumerate(parts):
        is_last = nth == len(parts) - 1
        if part == "**":
            result += ".+" if is_last else "(?:[^/]+/)*"
        else:
            result += _component(part) + ("" if is_last else "/")
    return result


def _component(text: str) -> str:
    """The regular expression for one name of a pattern."""
    chunks: list[str] = [""]
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            chunks.append("")
        elif char == "?":
            chunks[-1] += "[^/]"
        elif char == "[":
            found, at = _bracket(text, at)
            chunks[-1] += found
        elif char == "\\":
            if at == len(text):
                return _NEVER
            chunks[-1] += re.escape(text[at])
            at += 1
        else:
            chunks[-1] += re.escape(char)
    if len(chunks) == 1:
        return chunks[0]
    # The first place where a chunk fits is as good as any later one, so nothing has to be tried again.
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1] if chunk)
    return f"{chunks[0]}{middle}[^/]*{chunks[-1]}"


def _bracket(text: str, at: int) -> tuple[str, int]:
    """The expression for the characters from after a "[", and where it ends."""
    negated = text[at : at + 1] in {"!", "^"}
    at += negated
    inside = ""
    first = True
    while True:
        if at >= len(text):
            return _NEVER, at
        char = text[at]
        if char == "]" and not first:
            break
        first = False
        if char == "[" and text[at + 1 : at + 2] == ":" and (end := text.find(":]", at)) > 0:
            if (known := _POSIX.get(text[at + 2 : end])) is None:
                return _NEVER, len(text)
            inside += known
            at = end + 2
            continue
        low, at = _literal(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in {"", "]"}:
            high, at = _literal(text, at + 1)
            inside += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            inside += re.escape(low)
    if not inside:
        return ("[^/]" if negated else _NEVER), at + 1
    return f"(?!/)[{'^' if negated else ''}{inside}]", at + 1


def _literal(text: str, at: int) -> tuple[str, int]:
    if text[at] == "\\" and at + 1 < len(text):
        return text[at + 1], at + 2
    return text[at], at + 1
