"""A workspace with secrets around it and in it, and a shell whose commands run in a real sandbox."""

import asyncio
import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.agent.policy import ConfiguredJudge
from holdfast.interfaces.tool import ToolResult
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.lifts import Containment
from holdfast.policy.verdicts import Verdict
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.network_proxy import Resolve
from holdfast.sandbox.profile import NetworkAccess
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.sandbox.sandbox import Sandbox, open_sandbox
from holdfast.sandbox.summary import is_held
from holdfast.sandbox.workspace_scan import WorkspaceScan
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.tool import Shell, ShellWorld
from holdfast.values import ApprovalMode
from tools.calls import ENVIRONMENT, QUICK, Call

SECRET = "the-secret-itself"  # noqa: S105 - of these tests
HAS_BUBBLEWRAP = shutil.which("bwrap") is not None


@dataclass(frozen=True, slots=True)
class ConfinedWorld:
    """The shell and what it must not reach: files outside, the home folder, a port of this machine."""

    folder: Path
    workspace: Path
    shell: Shell
    confiner: Confiner
    protected: ProtectedPaths
    background: Background
    port: int

    def containment(self, workspace: Path) -> Containment:
        """What the sandbox holds here, as a server asks it."""
        profile = self.confiner.profiles.profile(workspace)
        return Containment(held=self.confiner.sandbox.contains(profile), network=profile.network)

    def judge(self, *rules: ApprovalRule, mode: ApprovalMode = "workspace") -> ConfiguredJudge:
        """The policy of a server whose commands run in this sandbox."""
        return ConfiguredJudge(
            mode=mode,
            rules=rules,
            home=self.folder / "home",
            secret_finder=lambda: SecretFiles(ENVIRONMENT),
            containment=self.containment,
        )

    def verdict(
        self, command: str, *rules: ApprovalRule, mode: ApprovalMode = "workspace", **more: object
    ) -> Verdict:
        """The verdict on a command, which blocks."""
        action = self.shell.action({"command": command, **more}, workspace=self.workspace)
        return self.judge(*rules, mode=mode).verdict(action, (), workspace=self.workspace)

    async def run(self, command: str, **more: object) -> ToolResult:
        """Run a command as the agent does, with what its action says is lifted."""
        args = {"command": command, **more}

        def prepared() -> Call:
            action = self.shell.action(args, workspace=self.workspace)
            confinement = self.shell.confinement(args, workspace=self.workspace, lift=action.lift)
            return Call(workspace=self.workspace, judged_paths=action.paths, confinement=confinement)

        return await self.shell.run(args, await asyncio.to_thread(prepared))


@asynccontextmanager
async def confined_world(
    folder: Path,
    *,
    network: NetworkAccess = "off",
    hosts: tuple[str, ...] = (),
    resolve: Resolve | None = None,
    build: Callable[[Path], object] = lambda _: None,
) -> AsyncGenerator[ConfinedWorld]:
    """Open such a world; `build` makes the workspace."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        confiner, protected = await asyncio.to_thread(_confined, folder, network, hosts, build)
        background = Background(folder / "data" / "background", now_ms=lambda: 1, kill_patience=QUICK)
        world = ShellWorld(
            environment={**ENVIRONMENT, "HOME": str(folder / "home")},
            background=background,
            kill_patience=QUICK,
            confiner=confiner,
            protected=protected,
            resolve=resolve,
        )
        workspace = folder / "work"
        port = listener.getsockname()[1]
        try:
            yield ConfinedWorld(folder, workspace, Shell(world), confiner, protected, background, port)
        finally:
            await background.close()
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return
        raise AssertionError("something connected to a port of this machine")


@cache
def one_sandbox() -> Sandbox:
    """One for all tests: opening it attacks it, which takes a while."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-sandbox-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sandbox = open_sandbox("require", folder, search=os.defpath)
    assert is_held(sandbox)
    return sandbox


def _confined(
    folder: Path, network: NetworkAccess, hosts: tuple[str, ...], build: Callable[[Path], object]
) -> tuple[Confiner, ProtectedPaths]:
    for name in (
        "home/.ssh/id_ed25519",
        "home/.bashrc",
        "outside/file",
        "work/.env",
        "work/settings/prod.env",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"x = {SECRET}\n")
    build(folder / "work")
    sandbox = one_sandbox()
    options = SandboxOptions(
        home=folder / "home",
        environment=ENVIRONMENT,
        network=network,
        hosts=hosts,
        own=(str(folder / "data"),),
    )
    protected = ProtectedPaths(Quarantine(folder / "data" / "quarantine"))
    # Such a small workspace is always looked through, however long the machine stands still.
    return Confiner(sandbox, Profiles(options, scan=WorkspaceScan(scan_s=60))), protected
