"""What a command may reach: built from the settings, the workspace and an approval, in one place."""

import ctypes
import os
import platform
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.workspace_scan import WorkspaceScan
from holdfast.values import Lift
from sandbox.stage import NOBODY


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


def _options(home: Path, **more: object) -> SandboxOptions:
    return replace(SandboxOptions(home=home, environment={"PATH": "/usr/bin:/bin"}), **more)


def _write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_secret_files_are_masked_and_what_acts_later_is_protected(home: Path, work: Path) -> None:
    _write(work, ".env", "sub/.ssh/id_rsa", "deep/er/prod.tfstate", ".env.example", "src/main.py")
    _write(work, "AGENTS.md", "Makefile", ".github/workflows/ci.yml", "sub/.vscode/tasks.json")
    _write(work, "node_modules/x/.env", "node_modules/x/Makefile")
    profile = Profiles(_options(home)).profile(work)
    assert [os.path.relpath(path, work) for path in profile.masked] == [
        ".env",
        "deep/er/prod.tfstate",
        "sub/.ssh",
    ]
    assert [os.path.relpath(path, work) for path in profile.protected] == [
        ".github/workflows",
        "AGENTS.md",
        "Makefile",
        "sub/.vscode",
    ]
    assert profile.known


def test_of_git_only_what_it_obeys_is_protected(home: Path, work: Path) -> None:
    _write(work, ".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/index", ".git/objects/ab/cd")
    profile = Profiles(_options(home)).profile(work)
    assert [os.path.relpath(path, work) for path in profile.protected] == [".git/config", ".git/hooks"]


def test_the_git_folder_of_a_linked_working_tree_is_writable_but_for_what_git_obeys(
    home: Path, tmp_path: Path
) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (
        ["init", "-q", str(main)],
        ["-C", str(main), "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", str(linked)],
    ):
        subprocess.run([*git, *words], check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(home)})
    profile = Profiles(_options(home)).profile(linked)
    assert profile.write == (str(main / ".git"),)
    assert {str(main / ".git/config"), str(main / ".git/hooks"), str(linked / ".git")} <= {*profile.protected}


def test_a_git_file_that_names_a_folder_of_its_own_choice_opens_nothing(home: Path, work: Path) -> None:
    _write(home, "secrets/objects/x", "secrets/commondir", text=".")
    _write(work, ".git", text=f"gitdir: {home}/secrets\n")
    assert Profiles(_options(home)).profile(work).write == ()


def test_a_secret_that_is_a_link_masks_what_it_leads_to(home: Path, work: Path) -> None:
    _write(work, "config/real")
    (work / ".env").symlink_to("config/real")
    profiles = Profiles(_options(home))
    assert profiles.profile(work).masked == (str(work / "config/real"),)
    (work / ".env").unlink()  # as a command can, which would make it an ordinary file for the next one
    assert profiles.profile(work).masked == (str(work / "config/real"),)


@pytest.mark.parametrize(
    ("path", "is_masked"),
    [(".venv/.env", True), ("node_modules/.env", True), ("node_modules/a/.env", False)],
)
def test_of_dependencies_only_the_first_level_is_searched(
    home: Path, work: Path, path: str, *, is_masked: bool
) -> None:
    _write(work, path)
    assert Profiles(_options(home)).profile(work).masked == ((str(work / path),) if is_masked else ())


def test_a_socket_is_masked_if_a_program_outside_listens_on_it(home: Path, work: Path) -> None:
    """P13: it would act for a command, whatever the network of the command is."""
    with ExitStack() as stack:
        for name in ("app.sock", "left-behind.sock"):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(str(work / name))
            if name != "app.sock":
                one.close()
        profiles, path = Profiles(_options(home)), str(work / "app.sock")
        assert profiles.profile(work).masked == (path,)
        assert profiles.profile(work, lift=Lift(write=(path,))).masked == ()


@pytest.mark.parametrize("closed", ["a", "a/.npmrc"])
def test_what_a_command_closed_is_masked_since_the_next_could_open_it_again(closed: str) -> None:
    """P13: a folder or file of ours that can't be read now isn't one that can't be read later."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        work.chmod(0o755)  # for whom the test becomes
        _write(work, "a/b/.env", "a/.npmrc")
        (work / closed).chmod(0o000)
        masked = _as_somebody(lambda: Profiles(_options(work / "home")).profile(work).masked)
        (work / "a").chmod(0o755)
    assert str(work / closed) in masked


def _as_somebody(call: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Call it in a thread without the rights of root."""
    found: list[tuple[str, ...]] = []

    def in_thread() -> None:
        if os.getuid() == 0:
            # Of this thread alone: the C library would do it in all of them.
            libc, number = ctypes.CDLL(None), 117 if platform.machine() == "x86_64" else 147
            assert libc.syscall(number, NOBODY, NOBODY, NOBODY) == 0
        found.append(call())

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    return found[0]


