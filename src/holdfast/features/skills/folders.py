"""The folders of skills: reading them within limits, and a digest of everything in one.

SKILL.md in the open format: a few fields in front, and instructions below them.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
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


FILES_MAX = 500
BYTES_MAX = 20_000_000
DEPTH_MAX = 8
FIND_DEPTH_MAX = 5  # skills may be in folders by subject, and these in others
LOOKED_AT_MAX = 2_000  # folders below one place; a repository can have any number of them
READ_MAX = 4 * FILE_CHARS_MAX
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class SkillFolder(Struct, frozen=True):
    """A folder's content: a digest of all its files, their names, and the text of one of them."""

    digest: str
    files: tuple[str, ...]
    text: str


def read_folder(folder: Path, wanted: str = SKILL_FILE) -> SkillFolder:
    """Read a folder, and the text of one file in the same pass; raises BadSkill. Blocks."""
    whole = sha256()
    names: list[str] = []
    text: str | None = None
    total = 0
    for name, path in _files(folder, "", depth=0):
        names.append(name)
        data, is_program = _read(path, most=BYTES_MAX - total)
        total += len(data)
        if len(names) > FILES_MAX or total >= BYTES_MAX:
            raise BadSkill(f"it has more than {FILES_MAX} files or {BYTES_MAX // 1_000_000} MB")
        whole.update(f"{name}\0{is_program:d}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        whole.update(data)
        if name == wanted:
            text = data[:READ_MAX].decode("utf-8", "replace")
    if text is None:
        raise BadSkill(f"it has no {wanted}")
    return SkillFolder(whole.hexdigest(), tuple(names), text)


def skill_text(folder: Path) -> str:
    """The text of the folder's SKILL.md alone; raises BadSkill. Blocks."""
    data, _ = _read(folder / SKILL_FILE, most=READ_MAX)
    return data.decode("utf-8", "replace")


def skill_folders(root: Path, *, most: int) -> list[Path]:
    """The folders below this one that have a SKILL.md, or the folder itself if it has one. Blocks.

    Those nearer to the root come first, so that a subfolder with many others hides none of them.
    """
    found: list[Path] = []
    level, looked_at = [root], 0
    for depth in range(FIND_DEPTH_MAX + 1):
        below: list[Path] = []
        for folder in level:
            if looked_at == LOOKED_AT_MAX or len(found) == most:
                return found
            looked_at += 1
            has_skill, names = _look(folder)
            if has_skill:
                found.append(folder)
            elif depth < FIND_DEPTH_MAX and len(below) < LOOKED_AT_MAX:
                below += [folder / name for name in names[:most]]
        level = below
    return found


def _look(folder: Path) -> tuple[bool, list[str]]:
    """Whether the folder has a SKILL.md, and the names of its folders; links are no folders."""
    try:
        with os.scandir(folder) as entries:
            seen = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return False, []
    names = sorted(name for name, is_dir in seen if is_dir)
    return any(name == SKILL_FILE and not is_dir for name, is_dir in seen), names


def _files(folder: Path, inside: str, *, depth: int) -> Iterator[tuple[str, Path]]:
    """The files below, in a fixed order; raises BadSkill if there are links or special files."""
    if depth > DEPTH_MAX:
        raise BadSkill("its folders are nested too deeply")
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise BadSkill(f"it can't be read: {error.strerror}") from error
    for entry in entries:
        name = f"{inside}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), f"{name}/", depth=depth + 1)
        elif entry.is_file(follow_symlinks=False):
            yield name, Path(entry.path)
        else:
            raise BadSkill(f"{name} is a link or no plain file")


def _read(path: Path, *, most: int) -> tuple[bytes, bool]:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            is_program = bool(os.fstat(file.fileno()).st_mode & 0o111)
            return file.read(most), is_program
    except OSError as error:
        raise BadSkill(f"{path.name} can't be read: {error.strerror}") from error
