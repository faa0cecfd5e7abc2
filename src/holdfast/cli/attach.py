"""Attach to the server that runs on the data directory, or be it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from holdfast import __version__
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.output import clear_step, echo_error, restore, show_step
from holdfast.client.address import ClientPatience
from holdfast.client.errors import BadAnswer, ClientError, Refused, Unreachable
from holdfast.config.load import BadConfiguration, Loaded
from holdfast.folds.phases import IllegalEvent
from holdfast.host.data_dir import DataDirectory, announce, find_data_directory, running_server
from holdfast.host.fast_imports import fast_imports
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.client import Client
    from holdfast.host.http_server import Application
    from holdfast.redaction import Redactor
    from holdfast.sandbox.sandbox import Sandbox

OK, FAILED, UNAPPROVED, STOPPED = 0, 1, 3, 130
NO_KEY = "invalid_api_key"
LOOK_S = 10.0  # how long one who only reads waits for a server before reading without it

# Additional work of a server we start: continue every open run; work on what the
# command asks for; nothing, so that what the command says is only written down.
WorkScope: TypeAlias = Literal["all", "asked", "nothing"]


class Attached(Struct, frozen=True):
    """A server to work with: in this process (`loaded` is its configuration) or in another one."""

    client: "Client"
    directory: DataDirectory
    loaded: Loaded | None
    url: str

    @property
    def is_own(self) -> bool:
        """Whether it ends with this process."""
        return self.loaded is not None


EXPECTED_ERRORS = (BadConfiguration, JournalError, IllegalEvent, OSError, ClientError, KeyboardInterrupt)


def report_error(error: BaseException) -> int:
    """Say what went wrong in one line; the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return STOPPED
    if isinstance(error, BrokenPipeError):
        # The reader closed the pipe; keep the interpreter from writing again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    echo_error(f"holdfast: {error_text(error)}")
    return FAILED


Work: TypeAlias = Callable[[Attached], Awaitable[int]]


def with_server(
    flags: Mapping[str, object],
    work: Work,
    *,
    works: WorkScope = "asked",
    patience: ClientPatience | None = None,
) -> int:
    """Run the work with a server and return the exit code. `works` is what a server we start continues."""
    try:
        directory = find_data_directory(flags)
        with ExitStack() as stack:
            stack.callback(clear_step)  # errors are reported on a separate line
            try:
                lock = stack.enter_context(DirectoryLock(directory.data_dir))
            except DirectoryBusy:
                return asyncio.run(
                    _with_running_server(directory, work, patience=patience or ClientPatience())
                )
            return _with_own_server(directory, lock, work=work, works=works)
    except EXPECTED_ERRORS as error:
        return report_error(error)
    finally:
        restore()


def with_running_server(flags: Mapping[str, object], work: Work) -> int:
    """Run work that needs a running server, without starting one."""
    try:
        directory = find_data_directory(flags)
        if directory.address() is None:
            echo_error(
                f"holdfast: no server is running in {directory.data_dir}: start one with `holdfast serve`, "
                "or pass the data directory of a running one with --data-dir",
            )
            return FAILED
        return asyncio.run(_with_running_server(directory, work, patience=ClientPatience()))
    except EXPECTED_ERRORS as error:
        return report_error(error)
    finally:
        restore()


async def _with_running_server(directory: DataDirectory, work: Work, *, patience: ClientPatience) -> int:
    from holdfast.client.client import Client

    async with Client(where=directory.where, patience=patience) as client:
        url = await _url(directory)
        show_step(f"Connecting to {url}")
        try:
            await check_server(client, url, within_s=patience.call_s)
        finally:
            clear_step()
        for note in await asyncio.to_thread(ignored_settings, directory):
            echo_error(f"holdfast: {note}")
        return await work(Attached(client, directory, None, (await directory.where()).url))


def ignored_settings(directory: DataDirectory) -> list[str]:
    """Notes about settings of this command that the running server doesn't use."""
    file, holder = directory.inputs.file, running_server(directory.data_dir)
    if holder is None:
        return []
    notes: list[str] = []
    if file is not None and holder.config != str(file.path.resolve()):
        of_it = f"uses {holder.config}" if holder.config else "uses its own settings"
        notes.append(
            f"the server at {holder.url} {of_it}, so {file.path} has no effect on its runs; "
            f"to use the file, stop the server or choose another --data-dir"
        )
    if names := directory.ignored_variables():
        notes.append(
            f"{', '.join(names)} has no effect: the server at {holder.url} was started with another value; "
            "restart it to apply yours"
        )
    return notes


async def _url(directory: DataDirectory) -> str:
    """Return the server's name for people. A starting server has no address yet."""
    found = await asyncio.to_thread(directory.address)
    return found.url if found else f"the server for {directory.data_dir}"


