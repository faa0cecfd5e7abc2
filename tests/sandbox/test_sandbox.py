"""The sandbox of a server: which backend it takes, what it was shown to hold, and what it refuses."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.sandbox.bubblewrap import open_bubblewrap
from holdfast.sandbox.landlock import open_landlock
from holdfast.sandbox.launch import BackendName, Launch, Lifetime
from holdfast.sandbox.profile import MOUNTS_MAX, Profile
from holdfast.sandbox.sandbox import Sandbox, SandboxRefused, open_sandbox
from holdfast.sandbox.seccomp import seccomp_filter
from holdfast.sandbox.self_test import Held, SelfTestFailed, self_test
from sandbox.stage import PATH

ALL = Held(writes=True, permissions=True, home=True, masks=True, protected=True, processes=True, network=True)
PROFILE = Profile(workspace="/w", cwd="/w", home="/h")


class _Open:
    """A backend that confines nothing."""

    name: BackendName = "bubblewrap"

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        del profile, lifetime
        yield Launch(argv=argv, environment=environment)


class _Broken(_Open):
    """A backend in which no command runs."""

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        del profile, argv, lifetime
        yield Launch(argv=("/bin/sh", "-c", "echo no namespaces here; exit 1"), environment=environment)


def test_the_self_test_shows_that_bubblewrap_holds_everything(tmp_path: Path) -> None:
    opened = open_bubblewrap(tmp_path, search=PATH)
    assert opened is not None
    assert self_test(opened, tmp_path) == ALL
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("test-")] == []


def test_the_self_test_shows_that_landlock_cannot_mask_or_protect(tmp_path: Path) -> None:
    opened = open_landlock(tmp_path)
    assert opened is not None
    assert self_test(opened, tmp_path) == replace(ALL, permissions=False, masks=False, protected=False)


def test_the_self_test_finds_nothing_held_where_nothing_confines(tmp_path: Path) -> None:
    assert self_test(_Open(), tmp_path) == Held()


def test_a_backend_that_runs_nothing_fails_the_self_test_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(SelfTestFailed, match="no namespaces here"):
        self_test(_Broken(), tmp_path)


def test_bubblewrap_comes_first(tmp_path: Path) -> None:
    sandbox = open_sandbox("require", tmp_path, search=PATH)
    assert (sandbox.backend, sandbox.held, sandbox.why) == ("bubblewrap", ALL, "")


def test_off_is_no_sandbox_and_says_so(tmp_path: Path) -> None:
    sandbox = open_sandbox("off", tmp_path, search=PATH)
    assert (sandbox.backend, sandbox.held) == ("none", Held())
    assert "off" in sandbox.why
    assert not sandbox.contains(PROFILE)


def test_without_bubblewrap_landlock_is_used_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    sandbox = open_sandbox("auto", tmp_path, search="/nonexistent")
    assert sandbox.backend == "landlock"
    assert (
        sandbox.why == "bubblewrap is not installed. landlock doesn't enforce: permissions, masks, protected."
    )


def test_a_required_sandbox_that_does_not_hold_everything_refuses_to_start(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="bubblewrap is not installed"):
        open_sandbox("require", tmp_path, search="/nonexistent")


def test_where_its_files_cannot_be_written_there_is_no_sandbox_and_it_says_so(tmp_path: Path) -> None:
    """P9, P13: a server starts on a full disk; nothing counts as contained, and `require` refuses."""
    folder = tmp_path / "file"
    folder.touch()
    sandbox = open_sandbox("auto", folder, search=PATH)
    assert (sandbox.backend, sandbox.contains(PROFILE)) == ("none", False)
    assert sandbox.why.count("The sandbox's files can't be written") == 1
    with pytest.raises(SandboxRefused, match="can't be written"):
        open_sandbox("require", folder, search=PATH)


def test_where_namespaces_are_refused_landlock_is_used_and_the_reason_is_said(tmp_path: Path) -> None:
    sandbox = _without_namespaces(lambda: open_sandbox("auto", tmp_path, search=PATH))
    assert sandbox.backend == "landlock"
    assert sandbox.held == replace(ALL, permissions=False, masks=False, protected=False)
    assert sandbox.why.startswith("bubblewrap: bwrap: ")


def test_what_does_not_hold_must_not_be_needed_for_a_workspace_to_be_contained(tmp_path: Path) -> None:
    opened = open_landlock(tmp_path)
    sandbox = Sandbox(opened, replace(ALL, masks=False, protected=False))
    assert sandbox.contains(PROFILE)
    for profile in (
        replace(PROFILE, masked=("/w/.env",)),
        replace(PROFILE, protected=("/w/AGENTS.md",)),
        replace(PROFILE, network="hosts", hosts=("a.example",)),
        replace(PROFILE, known=False),
    ):
        assert not sandbox.contains(profile), profile
    assert not Sandbox(opened, replace(ALL, processes=False)).contains(PROFILE)
    assert not Sandbox(opened, replace(ALL, network=False)).contains(PROFILE)
    assert not Sandbox(opened, replace(ALL, permissions=False)).contains(PROFILE)  # as Landlock really is


def test_bubblewrap_contains_secrets_and_protected_files_but_not_what_it_could_not_search(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(open_bubblewrap(tmp_path, search=PATH), ALL)
    whole = replace(PROFILE, masked=("/w/.env",), protected=("/w/AGENTS.md",), network="hosts")
    assert sandbox.contains(whole)
    assert not sandbox.contains(replace(whole, known=False))
    many = tuple(f"/w/{number}/.env" for number in range(MOUNTS_MAX + 1))
    assert not sandbox.contains(replace(whole, masked=many))


def test_a_digest_is_the_same_for_the_same_profile_and_another_for_another() -> None:
    assert replace(PROFILE).digest == PROFILE.digest
    assert replace(PROFILE, network="on").digest != PROFILE.digest


def test_folders_between_a_writable_tree_and_a_mount_in_it_are_pinned() -> None:
    """P13: nothing that isn't writable becomes so, and an empty home folder stays empty."""
    for profile, pinned in (
        (replace(PROFILE, masked=("/w/a/b/.env", "/w/.env")), ("/w/a", "/w/a/b")),
        (replace(PROFILE, protected=("/w/.git/hooks",), write=("/w/out/x", "/v")), ("/w/.git", "/w/out")),
        (replace(PROFILE, read=("/w/ro",), protected=("/w/ro/x/AGENTS.md",)), ()),
        (replace(PROFILE, home="/v/h", write=("/v",), read=("/v/h/.pyenv",)), ()),
        (replace(PROFILE, workspace="/", masked=("/a/.env",)), ("/a",)),
    ):
        assert profile.pinned == pinned, profile


