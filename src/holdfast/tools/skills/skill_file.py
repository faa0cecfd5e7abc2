"""SKILL.md in the open format: a few fields in front, and instructions below them."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 1_024
FRONT_CHARS_MAX = 8_000
FILE_CHARS_MAX = 100_000
BRACKETS_MAX = 200  # also in texts
NESTED_MAX = 8  # lists and tables in the fields
SKILL_FILE = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)


class BadSkill(Exception):
    """What was found is no skill; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillText:
    """What a SKILL.md says; `allowed_tools` is shown to people and grants nothing."""

    name: str
    description: str
    body: str
    licence: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    metadata: dict[str, str] = field(default_factory=dict[str, str])


def parse_skill(text: str) -> SkillText:
    """The skill in this text; raises BadSkill."""
    if len(text) > FILE_CHARS_MAX:
        raise BadSkill(f"it has more than {FILE_CHARS_MAX:,} characters")
    found = _FRONT.match(text.removeprefix("\ufeff"))
    if found is None:
        raise BadSkill("it doesn't begin with fields between two lines of ---")
    fields = _fields(found[1])
    name, description = _text(fields, "name"), _text(fields, "description")
    if not is_skill_name(name):
        raise BadSkill("`name` must be 1 to 64 characters of a-z, 0-9 and single hyphens")
    if not 0 < len(description) <= DESCRIPTION_CHARS_MAX:
        raise BadSkill(f"`description` must have 1 to {DESCRIPTION_CHARS_MAX:,} characters")
    metadata = fields.get("metadata")
    known = cast("dict[object, object]", metadata) if isinstance(metadata, dict) else {}
    return SkillText(
        name=name,
        description=description,
        body=text.removeprefix("\ufeff")[found.end() :].strip(),
        licence=_text(fields, "license"),
        compatibility=_text(fields, "compatibility"),
        allowed_tools=_text(fields, "allowed-tools"),
        metadata={str(key): str(value) for key, value in known.items()},
    )


def is_skill_name(name: str) -> bool:
    """Whether a skill can have this name."""
    return len(name) <= NAME_CHARS_MAX and _NAME.fullmatch(name) is not None


def skill_file(name: str, description: str, body: str) -> str:
    """The text of a SKILL.md with this content."""
    front = yaml.safe_dump({"name": name, "description": description}, allow_unicode=True, sort_keys=False)
    return f"---\n{front}---\n\n{body.strip()}"


def _fields(front: str) -> dict[str, object]:
    if len(front) > FRONT_CHARS_MAX:
        raise BadSkill(f"its fields have more than {FRONT_CHARS_MAX:,} characters")
    # What is nested is slow to read even up to the limit below.
    if front.count("[") + front.count("{") > BRACKETS_MAX:
        raise BadSkill(f"its fields have more than {BRACKETS_MAX} brackets")
    try:
        events = cast("Iterable[object]", yaml.parse(front))  # pyright: ignore[reportUnknownMemberType]  # untyped
        _check_is_flat(events)
        # Every value is text: what YAML makes of tags, dates and numbers differs between readers.
        found = cast("object", yaml.load(front, yaml.BaseLoader))  # noqa: S506  # it makes no objects
    except (yaml.YAMLError, RecursionError) as error:
        raise BadSkill(f"its fields are no YAML: {error}") from error
    if not isinstance(found, dict):
        raise BadSkill("its fields are no list of names and values")
    return {str(key): value for key, value in cast("dict[object, object]", found).items()}


def _check_is_flat(events: "Iterable[object]") -> None:
    """Raise BadSkill for what makes a small text huge, or takes minutes to read: references, deep nesting."""
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise BadSkill("its fields use references")
        if depth > NESTED_MAX:
            raise BadSkill("its fields are nested too deeply")


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    if isinstance(value, list):
        return " ".join(str(one) for one in cast("list[object]", value))
    return str(value).strip() if value is not None else ""
