"""`holdfast serve`: the server on its data directory.

The ways out of a program that runs tools: whichever it takes, the tools are dead first.
"""

import asyncio
import gc
import os
import shlex
import signal
import socket
import ssl
import sys
import termios
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from types import FrameType

import uvicorn

from holdfast import __version__
from holdfast.cli.program_name import command_line
from holdfast.cli.terminal.output import clear_step, echo, echo_error, restore, show_step
from holdfast.config.load import BadConfiguration, Loaded, load_configuration
from holdfast.host.assembly import open_application
from holdfast.host.data_dir import announce
from holdfast.host.http_server import Application, http_config
from holdfast.host.listening import EVERY_ADDRESS, Listening, TlsFiles, listen
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.host.logs import log_to_file, terminal_log
from holdfast.host.open_files import allow_open_files
from holdfast.host.server_keys import first_key, keys_of
from holdfast.host.stores import store_place
from holdfast.interfaces.journal import JournalError
from holdfast.redaction import Redactor
from holdfast.server.access.auth import LINK_MS
from holdfast.server.access.middleware import AccessMiddleware
from holdfast.server.options import ApiKey
from holdfast.supervision import BackgroundTasks
from holdfast.tools.shell.forced_exit import force_exit, kill_foreground

AT_ONCE = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def kill_tools_on_exit() -> Generator[None]:
    """Kill running tools when the block ends, also on an exception or a fatal signal."""
    # Under nohup it is to outlive its terminal.
    taken = [number for number in AT_ONCE if signal.getsignal(number) != signal.SIG_IGN]
    tidy = _terminal_as_it_is()

    def at_once(number: int, frame: FrameType | None) -> None:
        del frame
        tidy()
        force_exit(number)

    before = {number: signal.signal(number, at_once) for number in taken}
    try:
        yield
    finally:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would cut this short
        kill_foreground()
        signal.signal(signal.SIGINT, interrupt)
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _terminal_as_it_is() -> Callable[[], None]:
    """Return a function that restores the current terminal mode, for abrupt exits."""
    try:
        terminal = sys.stdin.fileno()
        mode = termios.tcgetattr(terminal)
    except (OSError, ValueError, AttributeError, termios.error):
        return lambda: None  # no terminal, or no standard input at all

    def tidy() -> None:
        # It may be gone: a closed window is a way out too.
        with suppress(OSError, termios.error):
            restore()
            termios.tcsetattr(terminal, termios.TCSANOW, mode)

    return tidy


OK, FAILED = 0, 1
KEEP_S = 2.0  # how often the server looks whether its lock is still there
ENDING = (signal.SIGINT, signal.SIGTERM)
# The objects of a run or a relayed call live as long as it does, and are freed without the collector. Looked
# through as often as Python does by default, they cost a tenth of the server's time; a relayed call has about
# a hundred.
COLLECTED_AFTER = (50_000, 20, 20)


