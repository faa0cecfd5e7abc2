"""SKILL.md in the open format: a few fields in front, and instructions below them."""

from typing import cast

from msgspec import Struct, field

DESCRIPTION_CHARS_MAX = 1_024
FILE_CHARS_MAX = 100_000
SKILL_FILE = "SKILL.md"


class BadSkill(Exception):
    """Not a valid skill. The text is the reason."""


class SkillText(Struct, frozen=True, kw_only=True):
    """The content of a SKILL.md. `allowed_tools` is shown to people and grants nothing."""

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
    from holdfast.tools.files.yaml_text import (  # takes a while, and few read skills
        BadYaml,
        front_matter,
        is_plain_name,
    )

    try:
        fields, body = front_matter(text)
    except BadYaml as error:
        raise BadSkill(f"it {error}") from error
    name, description = _text(fields, "name"), _text(fields, "description")
    if not is_plain_name(name):
        raise BadSkill("`name` must be 1 to 64 characters of a-z, 0-9 and single hyphens")
    if not 0 < len(description) <= DESCRIPTION_CHARS_MAX:
        raise BadSkill(f"`description` must have 1 to {DESCRIPTION_CHARS_MAX:,} characters")
    metadata = fields.get("metadata")
    known = cast("dict[object, object]", metadata) if isinstance(metadata, dict) else {}
    return SkillText(
        name=name,
        description=description,
        body=body,
        licence=_text(fields, "license"),
        compatibility=_text(fields, "compatibility"),
        allowed_tools=_text(fields, "allowed-tools"),
        metadata={str(key): str(value) for key, value in known.items()},
    )


def skill_file(name: str, description: str, body: str) -> str:
    """The text of a SKILL.md with this content."""
    import yaml  # takes a while, and only few read or write a skill

    front = yaml.safe_dump({"name": name, "description": description}, allow_unicode=True, sort_keys=False)
    return f"---\n{front}---\n\n{body.strip()}"


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    if isinstance(value, list):
        return " ".join(str(one) for one in cast("list[object]", value))
    return str(value).strip() if value is not None else ""