def test_a_registry_file_without_a_token_is_not_secret(home: Path, work: Path) -> None:
    _write(work, ".npmrc", text="save-exact=true\n")
    profiles = Profiles(_options(home))
    assert profiles.profile(work).masked == ()
    _write(work, ".npmrc", text="//registry.example/:_authToken=x\n")
    assert profiles.profile(work).masked == (str(work / ".npmrc"),)


def test_what_is_new_is_found_by_the_next_profile(home: Path, work: Path) -> None:
    _write(work, "a/b/c.txt")
    profiles = Profiles(_options(home))
    assert profiles.profile(work).masked == ()
    _write(work, "a/b/.env")
    assert profiles.profile(work).masked == (str(work / "a/b/.env"),)
    (work / "a/b/.env").unlink()
    assert profiles.profile(work).masked == ()


def test_a_second_look_reads_only_folders_that_changed(work: Path) -> None:
    _write(work, "a/.env", "b/x")
    for folder in (work, work / "a", work / "b"):
        os.utime(folder, (1, 1))
    scan = WorkspaceScan()
    assert scan.look(str(work)).secret == (str(work / "a/.env"),)
    (work / "a").chmod(0o000)  # changes no name in it, but makes it another folder to look at
    assert scan.look(str(work)).known
    (work / "a").chmod(0o700)
    assert scan.look(str(work)).secret == (str(work / "a/.env"),)


def test_a_workspace_that_is_too_large_to_search_is_not_known(work: Path) -> None:
    _write(work, *(f"{number}.txt" for number in range(20)))
    assert WorkspaceScan(entries_max=30).look(str(work)).known
    assert not WorkspaceScan(entries_max=10).look(str(work)).known


def test_what_the_settings_name_can_be_read_and_written(home: Path, work: Path, tmp_path: Path) -> None:
    _write(tmp_path, "other/x", "shared/x")
    _write(work, ".env", "AGENTS.md")
    options = _options(
        home,
        read=(str(tmp_path / "shared"), str(work / ".env")),
        write=(str(tmp_path / "other"), str(tmp_path / "gone")),
    )
    profile = Profiles(options).profile(work)
    assert profile.write == (str(tmp_path / "other"),)
    assert str(tmp_path / "shared") in profile.read
    assert profile.masked == ()
    assert profile.protected == (str(work / "AGENTS.md"),)


def test_an_approval_lifts_exactly_what_it_names(home: Path, work: Path) -> None:
    _write(work, ".env", "AGENTS.md", "Makefile")
    profiles = Profiles(_options(home, network="hosts", hosts=("a.example",)))
    lift = Lift(hosts=("b.example",), write=(str(work / "AGENTS.md"),), read=(str(work / ".env"),))
    profile = profiles.profile(work, lift=lift)
    assert profile.hosts == ("a.example", "b.example")
    assert profile.network == "hosts"
    assert profile.protected == (str(work / "Makefile"),)
    assert profile.masked == ()
    assert profiles.profile(work, lift=Lift(network=True)).network == "on"
    assert Profiles(_options(home)).profile(work, lift=Lift(hosts=("b.example",))).network == "hosts"
    assert profiles.profile(work).masked == (str(work / ".env"),)


def test_holdfasts_own_files_are_masked_wherever_they_can_be_seen(home: Path, work: Path) -> None:
    _write(work, "data/holdfast.db", "holdfast.toml")
    options = _options(home, own=(str(work / "data"), str(work / "holdfast.toml"), str(home / "data")))
    profile = Profiles(options).profile(work)
    assert profile.masked == (str(work / "data"), str(work / "holdfast.toml"))


def test_nothing_is_protected_in_a_folder_that_is_masked(home: Path, work: Path) -> None:
    """P13: a data directory in the workspace holds a copy of /etc, with files that act later."""
    _write(work, "data/etc/python3.11/sitecustomize.py", "Makefile")
    profile = Profiles(_options(home, own=(str(work / "data"),))).profile(work)
    assert profile.masked == (str(work / "data"),)
    assert profile.protected == (str(work / "Makefile"),)


def test_toolchains_of_the_home_folder_can_be_read_and_its_keys_cannot(home: Path, work: Path) -> None:
    _write(home, ".cargo/bin/cargo", ".cargo/credentials.toml", ".pyenv/shims/python", ".config/gh/hosts.yml")
    _write(home, ".npm/_cacache/x")
    profile = Profiles(_options(home)).profile(work)
    assert {*profile.read} == {str(home / ".cargo/bin"), str(home / ".pyenv")}
    assert profile.caches == ()
    assert Profiles(_options(home, caches=True)).profile(work).caches == (str(home / ".npm"),)


def test_a_folder_of_the_path_brings_its_prefix_but_never_the_home_folder(
    home: Path, work: Path, tmp_path: Path
) -> None:
    _write(tmp_path, "tools/bin/x", "tools/lib/y")
    _write(home, "bin/x")
    path = f"{tmp_path}/tools/bin:{home}/bin:{home}:/usr/bin:relative"
    profile = Profiles(_options(home, environment={"PATH": path})).profile(work)
    assert {*profile.read} == {str(tmp_path / "tools"), str(home / "bin")}
