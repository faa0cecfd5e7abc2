"""`holdfast skills`: the skills, and agents' changes to them."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.program_name import command_line
from holdfast.cli.terminal.columns import print_columns, print_json
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.client.client import in_path
from holdfast.config.files import own_config_home
from holdfast.features.memory import actions as memory
from holdfast.features.memory.client import MemoryCalls
from holdfast.features.skills.bodies import SkillList, SkillShown
from holdfast.features.skills.folders import BadSkill, parse_skill, read_folder, skill_folders
from holdfast.features.skills.library import WORKSPACE_FOLDERS, TrustedSkills, TrustUnreadable
from holdfast.safe_text import exact_line, safe, safe_line

Flags: TypeAlias = Mapping[str, object]
SKILLS = {"scope": "skills"}
FOLDERS_MAX = 1_000
PLACES = " or ".join(WORKSPACE_FOLDERS)


def list_skills(flags: Flags, workspace: str | None, *, form: str) -> int:
    """Print the skills."""

    async def work(attached: Attached) -> int:
        place = await asyncio.to_thread(_workspace, attached, workspace)
        found = await attached.client.get("/v1/skills", SkillList, query={"workspace": place})
        if form == "json":
            print_json(found)
            return OK
        rows = [
            (
                one.name,
                one.origin + (", changed" if one.changed else "") + ("" if one.trusted else ", not trusted"),
                safe_line(one.description, 80),
            )
            for one in found.data
        ]
        if rows:
            print_columns(("NAME", "FROM", "DESCRIPTION"), rows)
        else:
            own = own_config_home() / "skills"
            echo(f"No skills yet. Add folders with a SKILL.md to {own}, or to {PLACES} in a workspace.")
        for folder, why in found.problems.items():
            echo_error(f"not used: {safe_line(folder, 200)}: {safe_line(why, 200)}")
        return OK

    return with_server(flags, work, works="nothing")


def show(flags: Flags, name: str, workspace: str | None) -> int:
    """Print one skill."""

    async def work(attached: Attached) -> int:
        place = await asyncio.to_thread(_workspace, attached, workspace)
        path = f"/v1/skills/{in_path(name)}"
        one = await attached.client.get(path, SkillShown, query={"workspace": place})
        echo(f"{one.name}: {safe_line(one.description, 1_100)}\n\n{safe(one.body)}")
        if one.files:
            echo(f"\nFiles: {safe_line(', '.join(one.files), 2_000)}")
        if one.allowed_tools:
            echo(f"\nIt names tools ({safe_line(one.allowed_tools, 200)}); this grants no permissions.")
        return OK

    return with_server(flags, work, works="nothing")


def _workspace(attached: Attached, named: str | None) -> str:
    """The folder whose skills are shown: the one that runs started here would work in."""
    return str(Path(named).absolute() if named else attached.directory.settings.workspace)


def add(folder: Path) -> int:
    """Copy a skill, or all skills below a folder, to the user's own."""
    found = skill_folders(folder, most=FOLDERS_MAX) if folder.is_dir() else []
    if not found:
        echo_error(f"holdfast: {folder} has no SKILL.md")
        return FAILED
    failed = False
    for one in found:
        try:
            name = parse_skill(read_folder(one).text).name
        except BadSkill as error:
            echo_error(f"holdfast: {exact_line(str(one))} wasn't added: {safe_line(str(error))}")
            failed = True
            continue
        into = own_config_home() / "skills" / name
        if into.exists():
            echo_error(f"holdfast: {name} already exists: {into}")
            failed = True
            continue
        into.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(one, into, symlinks=True)
        echo(f"Added {name}.")
    return FAILED if failed else OK


def trust(folder: Path) -> int:
    """Trust a skill of a workspace, or all below a folder, as they are now."""
    trusted = TrustedSkills(own_config_home())
    roots = [folder, *(folder / name for name in WORKSPACE_FOLDERS)]
    found = [one for root in roots if root.is_dir() for one in skill_folders(root, most=FOLDERS_MAX)]
    if not found:
        echo_error(f"holdfast: {folder} has no skills")
        return FAILED
    failed = False
    for one in dict.fromkeys(found):
        try:
            whole = read_folder(one)
            name = parse_skill(whole.text).name
            trusted.trust(one, whole.digest)
        except (BadSkill, TrustUnreadable, OSError) as error:
            echo_error(f"holdfast: {exact_line(str(one))} wasn't trusted: {safe_line(str(error))}")
            failed = True
            continue
        files = "1 file" if len(whole.files) == 1 else f"{len(whole.files)} files"
        echo(f"Trusted {name} ({files}). If it changes, trust it again.")
        if not any(f"/{place}/" in str(one.absolute()) for place in WORKSPACE_FOLDERS):
            where = exact_line(str(one))
            echo_error(f"holdfast: {where} isn't used: a workspace's skills must be in {PLACES}")
    return FAILED if failed else OK


def remove(flags: Flags, name: str) -> int:
    """Remove what agents changed in a skill; without a change, the user's own skill itself."""

    async def work(attached: Attached) -> int:
        memories = MemoryCalls(attached.client)
        changes = await memories.history(SKILLS)
        newest = next((one for one in changes if one.document == name), None)
        if newest is not None and newest.after:
            await memories.edit({**SKILLS, "document": name, "text": ""})
            again = command_line(f"skills rollback {newest.seq}")
            echo(f"Removed the changes to {name}. To undo: {again}")
            return OK
        return await asyncio.to_thread(_remove_own, name)

    return with_server(flags, work, works="nothing")


def _remove_own(name: str) -> int:
    own = own_config_home() / "skills" / name
    if "/" in name or name.startswith(".") or not own.is_dir():
        echo_error(f"holdfast: you have no skill named {safe_line(name, 64)}")
        return FAILED
    shutil.rmtree(own)
    echo(f"Removed {own}.")
    return OK


def history(flags: Flags, *, form: str) -> int:
    """Print what agents changed in skills."""
    return memory.history(flags, SKILLS, form=form)


def roll_back(flags: Flags, to_seq: int) -> int:
    """Make all changes of skills what they were."""
    return memory.roll_back(flags, SKILLS, to_seq)
