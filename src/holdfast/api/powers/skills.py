"""The bodies of responses about skills."""

from typing import Literal

from holdfast.api.body import ResponseBody


class SkillListed(ResponseBody, frozen=True, kw_only=True):
    """A skill as the list shows it; `category` is the folder by subject that it is in, as hermes has it."""

    name: str
    description: str
    category: str | None
    origin: Literal["own", "configured", "workspace", "learned"]
    trusted: bool
    changed: bool = False  # by a proposal that was accepted
    folder: str = ""


class SkillShown(SkillListed, frozen=True, kw_only=True):
    """A skill with its instructions, and the names of its other files."""

    body: str
    base: str = ""  # the SKILL.md in its folder, if an accepted change is over it
    files: tuple[str, ...] = ()
    licence: str = ""
    compatibility: str = ""
    allowed_tools: str = ""


class SkillList(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The skills of the caller in a workspace, and what couldn't be used, by folder."""

    data: tuple[SkillListed, ...]
    problems: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
