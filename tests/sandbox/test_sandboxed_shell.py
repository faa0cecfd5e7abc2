"""The shell tool in the sandbox: what held for commands outside holds for those inside."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.interfaces.tool import ToolResult
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.git_identity import git_identity
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.self_test import Held
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.scope import KillPatience
from holdfast.tools.shell.tool import Shell, ShellKill, ShellWorld
from holdfast.values import Lift
from sandbox.stage import PATH, backend_named
from tools.calls import ENVIRONMENT, QUICK, Call, until

SERVER = (
    "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); bind(S, pack_sockaddr_in(7007, INADDR_ANY)); "
    'listen(S, 5); open(F, ">", "up"); while (accept(C, S)) { print C "hello\\n"; close C }\''
)
CALL_IT = "cat < /dev/tcp/127.0.0.1/7007"


@pytest.fixture(params=["bubblewrap", "landlock"], scope="module")
def confiner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Confiner:
    """Confines by one backend, whose self-test is another test's business."""
    folder = tmp_path_factory.mktemp("confiner")
    name = str(request.param)
    backend = backend_named(name, folder / "sandbox", uid=os.getuid(), git_config=_identity(folder))
    options = SandboxOptions(home=folder / "home", environment={"PATH": PATH})
    return Confiner(Sandbox(backend, Held()), Profiles(options))


def _identity(folder: Path) -> str:
    (folder / ".gitconfig").write_text('[user]\n\tname = Ann "A" O\'Neill\n\temail = ann@example.com\n')
    return git_identity({"PATH": PATH, "HOME": str(folder)})


@pytest.fixture
async def background(tmp_path: Path) -> AsyncIterator[Background]:
    background = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    yield background
    for session_id in ("session-1", "session-2"):
        for job in background.jobs(session_id):
            await background.kill(job)
    await background.close()


@pytest.fixture
def call(tmp_path: Path) -> Call:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Call(workspace=tmp_path / "work")


async def _run(
    confiner: Confiner,
    jobs: Background,
    call: Call,
    command: str,
    *,
    patience: KillPatience = QUICK,
    **more: object,
) -> ToolResult:
    shell = Shell(
        ShellWorld(environment=ENVIRONMENT, background=jobs, kill_patience=patience, confiner=confiner)
    )
    args = {"command": command, **more}
    call.confinement = await asyncio.to_thread(shell.confinement, args, workspace=call.workspace, lift=Lift())
    assert call.confinement is not None
    return await shell.run(args, call)


TIDY = KillPatience(term_s=1.0, kill_s=30.0)  # time to clean up, on a busy machine too
# It prints after the shell's child has become `sleep`, which is what the result names.
SLEEPS = 'sleep 1000 >/dev/null 2>&1 & until grep -qz "^sleep$" /proc/$!/cmdline; do :; done; echo done'


async def test_a_command_ends_as_it_would_outside(
    confiner: Confiner, background: Background, call: Call
) -> None:
    """P4: the sandbox changes nothing about how an end is told."""
    await asyncio.to_thread((call.workspace / "sub").mkdir)
    assert (await _run(confiner, background, call, "pwd", directory="sub")).text.endswith("/work/sub")
    assert (await _run(confiner, background, call, "exit 3")).text == "(no output)\n[exit code 3]"
    assert "[signal SIGSEGV]" in (await _run(confiner, background, call, "kill -SEGV $$")).text
    left = await _run(confiner, background, call, SLEEPS)
    assert left.text.startswith("done\n[left behind by the command, and ended: sleep")
    assert ("background" in left.text, "set background" in left.advice) == (False, True)
    assert await call.left() == []


async def test_a_command_has_time_to_clean_up_and_nothing_of_it_is_left(
    confiner: Confiner, background: Background, call: Call
) -> None:
    """P5: TERM reaches the command itself, and KILL the rest."""
    deaf = "(setsid bash -c 'trap \"\" TERM; while :; do sleep 1000; done' &)"
    tidy = 'trap "echo cleaned > cleaned; exit 0" TERM; touch begun; while :; do sleep 0.05; done'
    running = asyncio.create_task(_run(confiner, background, call, f"{deaf}; {tidy}", patience=TIDY))
    await until((call.workspace / "begun").exists)
    running.cancel()
    await asyncio.wait([running])
    assert await asyncio.to_thread((call.workspace / "cleaned").read_text) == "cleaned\n"
    assert await call.left() == []


async def test_a_cancelled_command_leaves_nothing(
    confiner: Confiner, background: Background, call: Call
) -> None:
    """P5: neither a daemon nor one without an environment."""
    command = "(env -i setsid sleep 1000 &); (setsid sleep 1000 &); touch begun; sleep 1000"
    running = asyncio.create_task(_run(confiner, background, call, command))
    await until((call.workspace / "begun").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await call.left() == []


async def test_a_commit_is_by_the_user_and_a_repository_can_say_otherwise(
    confiner: Confiner, background: Background, call: Call
) -> None:
    script = "git init -q . 2>/dev/null && git commit -q --allow-empty -m x && git log --format='%an <%ae>'"
    assert (await _run(confiner, background, call, script)).text == "Ann A O'Neill <ann@example.com>"
    other = "git -c user.name=Bob commit -q --allow-empty -m y && git log -1 --format=%an"
    assert (await _run(confiner, background, call, other)).text == "Bob"


async def test_a_background_process_is_adopted_by_the_next_server_and_ended(
    confiner: Confiner, background: Background, call: Call, tmp_path: Path
) -> None:
    """P6: in a namespace of its own it is found and ended like any other."""
    command = "(env -i setsid sleep 1000 &); touch begun; sleep 1000"
    started = await _run(confiner, background, call, command, background=True)
    assert started.ending == "detached"
    await until((call.workspace / "begun").exists)
    await background.close()
    later = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    (job,) = await later.adopt()
    assert job.running
    ended = await ShellKill(later).run({"job_id": job.state.job_id}, call)
    assert ended.ok
    assert await call.left() == []
    await later.close()


async def test_a_command_reaches_the_ports_of_its_sessions_background_processes_and_of_no_others(
    confiner: Confiner, background: Background, call: Call
) -> None:
    """P10: without namespaces there is no network at all, and so no port either."""
    if confiner.sandbox.backend == "landlock":
        assert "Permission denied" in (await _run(confiner, background, call, CALL_IT)).text
        return
    started = await _run(confiner, background, call, SERVER, background=True)
    assert started.ending == "detached"
    await until((call.workspace / "up").exists)
    reached = await _run(confiner, background, call, f"{CALL_IT}; ls /proc/self/fd | wc -l")
    assert reached.text == "hello\n4"
    other = Call(workspace=call.workspace, session_id="session-2")
    assert "Connection refused" in (await _run(confiner, background, other, CALL_IT)).text
