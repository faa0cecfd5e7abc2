"""`holdfast serve`: the server on its data directory."""

import asyncio
import logging
import logging.handlers
import os
import secrets
import signal
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from types import FrameType

import uvicorn

from holdfast import __version__
from holdfast.cli.assembly import assemble, limits_of
from holdfast.cli.configuration import BadConfiguration, Loaded, configure
from holdfast.interfaces import JournalError
from holdfast.server.connection import connection_with
from holdfast.server.lock import DirectoryBusy, DirectoryLock
from holdfast.server.options import ApiKey
from holdfast.server.stream import Streams
from holdfast.settings import Settings

OK, FAILED = 0, 1
ENDING = (signal.SIGINT, signal.SIGTERM)
LOG_BYTES_MAX = 10 * 1024 * 1024


def serve(flags: Mapping[str, object]) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit code."""
    try:
        loaded = configure(flags)
    except BadConfiguration as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    os.umask(0o077)  # conversations, keys and logs are their owner's business
    for warning in loaded.warnings:
        print(f"holdfast: {warning}", file=sys.stderr)
    try:
        with DirectoryLock(loaded.settings.data_dir) as lock:
            _log_to(loaded.settings)
            made_key = _made_key(loaded.settings)
            loop_factory = uvicorn.Config("unused", loop="uvloop", log_config=None).get_loop_factory()
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(_serve(loaded, lock, made_key=made_key))
    except (DirectoryBusy, JournalError, OSError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    return OK


def _log_to(settings: Settings) -> None:
    """The file has every line; the terminal has what a person should see."""
    file = logging.handlers.RotatingFileHandler(
        settings.log_file, maxBytes=LOG_BYTES_MAX, backupCount=3, encoding="utf-8"
    )
    terminal = logging.StreamHandler()
    terminal.setLevel(settings.log.level.upper())
    for chatty in ("mcp", "client", "httpx2"):
        # They log whole addresses and messages, which may hold what is nobody's business.
        logging.getLogger(chatty).setLevel(logging.ERROR)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, handlers=[file, terminal])


def _made_key(settings: Settings) -> str | None:
    """The key that was made at the first start, where the configuration has no word about keys."""
    if settings.server.api_keys is not None:
        return None
    path = settings.data_dir / "api-key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(f"hf-{secrets.token_urlsafe(32)}\n", encoding="ascii")
    return path.read_text(encoding="ascii").strip()


def _keys(settings: Settings, made_key: str | None) -> tuple[ApiKey, ...] | None:
    """None is a server open to everyone on this machine; the configuration allows that on loopback only."""
    if made_key is not None:
        return (ApiKey("first", made_key),)
    given = settings.server.api_keys or ()
    return tuple(ApiKey(f"key {number}", str(key)) for number, key in enumerate(given, 1)) or None


async def _serve(loaded: Loaded, lock: DirectoryLock, *, made_key: str | None) -> None:
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        listening = _listen(settings.server.host, settings.server.port)
        stack.callback(listening.close)
        streams = Streams()
        app = await assemble(stack, settings, streams, keys=_keys(settings, made_key))
        config = uvicorn.Config(
            app,
            http=connection_with(limits_of(settings)),
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
        )
        url = f"http://{settings.server.host}:{listening.getsockname()[1]}"
        lock.announce(url)
        _greet(url, loaded, made_key=made_key)
        await _Server(config, streams).serve(sockets=[listening])


def _greet(url: str, loaded: Loaded, *, made_key: str | None) -> None:
    settings = loaded.settings
    key = settings.data_dir / "api-key"
    auth = "" if made_key is None else f' -H "Authorization: Bearer $(cat {key})"'
    print(f"Holdfast {__version__} on {url} (data in {settings.data_dir})")
    if loaded.is_demo:
        print("No model is configured, so the built-in demo model answers.")
    print(f'Try: curl{auth} {url}/v1/runs -d \'{{"input": "hello"}}\'', flush=True)


class _Server(uvicorn.Server):
    """Ends open event streams first, so that shutting down waits for nobody who only listens.

    The first SIGTERM or Ctrl-C is an orderly end with exit code 0, the second one an immediate end: what was
    shown is on disk, and the next start goes on from there.
    """

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See uvicorn, which would raise the signal again at the end."""
        before = {number: signal.signal(number, self.handle_exit) for number in ENDING}
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        if self.should_exit:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._streams.end()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything else starts, so that a taken port is an error of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        text = f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        raise OSError(text) from error
    listening.listen(1024)
    listening.setblocking(False)
    return listening