def with_reader(flags: Mapping[str, object], work: Callable[[Reader], Awaitable[int]]) -> int:
    """Do work that only reads: through the server that runs, else from the store, which nothing locks."""
    try:
        directory = find_data_directory(flags)
        return asyncio.run(_with_reader(directory, work))
    except EXPECTED_ERRORS as error:
        return report_error(error)


async def _with_reader(directory: DataDirectory, work: Callable[[Reader], Awaitable[int]]) -> int:
    if await asyncio.to_thread(directory.address) is not None:
        from holdfast.client.client import Client

        async with Client(where=directory.where, patience=ClientPatience(call_s=2.0)) as client:
            if await _is_there(client, await _url(directory)):
                return await work(client)
    from holdfast.cli.offline_reader import OfflineReader

    async with OfflineReader(directory.settings) as stored:
        if stored.is_new:
            echo_error(f"holdfast: there is no data in {directory.data_dir} yet")
        return await work(stored)


async def _is_there(client: "Client", url: str) -> bool:
    try:
        await check_server(client, url, within_s=LOOK_S)
    except Unreachable as error:
        echo_error(f"holdfast: {error}; reading the stored data instead")
        return False
    return True


def _with_own_server(directory: DataDirectory, lock: DirectoryLock, *, work: Work, works: WorkScope) -> int:
    """Everything that a server needs is imported here, so that attaching is quick."""
    show_step("Starting Holdfast")
    os.umask(0o077)  # conversations, keys and logs are private
    with fast_imports():
        import uvicorn

        from holdfast.cli.serve import kill_tools_on_exit
        from holdfast.host.logs import log_to_file
        from holdfast.host.sandbox_test import begin_sandbox_test

        show_step("Looking for models")
        loaded = directory.completed()  # imports the HTTP client if no model is configured
    clear_step()
    for warning in loaded.startup_warnings:
        echo_error(f"holdfast: {warning}")
    secrets = log_to_file(loaded.settings)
    sandbox = begin_sandbox_test(loaded.settings)  # its programs work during the imports below
    show_step(f"Opening {directory.data_dir}")

    async def main() -> int:
        async with _own_client(loaded, lock, sandbox=sandbox, works=works, secrets=secrets) as (client, url):
            clear_step()
            return await work(Attached(client, directory, loaded, url))

    loop_factory = uvicorn.Config("unused", loop="uvloop", log_config=None).get_loop_factory()
    with kill_tools_on_exit(), asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


@asynccontextmanager
async def _own_client(
    loaded: Loaded,
    lock: DirectoryLock,
    *,
    sandbox: "Callable[[], Sandbox]",
    works: WorkScope,
    secrets: "Redactor",
) -> AsyncGenerator[tuple["Client", str]]:
    """A client of a server inside this process; other commands can attach to it meanwhile."""
    with fast_imports():
        from holdfast.client.client import Client
        from holdfast.host.assembly import open_application
        from holdfast.host.http_server import serving
        from holdfast.host.server_keys import first_key, keys_of

    settings = loaded.settings
    keys = keys_of(settings, await asyncio.to_thread(first_key, settings))
    resume_runs = "all" if works == "all" else "asked"
    async with (
        open_application(
            settings,
            keys=keys,
            config=loaded.file,
            resume_runs=resume_runs,
            sandbox=sandbox,
            secrets=secrets,
        ) as app,
        serving(app) as url,
        _while_tools_open(app),
    ):
        if settings.sandbox.mode == "require":
            await app.until_opened()  # ends the command if the sandbox doesn't hold
        if works == "nothing":
            await app.asgi.drain()
        await asyncio.to_thread(announce, lock, url, loaded)
        async with Client(url, keys[0].secret if keys else "") as client:
            yield client, url


@asynccontextmanager
async def _while_tools_open(app: "Application") -> AsyncGenerator[None]:
    """End the work with the error if the tools can't be opened: its runs would never begin."""
    try:
        async with asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(app.until_opened())
            yield
            opening.cancel()
    except BaseExceptionGroup as group:  # of one error: of the work, or of the tools
        raise group.exceptions[0] from None


async def check_server(client: "Client", url: str, *, within_s: float) -> None:
    """Wait until it answers; raises Unreachable, or BadAnswer if it is none of ours."""
    try:
        async with asyncio.timeout(within_s):
            found = await client.health()
    except TimeoutError:
        raise Unreachable(url, "no response in time") from None
    except (Refused, BadAnswer) as error:
        raise BadAnswer(f"the program at {url} is not a Holdfast server: {error}") from error
    if found.version != __version__:
        # Only a warning: it mostly works, and if it doesn't, this is why.
        of_it = f"is Holdfast {found.version}" if found.version else "doesn't report its version"
        echo_error(
            f"holdfast: the server {of_it}, but this is {__version__}; restart the server",
        )


def error_text(error: BaseException) -> str:
    """Describe the error and the fix in one line."""
    if isinstance(error, Refused) and error.code == NO_KEY:
        return (
            "the server rejected the key (from server.api_keys, or the file api-key in the data directory); "
            "use the server's --config, or a valid key"
        )
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
