"""What the sandbox costs per command: `true` in bash alone, and in bash with each backend.

python bench/sandbox.py [ROUNDS]. The ways are taken in turn, so that a busy machine slows all of them; what
counts is the fastest of each, which a busy machine changes least. "bwrap itself" is bubblewrap with the same
namespaces and one mount: what it costs beyond that is Holdfast's doing. On a busy machine, run it with
`chrt -f 10`. It fails if a backend costs more than COST_MS_MAX on top of bash alone, or if a profile of a
workspace with FILES files takes longer than PROFILE_MS_MAX the second time.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.sandbox.bubblewrap import open_bubblewrap
from holdfast.sandbox.landlock import open_landlock
from holdfast.sandbox.launch import Backend, Launch
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.self_test import self_test

COST_MS_MAX = 8.0
PROFILE_MS_MAX = 30.0
ROUNDS = 100
FILES, FILES_PER_FOLDER = 20_000, 20
COMMAND = ("/bin/bash", "-c", "true")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def ran(profiles: Profiles, workspace: Path, backend: Backend | None) -> None:
    """Run the command once, from its profile to its end."""
    with ExitStack() as stack:
        launch = Launch(argv=COMMAND, environment=ENVIRONMENT)
        if backend is not None:
            profile = profiles.profile(workspace)
            launch = stack.enter_context(
                backend.launch(profile, COMMAND, ENVIRONMENT, lifetime="with_server")
            )
        process = launch.start(
            lambda: subprocess.Popen(
                launch.argv,
                cwd=launch.cwd or workspace,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )
        )
    if process.wait() != 0:
        sys.exit(f"the command failed: {launch.argv[:1]}")


def ran_bare() -> None:
    """Run the command once in what bubblewrap makes by itself."""
    words = ("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--")
    subprocess.run(("bwrap", *words, *COMMAND), env=ENVIRONMENT, stdin=subprocess.DEVNULL, check=True)


def took_ms(work: Callable[[], object]) -> float:
    """How long it takes once."""
    began_s = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began_s)


def filled(folder: Path) -> Path:
    """A workspace with many files, some of which are masked or protected."""
    for number in range(FILES // FILES_PER_FOLDER):
        place = folder / f"{number % 10}" / f"{number}"
        place.mkdir(parents=True)
        for name in range(FILES_PER_FOLDER):
            (place / f"{name}.txt").touch()
        os.utime(place, (1, 1))
    for name in (".env", "AGENTS.md", "Makefile"):
        (folder / name).write_text("x")
    return folder


def costs(rounds: int, folder: Path) -> dict[str, float]:
    """What the fastest run of each way takes, in milliseconds."""
    workspace = folder / "work"
    workspace.mkdir()
    (workspace / ".env").write_text("x")
    ways: Mapping[str, Backend | None] = {
        "bash alone": None,
        "landlock": open_landlock(folder / "landlock"),
        "bubblewrap": open_bubblewrap(folder / "bubblewrap", search=ENVIRONMENT["PATH"]),
    }
    options = SandboxOptions(home=Path.home(), environment=ENVIRONMENT)
    profiles = Profiles(options)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, backend in ways.items():
            if name == "bash alone" or backend is not None:
                run = took_ms(lambda backend=backend: ran(profiles, workspace, backend))
                found.setdefault(name, []).append(run)
        if ways["bubblewrap"] is not None:
            found.setdefault("bwrap itself", []).append(took_ms(ran_bare))
    for name, backend in ways.items():
        if backend is not None:
            print(
                f"{'self-test of ' + name:<28} {took_ms(lambda one=backend: self_test(one, folder)):8.1f} ms"
            )
    return {name: min(each) for name, each in found.items()}


def main() -> int:
    """Print the costs; 1 if one is too high."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    too_slow = False
    with TemporaryDirectory() as made:
        folder = Path(made)
        fastest = costs(rounds, folder)
        alone = fastest["bash alone"]
        for name, took in fastest.items():
            print(f"{name:<28} {took:8.1f} ms   +{took - alone:.1f}")
            too_slow |= took - alone > COST_MS_MAX
        large = filled(folder / "large")
        profiles = Profiles(SandboxOptions(home=Path.home(), environment=ENVIRONMENT))
        first = took_ms(lambda: profiles.profile(large))
        again = min(took_ms(lambda: profiles.profile(large)) for _ in range(5))
        print(f"{f'profile of {FILES:,} files':<28} {first:8.1f} ms   again {again:.1f}")
        too_slow |= again > PROFILE_MS_MAX
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main())
