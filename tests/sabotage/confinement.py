"""Wrong sandboxes: ones that fall back to running open, mask or watch nothing, or serve before they hold."""

import asyncio
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

from msgspec.structs import asdict, replace
from typing_extensions import override

from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.index import RunQuery
from holdfast.policy.approvals import Policy, judge
from holdfast.policy.host_rules import HostRules, host_rules
from holdfast.policy.lifts import Containment
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.public_addresses import IPAddress
from holdfast.policy.verdicts import Allow, Verdict
from holdfast.racing import race
from holdfast.sandbox.bubblewrap import open_bubblewrap
from holdfast.sandbox.confinement import Confinement
from holdfast.sandbox.launch import BackendName, Launch, Lifetime, StartReport
from holdfast.sandbox.network_proxy import NetworkProxy
from holdfast.sandbox.profile import Profile, ServerAccess
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.protected_paths import PathWatch, ProtectedPaths, WatchReport
from holdfast.sandbox.quarantine import NotInQuarantine, Quarantine, QuarantinedFile
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.server_profiles import ServerProfiles
from holdfast.server.options import ServerOptions
from holdfast.tools.shell.marker import foreground
from holdfast.tools.shell.output import Capture
from holdfast.tools.shell.process import Command, run_command, started
from holdfast.values import Action
from sabotage import Sabotage
from sandbox.proxy_world import Names, connect, opened, said, upstream
from server.toolbox import OpenedLater
from serving import Setting, served, target_of
from stores import MemoryStore

ENVIRONMENT = {"PATH": os.defpath}


@dataclass(frozen=True)
class Broken:
    """A backend that can't confine anything."""

    name: BackendName = "bubblewrap"

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        raise OSError(f"no namespace for {profile.cwd} {argv} {environment} {lifetime}")
        yield


class FallsBackToOpen(Sandbox, frozen=True):
    """Starts a command as it is if it can't be confined."""

    @override
    @contextmanager
    def launch(
        self,
        profile: Profile,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        lifetime: Lifetime = "with_server",
    ) -> Generator[Launch]:
        try:
            with super().launch(profile, argv, environment, lifetime=lifetime) as launch:
                yield launch
        except OSError:
            yield Launch(argv=argv, environment=environment)


async def _ran(confinement: Confinement, script: str) -> str:
    """The output of a command in this sandbox."""
    capture = Capture()
    command = Command(
        argv=("/bin/sh", "-c", script),
        cwd=confinement.profile.cwd,
        environment=ENVIRONMENT,
        confinement=confinement,
    )
    try:
        await run_command(command, capture, marker=foreground("run", "call"), patience_s=10)
        return (await asyncio.to_thread(capture.text))[0]
    finally:
        capture.close()


async def check_a_command_that_cannot_be_confined_does_not_run(kind: type[Sandbox]) -> None:
    """P13: never a fallback, whatever the reason."""
    with TemporaryDirectory() as name:
        profile = Profile(workspace=name, cwd=name, home="/nonexistent")
        await _ran(Confinement(kind(Broken()), profile), "echo x > ran")
        assert not await asyncio.to_thread((Path(name) / "ran").exists)


def _trusts_the_workspace(action: Action, policy: Policy) -> Verdict:
    """Takes a sandbox that doesn't hold for one that is turned off."""
    return judge(action, replace(policy, containment=None))


async def check_a_sandbox_that_does_not_hold_makes_nothing_run_unasked(
    decide: Callable[[Action, Policy], Verdict],
) -> None:
    """P13: without a sandbox that holds, workspace asks."""
    facts = PathFacts("/home/u/work", "/home/u", (), normpath)
    action = Action(tool="shell", summary="", argv=("bash", "-c", "make"), paths=("/home/u/work",))
    policy = Policy(facts, "workspace", containment=Containment(held=False))
    assert not isinstance(decide(action, policy), Allow)


def _edits_every_file(action: Action, policy: Policy) -> Verdict:
    """Takes `edits` for a mode in which no file in the workspace needs a person."""
    found = judge(action, policy)
    return Allow("An edit.") if policy.mode == "edits" and action.tool == "edit_file" else found


