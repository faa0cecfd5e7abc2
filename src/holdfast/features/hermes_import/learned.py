"""The skills and memories of hermes-agent: what is found in its home, and where it goes."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from holdfast.features.hermes_import.home_files import OutsideHome, path_in_home, read_home_file
from holdfast.features.memory.memories import Memories, MemoryScope
from holdfast.features.memory.state import DOCUMENT, DOCUMENT_CHARS_MAX, NOTE_CHARS_MAX
from holdfast.features.skills.folders import BadSkill, parse_skill, skill_folders, skill_text
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import Redactor

SKILLS_MAX = 5_000
_ENTRY_MARK = "\n§\n"  # between the entries of a memory
_MEMORIES = {"USER.md": "hermes-user", "MEMORY.md": "hermes-memory"}


class HermesLearned(Struct):
    """The memories (texts by document) and skills (folders by path) of hermes-agent."""

    memories: dict[str, str] = field(default_factory=dict[str, str])
    skills: dict[str, Path] = field(default_factory=dict[str, Path])
    problems: list[str] = field(default_factory=list[str])


def read_learned(home: Path) -> HermesLearned:
    """Look into its home; nothing there is changed."""
    found = HermesLearned()
    for name, note in _MEMORIES.items():
        for place in (home / "memories" / name, home / name):
            if place.is_file():
                _take_memory(found, home, place, note=note)
                break
    _find_skills(found, home)
    return found


def _find_skills(found: HermesLearned, home: Path) -> None:
    try:
        root = path_in_home(home, home / "skills")
    except OutsideHome as error:
        found.problems.append(f"{home / 'skills'}: can't read the folder: {error}")
        return
    for folder in skill_folders(root, most=SKILLS_MAX):
        name = str(folder.relative_to(root))
        found.skills[name] = folder
        try:
            parse_skill(skill_text(folder))
        except BadSkill as error:
            found.problems.append(f"skill {name} is copied but can't be used: {error}")


def _take_memory(found: HermesLearned, home: Path, file: Path, *, note: str) -> None:
    try:
        text = read_home_file(home, file).decode("utf-8", "replace").strip()
    except OSError as error:
        found.problems.append(f"{file}: can't read the file: {error.strerror}")
        return
    lines = "\n".join(f"- {entry.strip()}" for entry in text.split(_ENTRY_MARK) if entry.strip())
    if note == "hermes-user" and 0 < len(lines) <= DOCUMENT_CHARS_MAX:
        found.memories[DOCUMENT] = lines
    elif lines:
        for nth, start in enumerate(range(0, len(lines), NOTE_CHARS_MAX), 1):
            piece = lines[start : start + NOTE_CHARS_MAX]
            found.memories[note if nth == 1 else f"{note}-{nth}"] = piece


def copy_skills(found: HermesLearned, into: Path) -> int:
    """Copy what isn't there yet; returns how many skills were copied."""
    copied = 0
    for place, folder in found.skills.items():
        target = into / "hermes" / place
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(folder, target, symlinks=True)
        copied += 1
    return copied


async def store_memories(
    found: HermesLearned, store: SqliteStore, *, scopes: Sequence[MemoryScope], hidden: Redactor
) -> None:
    """Store the memories in each scope where there is nothing yet."""
    memories = Memories(store, SystemClock())
    for scope in scopes:
        for document, text in found.memories.items():
            if document not in (await memories.load(scope)).texts:
                await memories.put(scope, document, hidden.redact_text(text), by="import")