def serve(flags: Mapping[str, object]) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; the exit code."""
    show_step("Reading the settings and looking for local models")
    try:
        loaded = load_configuration(flags)
    except BadConfiguration as error:
        clear_step()
        echo_error(f"holdfast: {error}")
        return FAILED
    clear_step()
    workspace = loaded.settings.workspace
    if not os.path.isdir(workspace):  # noqa: PTH112  # never raises, not even for unreadable paths
        place = loaded.sources.of(("agent", "workspace"))
        echo_error(f"holdfast: {place}: agent.workspace isn't a folder: {workspace}")
        return FAILED
    os.umask(0o077)  # conversations, keys and logs are their owner's business
    for warning in loaded.startup_warnings:
        echo_error(f"holdfast: {warning}")
    try:
        with DirectoryLock(loaded.settings.data_dir) as lock:
            secrets = log_to_file(loaded.settings, terminal_log(loaded.settings))
            key = first_key(loaded.settings)
            loop_factory = uvicorn.Config("unused", loop="uvloop", log_config=None).get_loop_factory()
            gc.set_threshold(*COLLECTED_AFTER)
            allow_open_files(loaded.settings)
            with kill_tools_on_exit(), asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(_serve(loaded, lock, first_key=key, secrets=secrets))
    except (DirectoryBusy, JournalError, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    return OK


async def _serve(loaded: Loaded, lock: DirectoryLock, *, first_key: str | None, secrets: Redactor) -> None:
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        listening = await asyncio.to_thread(listen, settings.server)
        stack.callback(listening.close)
        files = TlsFiles.of(settings.server)
        tls = await asyncio.to_thread(files.context) if files is not None else None
        keys = keys_of(settings, first_key)
        await asyncio.to_thread(show_step, f"Opening {store_place(settings)}")
        stack.callback(clear_step)
        opened = open_application(settings, keys=keys, config=loaded.file, secrets=secrets)
        app = await stack.enter_async_context(opened)
        place = {"socket": listening.path, "certificate": str(files.cert.absolute()) if files else ""}
        await asyncio.to_thread(partial(announce, lock, listening.url, loaded, **place))

        def greet() -> None:
            clear_step()
            page = settings.server.public_url.rstrip("/") or listening.url + settings.server.mount_path
            _greet(listening, loaded, first_key=first_key, way_in=_way_in(app.asgi, page, keys))

        background = await stack.enter_async_context(BackgroundTasks())
        background.start("data directory lock", partial(_keep, lock))
        if files is not None and tls is not None:
            background.start("TLS certificate", partial(files.keep_loaded, tls))
        server = _Server(app, greet, tls=tls)
        opening = asyncio.create_task(server.watch_opening())
        try:
            await server.serve(sockets=[listening.socket])
        finally:
            opening.cancel()
            await asyncio.wait({opening})
        if not opening.cancelled():
            opening.result()


async def _keep(lock: DirectoryLock) -> None:
    while True:
        await asyncio.sleep(KEEP_S)
        await asyncio.to_thread(lock.keep)


def _way_in(app: AccessMiddleware, url: str, keys: tuple[ApiKey, ...] | None) -> str:
    """How a browser gets in. A link is for whoever sits at a terminal, and never for a log file or a journal.

    What stands behind the # reaches no server and no proxy, either.
    """
    if keys is None:
        return f"Open {url}"
    if sys.stdout.isatty():
        minutes = LINK_MS // 60_000
        return (
            f"Open {url}/#token={app.sign_ins.new_link(keys[0].name)}\n"
            f"     (works once, for {minutes} minutes; `{command_line('sign-in')}` prints a new link)"
        )
    return f"Open {url} (`{command_line('sign-in')}` prints a link that signs you in)"


def _greet(listening: Listening, loaded: Loaded, *, first_key: str | None, way_in: str) -> None:
    settings, url = loaded.settings, listening.url
    key = settings.data_dir / "api-key"
    secret = f"$(cat {shlex.quote(str(key))})" if first_key is not None else "YOUR_KEY"
    auth = f' -H "Authorization: Bearer {secret}"' if settings.server.api_keys != () else ""
    further = " and all other addresses of this machine" if settings.server.host in EVERY_ADDRESS else ""
    place = listening.path or f"{url}{further}"
    echo(f"Holdfast {__version__} on {place} (data in {settings.data_dir})")
    if loaded.is_demo:
        echo("No model is configured, so the built-in demo model answers.")
        echo("To use a real model, set a key such as ANTHROPIC_API_KEY and restart.")
    echo(way_in)
    through = f" --unix-socket {shlex.quote(listening.path)}" if listening.path else ""
    through += f" --cacert {shlex.quote(settings.server.tls_cert)}" if settings.server.tls_cert else ""
    echo(f'Try: curl{through}{auth} {url}/v1/runs -d \'{{"input": "hello"}}\'')


class _Server(uvicorn.Server):
    """Lets runs come to a safe point first, and then ends event streams, which would last for ever.

    The first SIGTERM, SIGHUP or Ctrl-C is an orderly end with exit code 0. The second one, and SIGQUIT, is a
    quick end: the tools that run are killed and nothing else is waited for. What was shown is on disk, and
    the next start continues from there.
    """

    def __init__(self, app: Application, greet: Callable[[], None], *, tls: ssl.SSLContext | None) -> None:
        super().__init__(http_config(app, tls=tls))
        self._app = app
        self._greet = greet

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See uvicorn, which would raise the signal again at the end."""
        before = {number: signal.signal(number, self.handle_exit) for number in ENDING}
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup it is to outlive its terminal
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        """An orderly end: a window that closes sends this twice, by the shell and by the system."""
        if not self.should_exit:
            super().handle_exit(sig, frame)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        if self.should_exit:
            force_exit(sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn. Once the greeting is printed, the server responds and shuts down in order."""
        await super().startup(sockets)
        self._greet()
        self._app.begin()

    async def watch_opening(self) -> None:
        """End the server if the tools can't be opened: a required sandbox may not hold; raises why."""
        try:
            await self._app.until_opened()
        except Exception:
            self.should_exit = True
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn; meanwhile everything is still served, and readers see their answers end."""
        if sys.stderr.isatty():
            echo_error("Stopping. Press Ctrl-C again to quit immediately; no data is lost either way.")
        await self._app.asgi.drain()
        self._app.streams.end()
        await super().shutdown(sockets)