async def check_edits_asks_about_files_that_act_later_and_those_without_undo(
    decide: Callable[[Action, Policy], Verdict],
) -> None:
    """P13: file tools aren't sandboxed, so protected files, secrets and files without undo need a person."""
    facts = PathFacts("/home/u/work", "/home/u", (), normpath)
    policy = Policy(facts, "edits", undoable=lambda path: not path.endswith(".o"))
    for name in (".github/workflows/ci.yml", ".env", "AGENTS.md", "a.o", "../elsewhere"):
        action = Action(tool="edit_file", summary="", paths=(f"/home/u/work/{name}",))
        assert not isinstance(decide(action, policy), Allow), name


class MasksNothing(Profiles):
    """Forgets the secret files of a workspace."""

    @override
    def profile(self, *args: object, **more: object) -> Profile:
        return replace(super().profile(*args, **more), masked=())  # pyright: ignore[reportArgumentType]


async def check_a_secret_file_is_masked(kind: type[Profiles]) -> None:
    """P13: a confined command can't read what is secret, also where it may write."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        workspace = folder / "work"
        await asyncio.to_thread(workspace.mkdir)
        await asyncio.to_thread((workspace / ".env").write_text, "KEY=secret")
        options = SandboxOptions(home=folder / "home", environment=ENVIRONMENT)
        profile = await asyncio.to_thread(lambda: kind(options).profile(workspace))
        if shutil.which("bwrap") is None:
            assert profile.masked == (str(workspace / ".env"),)
            return
        backend = await asyncio.to_thread(open_bubblewrap, folder / "sandbox", search=os.defpath)
        shown = await _ran(Confinement(Sandbox(backend), profile), "cat .env; echo done")
    assert "done" in shown
    assert "KEY=secret" not in shown


class _Unpinned(Profile, frozen=True):
    @property
    @override
    def pinned(self) -> tuple[str, ...]:
        return ()


class PinsNothing(Profiles):
    """Lets a command rename the folders of secret files."""

    @override
    def profile(self, *args: object, **more: object) -> Profile:
        made = super().profile(*args, **more)  # pyright: ignore[reportArgumentType]
        return _Unpinned(**asdict(made))


async def check_a_secret_is_masked_whatever_an_earlier_command_renamed(kind: type[Profiles]) -> None:
    """P13: a file that is secret by the name of its folder stays so, because the folder can't be renamed."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        secret = folder / "work" / ".docker" / "config.json"
        await asyncio.to_thread(lambda: secret.parent.mkdir(parents=True))
        await asyncio.to_thread(secret.write_text, "secret")
        options = SandboxOptions(home=folder / "home", environment=ENVIRONMENT)
        profiles = await asyncio.to_thread(kind, options)
        if shutil.which("bwrap") is None:
            profile = await asyncio.to_thread(profiles.profile, folder / "work")
            assert profile.pinned == (str(secret.parent),)
            return
        backend = await asyncio.to_thread(open_bubblewrap, folder / "sandbox", search=os.defpath)
        for script in ("mv .docker plain", "cat plain/config.json .docker/config.json"):
            profile = await asyncio.to_thread(profiles.profile, folder / "work")
            shown = await _ran(Confinement(Sandbox(backend), profile), script)
    assert "No such file" in shown
    assert "secret" not in shown


class LooksAway(ProtectedPaths):
    """Doesn't look again after a command."""

    @override
    def end(self, watch: PathWatch) -> WatchReport:
        return WatchReport()


async def check_a_hook_that_nobody_approved_is_gone_after_the_command(kind: type[ProtectedPaths]) -> None:
    """P13: what acts later can't be left behind, also where no file was before."""
    with TemporaryDirectory() as name:
        hooks = Path(name) / "work" / ".git" / "hooks"
        await asyncio.to_thread(lambda: hooks.mkdir(parents=True))
        protected = kind(Quarantine(Path(name) / "quarantine"))
        watch = await asyncio.to_thread(protected.begin, hooks.parent.parent)
        await asyncio.to_thread((hooks / "pre-commit").write_text, "evil")
        await asyncio.to_thread(protected.end, watch)
        assert not await asyncio.to_thread((hooks / "pre-commit").exists)


