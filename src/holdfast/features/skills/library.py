"""Finds skills: the user's own, configured ones, and trusted ones of a workspace."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace
from typing_extensions import override

from holdfast.config.files import own_config_home
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.features.skills.folders import (
    BadSkill,
    SkillText,
    parse_skill,
    read_folder,
    skill_folders,
    skill_text,
)

if TYPE_CHECKING:
    from holdfast.config.settings import Settings
    from holdfast.interfaces.feature import FeatureContext

_log = logging.getLogger(__name__)
SKILLS_MAX = 1_000
IMPORTED = "hermes"  # the folder of skills that were imported, with their folders by subject
WORKSPACE_FOLDERS = (".agents/skills", ".claude/skills")

SkillOrigin: TypeAlias = Literal["own", "configured", "workspace", "learned"]


class TrustedSkills(TrustedFiles):
    """The trusted skill folders of workspaces, each by the digest of everything in it.

    If the list can't be read, nothing is trusted.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "trusted-skills.json", inside=WORKSPACE_FOLDERS)

    @override
    def trusts(self, file: Path, text: str) -> bool:
        try:
            return super().trusts(file, text)
        except TrustUnreadable as error:
            _log.warning("no skill of a workspace is trusted: %s", error)
            return False

    @override
    def knows(self, file: Path) -> bool:
        try:
            return super().knows(file)
        except TrustUnreadable:
            return False


class Skill(Struct, frozen=True, kw_only=True):
    """A skill; `text` is what counts, which may be a change of what is in the folder."""

    text: SkillText
    origin: SkillOrigin
    folder: Path | None = None
    digest: str = ""  # of the whole folder, for one of a workspace
    is_trusted: bool = True
    is_changed: bool = False
    base: str = ""  # the whole SKILL.md as it is in the folder
    category: str = ""  # the first folder by subject that it is in

    @property
    def name(self) -> str:
        """The name by which it is read."""
        return self.text.name


class FoundSkills(Struct, frozen=True):
    """The usable skills, and problems by folder."""

    skills: Mapping[str, Skill]
    problems: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def usable(self) -> Mapping[str, Skill]:
        """Those that an agent may use."""
        return {name: skill for name, skill in self.skills.items() if skill.is_trusted}


class SkillLibrary(Struct, frozen=True, kw_only=True):
    """Where skills are looked for; the user's own win over configured ones, and these over a workspace's."""

    own: Path
    configured: tuple[Path, ...] = ()
    trust: TrustedSkills | None = None  # None: no workspace is trusted

    def find(self, workspace: Path, changes: Mapping[str, str]) -> FoundSkills:
        """All skills for a workspace, with the accepted changes, by name. Blocks."""
        skills: dict[str, Skill] = {}
        problems: dict[str, str] = {}
        places: list[tuple[SkillOrigin, str]] = [
            ("own", str(self.own)),
            *[("configured", str(path)) for path in self.configured],
            *[("workspace", f"{workspace}/{name}") for name in WORKSPACE_FOLDERS],
        ]
        for origin, place in places:
            if not os.path.isdir(place):  # noqa: PTH112  # quicker, and most are missing
                continue
            root = Path(place)
            for folder in skill_folders(root, most=SKILLS_MAX):
                try:
                    skill = replace(self._read(folder, origin), category=_category(folder, root))
                except BadSkill as error:
                    problems[str(folder)] = str(error)
                    continue
                skills.setdefault(skill.name, skill)
        for name, text in changes.items():
            _change(skills, name, text, problems=problems)
        return FoundSkills(skills, problems)

    def _read(self, folder: Path, origin: SkillOrigin) -> Skill:
        text = skill_text(folder)
        skill = Skill(text=parse_skill(text), origin=origin, folder=folder, base=text)
        if origin != "workspace":
            return skill
        # Only what was trusted before is read as a whole: anyone can put huge files into a repository.
        if self.trust is None or not self.trust.knows(folder):
            return replace(skill, is_trusted=False)
        found = read_folder(folder)
        skill = replace(skill, text=parse_skill(found.text), base=found.text, digest=found.digest)
        return replace(skill, is_trusted=self.trust.trusts(folder, found.digest))

    def file_of(self, skill: Skill, name: str) -> str:
        """The text of another file of the skill; raises BadSkill, also if it is no longer trusted. Blocks."""
        if skill.folder is None:
            raise BadSkill("it has no other files")
        found = read_folder(skill.folder, name)
        is_trusted = self.trust is not None and self.trust.trusts(skill.folder, found.digest)
        if skill.origin == "workspace" and not is_trusted:
            raise BadSkill("its folder has changed since it was trusted")
        return found.text

    def files_of(self, skill: Skill) -> tuple[str, ...]:
        """The names of its files; empty if they can't be read. Blocks."""
        try:
            return read_folder(skill.folder).files if skill.folder is not None else ()
        except BadSkill:
            return ()


def configured_library(settings: "Settings") -> SkillLibrary:
    """Return the library that these settings describe."""
    home = own_config_home()
    configured = tuple(Path(path).expanduser() for path in settings.agent.skills)
    return SkillLibrary(own=home / "skills", configured=configured, trust=TrustedSkills(home))


@asynccontextmanager
async def open_library(context: "FeatureContext") -> AsyncGenerator[SkillLibrary]:
    """The library of a server."""
    yield configured_library(context.settings)


def _category(folder: Path, root: Path) -> str:
    by_subject = [name for name in folder.relative_to(root).parts[:-1] if name != IMPORTED]
    return by_subject[0] if by_subject else ""


def _change(skills: dict[str, Skill], name: str, text: str, *, problems: dict[str, str]) -> None:
    """Put an accepted change over the skill, or a new skill beside the others."""
    try:
        changed = parse_skill(text)
    except BadSkill as error:
        problems[f"change of {name}"] = str(error)
        return
    base = skills.get(name)
    if base is None:
        skills[name] = Skill(text=changed, origin="learned")
    elif base.is_trusted:
        skills[name] = replace(base, text=replace(changed, name=name), is_changed=True)