def test_a_filter_fits_into_the_kernel_on_each_machine() -> None:
    for machine in ("x86_64", "aarch64"):
        for sockets in ("all", "own", "pairs"):
            program = seccomp_filter(sockets, machine=machine)
            assert len(program) % 8 == 0, (machine, sockets)
            assert len(program) // 8 < 4096, (machine, sockets)


def _without_namespaces(call: Callable[[], Sandbox]) -> Sandbox:
    """Call it in a thread that may make no namespace, as in most containers."""
    done: list[Sandbox] = []
    program = seccomp_filter("own")

    def in_thread() -> None:
        class Loaded(ctypes.Structure):
            _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

        libc = ctypes.CDLL(None, use_errno=True)
        loaded = Loaded(len(program) // 8, program)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, ctypes.byref(loaded), 0, 0) == 0
        done.append(call())

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join(30)
    return done[0]


class _Lingering(_Open):
    """A backend whose command leaves a process with its output open, and doesn't end."""

    def __init__(self, pid_file: Path) -> None:
        self._pid_file = pid_file

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        del profile, argv, lifetime
        script = 'setsid /bin/sh -c "echo \\$\\$ > $0; exec sleep 60" & wait'
        yield Launch(argv=("/bin/bash", "-c", script, str(self._pid_file)), environment=environment)


def test_a_self_test_that_does_not_end_fails_in_time_whatever_holds_its_output(tmp_path: Path) -> None:
    """P3: a server starts even if the sandbox hangs."""
    pid_file = tmp_path / "pid"
    within_s = 0.5
    while not (pid_file.exists() and pid_file.read_text()):  # a busy machine needs longer to start it
        within_s *= 2
        with pytest.raises(SelfTestFailed, match="did not end within"):
            self_test(_Lingering(pid_file), tmp_path, within_s=within_s)
    pid = int(pid_file.read_text())
    state = Path(f"/proc/{pid}/stat").read_text().split()[2]
    os.kill(pid, signal.SIGKILL)
    assert state not in "ZX"  # nobody waited for it
