"""What is wrong with how files and repositories of others are met, with the check that must notice."""

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.agent.instructions import guides_of
from holdfast.agent.prompt import GUIDE
from holdfast.features.files.downloads import TEXT, OpenedFile, open_file
from holdfast.policy.approvals import Policy, judge
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.repositories import Repository
from holdfast.policy.verdicts import Allow
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import PathRefused, Workspace
from holdfast.tools.git_repositories import repository_at
from holdfast.tools.shell.environment import child_environment
from holdfast.values import Action
from policy.hostile_repositories import GIT_ENVIRONMENT, Ground, ground, other_diff, watcher
from policy.leaking_repositories import linked_shallow, names_of_authors
from sabotage import Sabotage
from tools.calls import Call

# P11: no secret gets out


def opened_plainly(workspace: Workspace) -> dict[str, str]:
    """Opens the guide like any path."""
    return {GUIDE: (workspace.root / GUIDE).read_text()}


async def check_a_guide_shows_no_file_outside(told: Callable[[Workspace], object]) -> None:
    """P11: a guide that is a link out of the workspace tells the model nothing of what is there."""
    with TemporaryDirectory() as folder:
        root = Path(folder, "work")
        await asyncio.to_thread(root.mkdir)
        await asyncio.to_thread(Path(folder, "key").write_text, "secret")
        await asyncio.to_thread((root / GUIDE).symlink_to, "../key")
        assert "secret" not in str(await asyncio.to_thread(told, Workspace(root)))


def opened_by_name(workspace: Workspace, path: str) -> OpenedFile:
    """Opens whatever the name leads to, and takes the name's word for what it is."""
    file = (workspace.root / path).open("rb")
    kind = "text/html" if path.endswith(".html") else "text/plain"
    return OpenedFile(file, path, 1, kind, '"1"')


async def check_the_page_is_shown_no_secret_and_nothing_outside(
    opening: Callable[[Workspace, str], OpenedFile],
) -> None:
    """P11: neither a secret file nor what a link leads to is opened, and no file is a page."""

    def look() -> None:
        with TemporaryDirectory() as folder:
            root = Path(folder, "work")
            root.mkdir()
            Path(folder, "key").write_text("secret")
            (root / "link").symlink_to("../key")
            (root / ".env").write_text("secret")
            (root / "page.html").write_text("<script>")
            for path in ("link", ".env"):
                with suppress(PathRefused):
                    opening(Workspace(root), path).file.close()
                    raise AssertionError(path)
            opened = opening(Workspace(root), "page.html")
            opened.file.close()
            assert opened.media_type == TEXT

    await asyncio.to_thread(look)


# P11: nobody gets in


def without_settings_for_git(source: Mapping[str, str]) -> dict[str, str]:
    """Leaves it to each repository what git runs."""
    return {name: value for name, value in child_environment(source).items() if "GIT_CONFIG" not in name}


async def check_a_repository_gives_git_no_program(
    make: Callable[[Mapping[str, str]], dict[str, str]],
) -> None:
    """P11: a program that a repository names to watch its files is not run by a look at them."""

    def look() -> bool:
        with TemporaryDirectory() as folder:
            made = ground(Path(folder))
            watcher(made)
            environment = make(GIT_ENVIRONMENT)
            subprocess.run(["git", "status"], cwd=made.root, env=environment, check=True, capture_output=True)
            return made.mark.exists()

    assert not await asyncio.to_thread(look)


def knows_of_no_settings(_directory: str, _git_dir: str, *, workspace: str) -> Repository:
    """Does not look into repositories."""
    assert workspace
    return Repository()


async def check_a_program_that_a_repository_names_is_asked_about(read: Callable[..., Repository]) -> None:
    """P11: a command that only reads is asked about where git would run something for it."""
    assert not await asyncio.to_thread(_is_allowed, "git diff", other_diff, read)


def heeds_settings_alone(directory: str, git_dir: str, *, workspace: str) -> Repository:
    """Reads the configuration and takes the rest of the git folder for what git made."""
    found = repository_at(directory, git_dir, workspace=workspace)
    return Repository(found.settings, found.hooks)


async def check_what_a_repository_leads_to_is_asked_about(read: Callable[..., Repository]) -> None:
    """P11: a command that only reads is asked about where git would show a file that lies elsewhere."""
    for command, build in {"git status": linked_shallow, "git log": names_of_authors}.items():
        assert not await asyncio.to_thread(_is_allowed, command, build, read), command


def _is_allowed(command: str, build: Callable[[Ground], None], read: Callable[..., Repository]) -> bool:
    with TemporaryDirectory() as folder:
        made = ground(Path(folder))
        build(made)
        root = str(made.root.resolve())
        places = PathFacts(root, folder, (), lambda path: path, repository=partial(read, workspace=root))
        action = Action(tool="shell", summary="", argv=("bash", "-c", command), paths=(root,))
        return isinstance(judge(action, Policy(places)), Allow)


# P8: an approval is one exact action


class GoesAnywhere(Workspace):
    """Forgets which place was judged."""

    def bound_to(self, places: tuple[str, ...]) -> Workspace:
        assert places
        return self


async def check_a_swapped_link_leads_nowhere(workspaces: Callable[[Path], Workspace]) -> None:
    """P8: what was judged is done, or nothing."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("plain", ".env"):
            await asyncio.to_thread((root / name).write_text, name)
        await asyncio.to_thread((root / "x").symlink_to, ".env")
        call = Call(workspace=root, judged_paths=(str(await asyncio.to_thread((root / "plain").resolve)),))
        result = await ReadFile(FilesSeen(), workspaces=workspaces).run({"path": "x"}, call)
        assert not result.ok


SABOTAGES = (
    Sabotage("P11", check_the_page_is_shown_no_secret_and_nothing_outside, open_file, opened_by_name),
    Sabotage("P11", check_a_guide_shows_no_file_outside, guides_of, opened_plainly),
    Sabotage("P11", check_a_repository_gives_git_no_program, child_environment, without_settings_for_git),
    Sabotage(
        "P11", check_a_program_that_a_repository_names_is_asked_about, repository_at, knows_of_no_settings
    ),
    Sabotage("P11", check_what_a_repository_leads_to_is_asked_about, repository_at, heeds_settings_alone),
    Sabotage("P8", check_a_swapped_link_leads_nowhere, Workspace, GoesAnywhere),
)
