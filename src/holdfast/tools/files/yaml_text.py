"""Parses YAML of any origin within limits, so that a small text takes neither long nor much memory."""

import re
from typing import TYPE_CHECKING, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

NESTED_MAX = 8
FRONT_CHARS_MAX = 8_000
NAME_CHARS_MAX = 64
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)


class BadYaml(ValueError):
    """A text that isn't YAML, or exceeds a limit; the text is a predicate about it."""


def front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return the fields in front of a text, each value as text, and the text below them; raises BadYaml."""
    text = text.removeprefix("\ufeff")
    found = _FRONT.match(text)
    if found is None:
        raise BadYaml("doesn't start with front matter between two lines of ---")
    try:
        # Every value is text: readers disagree about tags, dates and numbers.
        fields = parse_yaml(found[1], yaml.BaseLoader, chars_max=FRONT_CHARS_MAX)
    except BadYaml as error:
        raise BadYaml(f"has front matter that {error}") from error
    if not isinstance(fields, dict):
        raise BadYaml("has front matter that isn't a mapping of names to values")
    named = {str(key): value for key, value in cast("dict[object, object]", fields).items()}
    return named, text[found.end() :].strip()


def is_plain_name(name: str) -> bool:
    """Whether a file with front matter can have this name."""
    return len(name) <= NAME_CHARS_MAX and _NAME.fullmatch(name) is not None


def parse_yaml(text: str, loader: type[yaml.BaseLoader | yaml.SafeLoader], *, chars_max: int) -> object:
    """Parse a text; raises BadYaml.

    References are refused: merging them makes a small text huge. The parser looks ahead from each open
    bracket, so their number is limited by the length as well.
    """
    if len(text) > chars_max:
        raise BadYaml(f"has more than {chars_max:,} characters")
    if text.count("[") + text.count("{") > (brackets_max := chars_max // 40):
        raise BadYaml(f"has more than {brackets_max:,} brackets")
    try:
        events = cast("Iterable[object]", yaml.parse(text))  # pyright: ignore[reportUnknownMemberType]  # untyped
        _check_is_flat(events)
        return cast("object", yaml.load(text, loader))  # noqa: S506  # the loaders make no objects
    except (yaml.YAMLError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise BadYaml(f"isn't YAML: {first}") from error


def _check_is_flat(events: "Iterable[object]") -> None:
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise BadYaml("uses references (*name)")
        if depth > NESTED_MAX:
            raise BadYaml(f"is nested more than {NESTED_MAX} levels deep")
