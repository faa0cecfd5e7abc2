"""Attach to the server that runs on the data directory, or be it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.cli.greeting import greet, said
from holdfast.cli.reads import Reads
from holdfast.cli.terminal.output import restore
from holdfast.client.address import Patience
from holdfast.client.errors import ClientError, Unreachable
from holdfast.config.configuration import BadConfiguration, Loaded
from holdfast.folds.phases import IllegalEvent
from holdfast.host.data_dir import Place, place_of
from holdfast.host.fast_imports import uncollected
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.client import Client

OK, FAILED, STOPPED = 0, 1, 130
LOOK_S = 10.0  # how long one who only reads waits for a server before reading without it

# What a server of our own does beside the work: go on with every run that has no ending; work on what the
# command asks for; nothing, so that what the command says is only written down.
WorkScope: TypeAlias = Literal["all", "asked", "nothing"]


@dataclass(frozen=True, slots=True)
class Attached:
    """A server to work with: in this process (`loaded` is its configuration) or in another one."""

    client: "Client"
    place: Place
    loaded: Loaded | None
    url: str

    @property
    def is_own(self) -> bool:
        """Whether it ends with this process."""
        return self.loaded is not None


TROUBLE = (BadConfiguration, JournalError, IllegalEvent, OSError, ClientError, KeyboardInterrupt)


def told(error: BaseException) -> int:
    """Say what went wrong in one line; the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return STOPPED
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has enough; the interpreter is not to try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    print(f"holdfast: {said(error)}", file=sys.stderr)
    return FAILED


Work: TypeAlias = Callable[[Attached], Awaitable[int]]


def with_server(
    flags: Mapping[str, object], work: Work, *, works: WorkScope = "asked", patience: Patience | None = None
) -> int:
    """Do the work with a server; the exit code. `works` says what a server of our own goes on with."""
    try:
        place = place_of(flags)
        with ExitStack() as stack:
            try:
                lock = stack.enter_context(DirectoryLock(place.data_dir))
            except DirectoryBusy:
                return asyncio.run(_attached(place, work, patience=patience or Patience()))
            return _owning(place, lock, work=work, works=works)
    except TROUBLE as error:
        return told(error)
    finally:
        restore()


async def _attached(place: Place, work: Work, *, patience: Patience) -> int:
    from holdfast.client.client import Client

    async with Client(where=place.where, patience=patience) as client:
        await greet(client, await _url(place), within_s=patience.call_s)
        return await work(Attached(client, place, None, (await place.where()).url))


async def _url(place: Place) -> str:
    """What to call the server; one that is just starting has no address yet."""
    found = await asyncio.to_thread(place.address)
    return found.url if found else f"the server of {place.data_dir}"


def reading(flags: Mapping[str, object], work: Callable[[Reads], Awaitable[int]]) -> int:
    """Do work that only reads: through the server that runs, else from the store, which nothing locks."""
    try:
        place = place_of(flags)
        return asyncio.run(_reading(place, work))
    except TROUBLE as error:
        return told(error)


async def _reading(place: Place, work: Callable[[Reads], Awaitable[int]]) -> int:
    if await asyncio.to_thread(place.address) is not None:
        from holdfast.client.client import Client

        async with Client(where=place.where, patience=Patience(call_s=2.0)) as client:
            if await _is_there(client, await _url(place)):
                return await work(client)
    from holdfast.cli.stored import StoredReads

    async with StoredReads(place.settings) as stored:
        if stored.is_new:
            print(f"holdfast: nothing is kept in {place.data_dir} yet", file=sys.stderr)
        return await work(stored)


async def _is_there(client: "Client", url: str) -> bool:
    try:
        await greet(client, url, within_s=LOOK_S)
    except Unreachable as error:
        print(f"holdfast: {error}; this is what the store holds", file=sys.stderr)
        return False
    return True


def _owning(place: Place, lock: DirectoryLock, *, work: Work, works: WorkScope) -> int:
    """Everything that a server needs is imported here, so that attaching is quick."""
    with uncollected():
        from holdfast.cli.exits import tools_die_first
        from holdfast.host.logs import log_to

    os.umask(0o077)  # conversations, keys and logs are private
    loaded = place.completed()
    for warning in loaded.cautions:
        print(f"holdfast: {warning}", file=sys.stderr)
    log_to(loaded.settings)

    async def main() -> int:
        async with _own_client(loaded, lock, works=works) as (client, url):
            return await work(Attached(client, place, loaded, url))

    import uvicorn

    loop_factory = uvicorn.Config("unused", loop="uvloop", log_config=None).get_loop_factory()
    with tools_die_first(), asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


@asynccontextmanager
async def _own_client(
    loaded: Loaded, lock: DirectoryLock, *, works: WorkScope
) -> AsyncGenerator[tuple["Client", str]]:
    """A client of a server inside this process; other commands can attach to it meanwhile."""
    from holdfast.client.client import Client
    from holdfast.host.assembly import open_application
    from holdfast.host.http_server import serving
    from holdfast.host.server_keys import keys_of, made_key

    settings = loaded.settings
    keys = keys_of(settings, await asyncio.to_thread(made_key, settings))
    goes_on = "all" if works == "all" else "asked"
    async with (
        open_application(settings, keys=keys, config=loaded.file, goes_on=goes_on) as app,
        serving(app) as url,
    ):
        if works == "nothing":
            await app.edge.drain()
        lock.announce(url)
        async with Client(url, keys[0].secret if keys else "") as client:
            yield client, url
