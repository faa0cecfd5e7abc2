"""The context of one confined command: its network proxy, and the check of protected paths."""

import asyncio

from msgspec.structs import replace

from holdfast.policy.host_rules import HostRules, host_rules
from holdfast.sandbox.network_proxy import PROXY_VARIABLES, NetworkProxy, Resolve
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.protected_paths import PathWatch, ProtectedPaths
from holdfast.sandbox.quarantine import readable
from holdfast.tools.offload import offload
from holdfast.tools.shell.needs import ITEMS_MAX, how_to_ask
from holdfast.tools.shell.process import Command

MORE_CHANGES = "[It changed {count} more such paths without approval. They're in quarantine too.]"
UNCHECKED = (
    "[Holdfast couldn't check every folder for files that other programs later run or load: there are too "
    "many folders, or a change couldn't be undone. Until it can, every command here needs approval.]"
)


class ConfinedRun:
    """Opened before a command starts, and closed after its last process has ended.

    Without a sandbox it does nothing. `command` is what to start. Afterwards, `sentences` say what the
    sandbox kept it from, and `advice` tells the model how to request it. With `is_unchecked`, it may have
    changed protected paths without being seen, so it counts as failed.
    """

    def __init__(
        self,
        command: Command,
        *,
        protected: ProtectedPaths | None = None,
        resolve: Resolve | None = None,
        rules: HostRules | None = None,  # instead of the profile's hosts, if it has such a network
    ) -> None:
        self.command = command
        self.sentences: tuple[str, ...] = ()
        self.advice: tuple[str, ...] = ()
        self.is_unchecked = False
        self._protected = protected
        self._resolve = resolve
        self._rules = rules
        self._watch: PathWatch | None = None
        self._proxy: NetworkProxy | None = None

    async def open(self) -> None:
        """Look at the protected paths, and open the way to the listed hosts."""
        if self.command.confinement is None:
            return
        try:
            await self._opened(self.command.confinement.profile)
        except BaseException:
            await self.close()
            raise

    async def _opened(self, profile: Profile) -> None:
        if (protected := self._protected) is not None:
            self._watch = await offload(
                lambda: protected.begin(
                    profile.workspace, approved=profile.approved, read_only=profile.protected
                ),
                undo=lambda watch: _drop(protected, watch),
            )
        if profile.network == "hosts":
            proxy = NetworkProxy(self._rules or host_rules(profile.hosts), resolve=self._resolve)
            self._proxy = await proxy.__aenter__()
            self.command = replace(
                self.command,
                argv=await offload(lambda: proxy.argv_for(self.command.argv)),
                environment={**self.command.environment, **PROXY_VARIABLES},
                pass_fds=(*self.command.pass_fds, proxy.fd),
            )

    async def close(self) -> None:
        """Close the way out, look again, and note what to tell; a cancellation waits for it."""
        closing = asyncio.ensure_future(self._closed())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    async def _closed(self) -> None:
        told: list[str] = []
        advice: list[str] = []
        if self._proxy is not None:
            await self._proxy.__aexit__(None, None, None)
            if blocked := self._proxy.blocked:
                told.append(f"[blocked by the sandbox: {', '.join(f'host {host}' for host in blocked)}]")
                advice.append(how_to_ask({"network": [host for host in blocked if " " not in host]}))
            self._proxy = None
        if self._watch is not None and (protected := self._protected) is not None:
            watch, self._watch = self._watch, None
            report = await offload(lambda: protected.end(watch))
            told += [f"[{change.sentence()}]" for change in report.changes]
            if report.more:
                told.append(MORE_CHANGES.format(count=report.more))
            if not report.complete:
                told.append(UNCHECKED)
                self.is_unchecked = True
            if report.changes:
                paths = [readable(change.path) for change in report.changes[:ITEMS_MAX]]
                advice.append(how_to_ask({"write": paths}))
        self.sentences, self.advice = tuple(told), tuple(advice)


def _drop(protected: ProtectedPaths, watch: PathWatch) -> None:
    protected.end(watch)
