"""A small IMAP client: new messages of one mailbox, each command with a deadline."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from holdfast.interfaces.clock import Clock

ANSWER_S = 60.0
POLL_S, IDLE_S = 15.0, 300.0
LINE_BYTES_MAX = 256 * 1024
_LITERAL = re.compile(rb"\{(\d{1,10})\}$")


class MailTrouble(Exception):
    """The server can't be reached, or refused a command. The text has no password."""


class MailServer(Struct, frozen=True, kw_only=True):
    """A server's address, and how its connection is secured."""

    host: str
    port: int
    security: str  # "tls" from the first byte, "starttls", or "plain" on this machine


class _Reply(Struct):
    """The untagged lines of a reply; a literal is an element after its line."""

    lines: list[bytes]

    def numbers(self, word: bytes) -> list[int]:
        """Return the numbers of an untagged line, such as `* SEARCH 1 2`."""
        found = [line.split()[2:] for line in self.lines if line.upper().startswith(b"* " + word)]
        return [int(one) for numbers in found for one in numbers if one.isdigit()]

    def code(self, name: bytes) -> int:
        """Return the number of a response code, such as `[UIDNEXT 4]`; 0 if it's absent."""
        found = re.search(rb"\[" + name + rb" (\d+)\]", b"\n".join(self.lines), re.IGNORECASE)
        return int(found[1]) if found else 0


class Mailbox:
    """An open mailbox. `open_mailbox` makes it and ends the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0
        self._can_idle = False
        self._has_news = False  # the server told of messages in the reply to another command
        self.validity = 0  # changes when UIDs mean other messages
        self.next_uid = 0

    async def select(self, name: str) -> None:
        """Open the mailbox for reading and marking."""
        offered = await self.command("CAPABILITY")
        self._can_idle = any(b"IDLE" in line.upper().split() for line in offered.lines)
        reply = await self.command("SELECT", quoted(name))
        self.validity, self.next_uid = reply.code(b"UIDVALIDITY"), reply.code(b"UIDNEXT")

    async def uids_from(self, uid: int) -> list[int]:
        """Return the UIDs from this one on, in order."""
        self._has_news = False
        reply = await self.command("UID", "SEARCH", "UID", f"{uid}:*")
        return sorted(one for one in reply.numbers(b"SEARCH") if one >= uid)

    async def size(self, uid: int) -> int:
        """Return the message's size in bytes; 0 if it's gone."""
        reply = await self.command("UID", "FETCH", str(uid), "(RFC822.SIZE)")
        found = re.search(rb"RFC822\.SIZE (\d+)", b"\n".join(reply.lines), re.IGNORECASE)
        return int(found[1]) if found else 0

    async def message(self, uid: int, *, bytes_max: int) -> bytes:
        """Return up to so many bytes of the message; empty if it's gone."""
        what = f"(BODY.PEEK[]<0.{bytes_max}>)"
        reply = await self.command("UID", "FETCH", str(uid), what, literal_max=bytes_max)
        at = next((at for at, line in enumerate(reply.lines) if _LITERAL.search(line)), -1)
        return reply.lines[at + 1] if at >= 0 else b""

    async def mark_seen(self, uid: int) -> None:
        """Mark the message as read."""
        await self.command("UID", "STORE", str(uid), "+FLAGS.SILENT", r"(\Seen)")

    async def wait(self, clock: Clock) -> None:
        """Wait until a message may have arrived: at once if the server can tell, else for some seconds."""
        if self._has_news:
            return
        if not self._can_idle:
            await clock.sleep_s(POLL_S)
            await self.command("NOOP")
            return
        try:
            await self._idle()
        except TimeoutError as error:
            raise MailTrouble("no response to IDLE") from error
        except (OSError, EOFError, ValueError) as error:
            raise MailTrouble(f"the connection ended ({type(error).__name__})") from error

    async def _idle(self) -> None:
        self._number += 1
        tag = f"h{self._number}"
        async with asyncio.timeout(ANSWER_S):
            self._writer.write(f"{tag} IDLE\r\n".encode())
            await self._writer.drain()
            if not (line := await _line(self._reader)).startswith(b"+"):
                raise MailTrouble(f"IDLE: {line.decode('utf-8', 'replace')[:200]}")
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S):
                while not (await _line(self._reader)).endswith((b"EXISTS", b"RECENT")):
                    pass
        async with asyncio.timeout(ANSWER_S):
            self._writer.write(b"DONE\r\n")
            await self._writer.drain()
            await self._reply(tag.encode(), "IDLE", LINE_BYTES_MAX)

    async def command(self, *words: str, literal_max: int = LINE_BYTES_MAX) -> _Reply:
        """Send a command; raises MailTrouble unless the server carries it out."""
        self._number += 1
        tag = f"h{self._number}"
        try:
            async with asyncio.timeout(ANSWER_S):
                self._writer.write(f"{tag} {' '.join(words)}\r\n".encode())
                await self._writer.drain()
                return await self._reply(tag.encode(), words[0], literal_max)
        except TimeoutError as error:
            raise MailTrouble(f"no response to {words[0]} within {ANSWER_S:g} s") from error
        except (OSError, EOFError, ValueError) as error:
            raise MailTrouble(f"the connection ended ({type(error).__name__})") from error

    async def _reply(self, tag: bytes, name: str, literal_max: int) -> _Reply:
        lines: list[bytes] = []
        while True:
            line = await _line(self._reader)
            lines.append(line)
            self._has_news |= line.startswith(b"* ") and line.endswith(b" EXISTS")
            while (literal := _LITERAL.search(line)) is not None:
                size = int(literal[1])
                if size > literal_max:
                    raise MailTrouble(f"{name}: the response is too long")
                lines.append(await self._reader.readexactly(size))
                line = await _line(self._reader)
                lines.append(line)
            if line.startswith(tag + b" "):
                status, _, text = line[len(tag) + 1 :].partition(b" ")
                if status.upper() != b"OK":
                    raise MailTrouble(f"{name}: {text.decode('utf-8', 'replace')[:200]}")
                return _Reply(lines)


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line.rstrip(b"\r\n")


def quoted(text: str) -> str:
    """Quote a string for IMAP; raises MailTrouble if it can't be."""
    if not text.isascii() or not text.isprintable():
        raise MailTrouble("only printable ASCII characters work in the name, the password and the mailbox")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def connected(server: MailServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect; raises MailTrouble."""
    context = ssl.create_default_context() if server.security == "tls" else None
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asyncio.open_connection(server.host, server.port, ssl=context, limit=LINE_BYTES_MAX)
    except TimeoutError as error:
        raise MailTrouble("can't connect: no response") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or type(error).__name__
        raise MailTrouble(f"can't connect: {why}") from error


@asynccontextmanager
async def open_mailbox(
    server: MailServer, *, user: str, password: str, mailbox: str = "INBOX"
) -> AsyncGenerator[Mailbox]:
    """Sign in and open the mailbox, until the block ends; raises MailTrouble."""
    reader, writer = await connected(server)
    try:
        box = Mailbox(reader, writer)
        try:
            async with asyncio.timeout(ANSWER_S):
                await _line(reader)  # the greeting
                if server.security == "starttls":
                    await box.command("STARTTLS")
                    await writer.start_tls(ssl.create_default_context(), server_hostname=server.host)
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            raise MailTrouble(f"the connection ended ({type(error).__name__})") from error
        await box.command("LOGIN", quoted(user), quoted(password))
        await box.select(mailbox)
        yield box
    finally:
        writer.transport.abort()