class TrustsWhatRuns(ProtectedPaths):
    """Doesn't look before a protected path is read, although a command runs."""

    @override
    def look(self, workspace: Path | str) -> bool:
        return True


async def check_a_look_is_skipped_only_where_nothing_ran(kind: type[ProtectedPaths]) -> None:
    """P13: what a running command planted isn't obeyed, and what a person wrote afterwards stays."""

    def tried(folder: Path) -> None:
        work, protected = folder / "work", kind(Quarantine(folder / "quarantine"))
        work.mkdir()
        guide = work / "AGENTS.md"
        watch = protected.begin(work)
        guide.write_text("a command's")
        assert protected.look(work)
        assert not guide.exists()
        protected.end(watch)
        guide.write_text("a person's")
        assert protected.look(work)
        assert guide.read_text() == "a person's"

    with TemporaryDirectory() as name:
        await asyncio.to_thread(tried, Path(name))


async def check_a_required_sandbox_admits_nothing_before_it_holds(options: ServerOptions) -> None:
    """P13: only the health is served meanwhile; everything else waits."""
    tools, store = OpenedLater(), MemoryStore()
    setting = Setting(opened=tools.opened, options=options, store=store)
    async with ChaosServer([Say("hello")]) as chaos, served(target_of(chaos), setting=setting) as server:
        await tools.waited_for.get()  # by what starts runs
        calls = [asyncio.create_task(server.call("GET", path)) for path in ("/v1/models", "/v1/runs")]
        calls.append(asyncio.create_task(server.call("POST", "/v1/runs", body={"input": "hi"})))
        for _ in calls:
            await race(asyncio.create_task(tools.waited_for.get()), watched=calls)
        assert not any(call.done() for call in calls)
        assert not await store.runs(RunQuery(limit=1))
        assert (await server.get("/health"))[0] == 200
        tools.open.set()
        assert [(await call).status for call in calls] == [200, 200, 202]
    await store.close()


class FollowsLinks(Quarantine, frozen=True):
    """Puts a file back wherever its path leads now."""

    @override
    def restore(self, file_id: str) -> QuarantinedFile:
        (file,) = self.files()
        shutil.move(file.kept, file.path)
        return file


async def check_nothing_goes_back_from_quarantine_through_a_link(kind: type[Quarantine]) -> None:
    """P13: a folder that was swapped for a link to the home folder leads nowhere."""

    def tried(folder: Path) -> bool:
        work, home, quarantine = folder / "work", folder / "home", kind(folder / "quarantine")
        work.mkdir()
        home.mkdir()
        protected = ProtectedPaths(quarantine)
        watch = protected.begin(work)
        (work / ".bashrc").write_text("evil")
        protected.end(watch)
        work.rmdir()
        work.symlink_to(home)
        with suppress(NotInQuarantine):
            quarantine.restore(quarantine.files()[0].id)
        return (home / ".bashrc").exists()

    with TemporaryDirectory() as name:
        assert not await asyncio.to_thread(tried, Path(name))


class TrustsNames(HostRules, frozen=True):
    """Takes a name that is listed for an address that may be reached."""

    @override
    def may_reach(self, address: IPAddress, port: int) -> bool:
        return True


async def check_a_listed_name_does_not_lead_to_this_machine(kind: type[HostRules]) -> None:
    """P13: the proxy connects to addresses that it checked."""
    async with upstream() as inner:
        rules = host_rules([f"pypi.example:{inner.port}"])
        proxy = NetworkProxy(kind(rules.names, rules.networks), resolve=Names())
        async with opened(proxy) as port:
            await said(port, connect(f"pypi.example:{inner.port}") + b"hello")
    assert not inner.heard


class ShowsSecrets(ServerProfiles):
    """Gives an MCP server the whole home folder."""

    @override
    def profile(self, *args: object, **more: object) -> Profile | None:
        made = super().profile(*args, **more)  # pyright: ignore[reportArgumentType]
        return made and replace(made, masked=(), read=(made.home,))


