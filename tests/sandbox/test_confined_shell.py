"""Commands in the sandbox, judged and run as by a server: what gets out, what comes back, what is told."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict
from holdfast.sandbox.profile import MOUNTS_MAX
from holdfast.values import ApprovalMode, Lift
from policy.approval_world import CORPUS, TOO_MILD, WORKSPACE, shapes
from policy.hostile_repositories import HOSTILE, Ground, ground
from sandbox.confined_world import HAS_BUBBLEWRAP, SECRET, ConfinedWorld, confined_world
from sandbox.proxy_world import Names, upstream
from tools.calls import until

pytestmark = [pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="bubblewrap is not installed"), pytest.mark.long]

MODES: tuple[ApprovalMode, ...] = ("ask", "unattended", "workspace")
AT_ONCE = 4
WAITS = ("vi", "watch", "while", "tail -f", "npm", "pip list", "sleep")  # each for its own reason
RUN_MIN = 60


def _project(root: Path) -> None:
    for name in ("src/a.py", "README.md", "a.txt", "x.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("plain\n")


def _is_allowed(world: ConfinedWorld, text: str, *rules: ApprovalRule) -> bool:
    return any(isinstance(world.verdict(text, *rules, mode=mode), Allow) for mode in MODES)


async def _run_what_is_allowed(world: ConfinedWorld, command: str, *rules: ApprovalRule) -> str | None:
    """The output of a command that some mode lets run unasked; None if each asks."""
    text = command.replace(WORKSPACE, str(world.workspace))
    if await asyncio.to_thread(_is_allowed, world, text, *rules):
        return (await world.run(text, time_limit_s=2)).text
    return None


async def test_more_secrets_than_can_be_masked_need_a_person(tmp_path: Path) -> None:
    """P13: the real secret is the deepest, so it's the one that no mask would be left for."""

    def build(root: Path) -> None:
        for number in range(MOUNTS_MAX):
            (root / f"{number}").mkdir()
            (root / f"{number}" / ".env").write_text("x")

    async with confined_world(tmp_path, build=build) as world:
        rule = ApprovalRule("allow", "shell")

        def verdicts() -> list[Verdict]:
            return [world.verdict("python3 x.py", rule, mode=mode) for mode in MODES]

        for mode, verdict in zip(MODES, await asyncio.to_thread(verdicts), strict=True):
            assert isinstance(verdict, Deny if mode == "unattended" else NeedsApproval), mode
            assert any(text.startswith("2 secret files") for text in verdict.findings)


async def test_no_command_that_runs_unasked_reads_a_secret_or_gets_out(tmp_path: Path) -> None:
    """P13: of all the commands that were once judged too mildly, in every mode."""
    ran = 0
    async with confined_world(tmp_path, build=_project) as world:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(command: str, *rules: ApprovalRule) -> None:
            nonlocal ran
            async with gate:
                output = await _run_what_is_allowed(world, command, *rules)
            if output is not None:
                ran += 1
                assert SECRET not in output, command

        wanted = [
            one(command, *shape.rules)
            for shape in (*shapes(TOO_MILD), *shapes(CORPUS)[::2])
            for command in shape.commands[:1]
            if command.strip() and not command.startswith(WAITS)
        ]
        await asyncio.gather(*wanted)
    assert ran >= RUN_MIN
    await asyncio.to_thread(_insist_that_nothing_changed_outside, tmp_path)


def _insist_that_nothing_changed_outside(folder: Path) -> None:
    for name in ("home/.ssh/id_ed25519", "home/.bashrc", "outside/file"):
        assert (folder / name).read_text() == f"x = {SECRET}\n"
    assert {path.name for path in folder.iterdir()} <= {"data", "home", "outside", "work"}
    assert sorted(path.name for path in (folder / "home").iterdir()) == [".bashrc", ".ssh"]


@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: build.__name__)
async def test_git_in_a_hostile_repository_runs_nothing_that_gets_out(
    build: Callable[[Ground], None], tmp_path: Path
) -> None:
    """P13: whatever such a repository has git run, it runs in the sandbox."""
    made = await asyncio.to_thread(ground, tmp_path)
    await asyncio.to_thread(build, made)
    async with confined_world(tmp_path) as world:
        assert isinstance(await asyncio.to_thread(world.verdict, "git status"), Allow)
        await world.run(
            "git status; git diff; git log -p; git show; git add a.txt; git commit -qm x; git fsck"
        )
    assert not made.mark.exists()