async def check_a_servers_home_folder_has_no_secrets(kind: type[ServerProfiles]) -> None:
    """P13: an MCP server reads the home folder, and none of its secrets."""
    with TemporaryDirectory() as name:
        home = Path(name) / "home"
        for each in (".ssh/key", "work/.env", "work/plain"):
            place = home / each
            await asyncio.to_thread(os.makedirs, place.parent, exist_ok=True)
            await asyncio.to_thread(place.write_text, f"of {each}\n")
        profile = await asyncio.to_thread(
            lambda: kind(home, Path(name) / "kept").profile("x", ("cat",), {}, cwd="/", access=ServerAccess())
        )
        assert profile is not None
        if shutil.which("bwrap") is None:
            assert str(home / "work" / ".env") in profile.masked
            return
        backend = await asyncio.to_thread(open_bubblewrap, Path(name) / "sandbox", search=os.defpath)
        command = f"cd {home}; cat work/plain .ssh/key work/.env"
        shown = await _ran(Confinement(Sandbox(backend), profile), command)
    assert "of work/plain" in shown
    assert "of .ssh/key" not in shown
    assert "of work/.env" not in shown


class SeesNoFailure(StartReport):
    """Takes a sandbox that failed for a command that failed."""

    @override
    def is_failure(self) -> bool:
        return False


async def check_a_sandbox_that_failed_is_told_apart_from_a_command_that_failed(
    kind: type[StartReport],
) -> None:
    """P4, P13: whether the command ran at all is known."""
    if shutil.which("bwrap") is None:
        assert kind is StartReport
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        backend = await asyncio.to_thread(open_bubblewrap, folder / "sandbox", search=os.defpath)
        fits = Profile(workspace=name, cwd=name, home="/nonexistent")
        for profile, failed in ((fits, False), (replace(fits, cwd=f"{name}/gone"), True)):
            confinement = Confinement(Sandbox(backend), profile)
            command = Command(
                argv=("/bin/sh", "-c", "exit 1"), cwd=name, environment=ENVIRONMENT, confinement=confinement
            )

            def found(command: Command = command) -> tuple[int, bool]:
                with kind() as report:
                    process = started(command, stdout=DEVNULL, report=report)
                    return process.wait(), report.is_failure()

            assert await asyncio.to_thread(found) == (1, failed)


SABOTAGES = (
    Sabotage("P13", check_a_servers_home_folder_has_no_secrets, ServerProfiles, ShowsSecrets),
    Sabotage(
        "P13",
        check_a_sandbox_that_failed_is_told_apart_from_a_command_that_failed,
        StartReport,
        SeesNoFailure,
    ),
    Sabotage("P13", check_a_command_that_cannot_be_confined_does_not_run, Sandbox, FallsBackToOpen),
    Sabotage(
        "P13", check_a_sandbox_that_does_not_hold_makes_nothing_run_unasked, judge, _trusts_the_workspace
    ),
    Sabotage(
        "P13",
        check_edits_asks_about_files_that_act_later_and_those_without_undo,
        judge,
        _edits_every_file,
    ),
    Sabotage("P13", check_a_secret_file_is_masked, Profiles, MasksNothing),
    Sabotage("P13", check_a_secret_is_masked_whatever_an_earlier_command_renamed, Profiles, PinsNothing),
    Sabotage("P13", check_a_hook_that_nobody_approved_is_gone_after_the_command, ProtectedPaths, LooksAway),
    Sabotage("P13", check_a_look_is_skipped_only_where_nothing_ran, ProtectedPaths, TrustsWhatRuns),
    Sabotage(
        "P13",
        check_a_required_sandbox_admits_nothing_before_it_holds,
        ServerOptions(requires_sandbox=True),
        ServerOptions(),
    ),
    Sabotage("P13", check_nothing_goes_back_from_quarantine_through_a_link, Quarantine, FollowsLinks),
    Sabotage("P13", check_a_listed_name_does_not_lead_to_this_machine, HostRules, TrustsNames),
)