async def test_what_is_lifted_is_named_asked_about_and_nothing_more(tmp_path: Path) -> None:
    """P8, P13."""
    async with upstream() as far:
        hosts, reach = (f"pypi.example:{far.port}", "127.0.0.1"), f"http://pypi.example:{far.port}/x"
        async with confined_world(tmp_path, resolve=Names()) as world:
            curl = f"curl -sS -m 10 {reach}; curl -sSf -m 10 http://evil.example/"
            action = await asyncio.to_thread(
                lambda: world.shell.action(
                    {"command": curl, "needs": {"network": [*hosts], "reason": "to install"}},
                    workspace=world.workspace,
                )
            )
            assert action.lift == Lift(hosts=tuple(sorted(hosts)))
            assert (action.summary, action.reason) == (curl, "to install")
            asked = await asyncio.to_thread(lambda: world.verdict(curl, needs={"network": [*hosts]}))
            assert isinstance(asked, NeedsApproval)
            without = await world.run(curl)
            lifted = await world.run(curl, needs={"network": [*hosts]})
            outside = await world.run(
                f"cat {world.folder}/outside/file; cat .env", needs={"read": ["../outside", ".env"]}
            )
    assert "echoed" not in without.text
    assert "`needs`" in without.advice  # how to ask for it
    assert "echoed:GET /x" in lifted.text
    assert "[blocked by the sandbox: host evil.example]" in lifted.text
    assert outside.text.count(SECRET) == 2


async def test_an_unapproved_change_to_a_protected_path_goes_to_quarantine_and_is_told(
    tmp_path: Path,
) -> None:
    """P13: a path that is not there yet, git's folder renamed, and a background process."""
    async with confined_world(tmp_path, build=ground_in) as world:
        hook = world.workspace / ".git" / "hooks" / "pre-commit"
        written = await world.run("echo evil > .git/hooks/pre-commit; echo evil > AGENTS.md")
        assert "The command created AGENTS.md" in written.text
        assert 'needs {"write": ["AGENTS.md"]}' in written.advice
        renamed = await world.run("mv .git old && git init -q . && echo evil > .git/hooks/pre-commit")
        assert "cannot move '.git'" in renamed.text
        approved = await world.run("echo fine > .git/hooks/pre-commit", needs={"write": [".git/hooks"]})
        assert approved.ok, approved.text
        assert await asyncio.to_thread(hook.read_text) == "fine\n"
        guide = await world.run("echo fine > CLAUDE.md", needs={"write": ["CLAUDE.md"]})
        assert guide.ok, guide.text
        assert "moved" not in guide.text
        new = await world.run("echo x > .git/hooks/post-commit", needs={"write": [".git/hooks/post-commit"]})
        assert new.ok, new.text
        started = await world.run("mkdir .claude && echo evil > .claude/x; exec sleep 60", background=True)
        [job] = world.background.jobs("session-1")
        assert started.ending == "detached"
        await until((world.workspace / ".claude" / "x").exists)
        await asyncio.to_thread(world.protected.look, world.workspace)
        assert not (world.workspace / ".claude").exists()
        await world.background.kill(job)
        await until(lambda: job.sentences)
        assert "created .claude" in job.sentences[0]
    assert not (tmp_path / "work" / "AGENTS.md").exists()


_SWAPS = """
my $name = "sub"; my $count = 0;
while (1) {
    my $other = "sub" . (++$count % 7);
    if (rename $name, $other) { $name = $other }
    symlink "$ENV{OUTSIDE}", "guide" if rename "guide", "aside";
    unlink "guide"; rename "aside", "guide";
    select undef, undef, undef, 0.002;
}
"""


async def test_no_background_process_moves_a_secret_or_a_mount_out_of_the_next_commands_way(
    tmp_path: Path,
) -> None:
    """P13: secrets are found by name and masked by name, so their folders can't be renamed meanwhile."""

    def build(root: Path) -> None:
        (root / "sub" / "deep").mkdir(parents=True)
        (root / "sub" / "deep" / ".env").write_text(SECRET)
        (root / "swaps.pl").write_text(_SWAPS)
        (tmp_path / "outside" / ".claude").mkdir(parents=True)
        (tmp_path / "outside" / ".claude" / "notes").write_text(SECRET)

    async with confined_world(tmp_path, build=build) as world:
        command = f"mkdir -p guide/.claude; OUTSIDE={tmp_path / 'outside'} exec perl swaps.pl"
        await world.run(command, background=True)
        [job] = world.background.jobs("session-1")
        for _ in range(8):
            result = await world.run("cat sub*/deep/.env */.claude/notes")
            assert SECRET not in result.text
        assert job.running
        await world.background.kill(job)
        moved = await world.run("mv sub other; mv settings other; rm -r sub; ls -d sub settings")
    assert moved.text.count("cannot") == 3, moved.text
    assert [path.name for path in (tmp_path / "work").glob("sub*")] == ["sub"]


def ground_in(root: Path) -> None:
    Ground(root, root / "x", root / "y").make()


async def test_a_workspace_command_works_as_usual_inside(tmp_path: Path) -> None:
    async with confined_world(tmp_path, build=ground_in) as world:
        author = "-c user.name=a -c user.email=a@b"
        done = await world.run(
            f"echo x > new.txt && git add new.txt && git {author} commit -qm x && git log -1"
        )
        assert done.ok, done.text
        assert done.advice == ""
        assert (await world.run("exit 3")).text.endswith("[exit code 3]")
