"""Dovecot on loopback, and an SMTP server with scripted faults: what an e-mail channel talks to."""

import asyncio
import atexit
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from fakes.exchanges import Exchange, Scripts, played
from holdfast.chaos.gates import Notifier
from ports import reserved_port

HAS_DOVECOT = Path("/usr/sbin/dovecot").exists()
PASSWORD = "a-password-of-these-tests"  # noqa: S105  # nothing real is behind it
_CONFIG = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%u
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/home
}}
"""


class Dovecot(Struct, frozen=True):
    """A server with a mailbox for any name."""

    folder: Path
    port: int
    owner: str

    def put(self, user: str, raw: bytes) -> None:
        """Deliver a mail, as a mail server does."""
        box = self.folder / "mail" / user
        for name in ("tmp", "new", "cur"):
            (box / name).mkdir(parents=True, exist_ok=True)
        seconds, micros = divmod(time.time_ns() // 1000, 1_000_000)
        name = f"{seconds}.M{micros:06}P{os.urandom(4).hex()}.host"  # the mails are numbered in this order
        (box / "tmp" / name).write_bytes(raw)
        if os.getuid() == 0:
            for path in (
                box.parent,
                box,
                *(box / name for name in ("tmp", "new", "cur")),
                box / "tmp" / name,
            ):
                shutil.chown(path, self.owner)
        (box / "tmp" / name).rename(box / "new" / name)


@cache
def dovecot() -> Dovecot:
    """One server for all tests of this process."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-dovecot-"))
    account = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    group = "nogroup" if os.getuid() == 0 else str(account.pw_gid)
    for name in ("run", "state", "mail", "home"):
        (folder / name).mkdir()
    if os.getuid() == 0:
        folder.chmod(0o755)
        shutil.chown(folder / "mail", account.pw_name)
        shutil.chown(folder / "home", account.pw_name)
    port = reserved_port()
    values = {"folder": folder, "port": port, "user": account.pw_name, "group": group, "password": PASSWORD}
    (folder / "dovecot.conf").write_text(_CONFIG.format(**values))
    config = str(folder / "dovecot.conf")
    subprocess.run(["/usr/sbin/dovecot", "-c", config], check=True, timeout=60)

    def end() -> None:
        subprocess.run(["/usr/bin/doveadm", "-c", config, "stop"], check=False, timeout=60)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    # It listens before it detaches.
    return Dovecot(folder, port, account.pw_name)


class Mail(Struct, frozen=True):
    """A mail that the fake took."""

    to: str
    subject: str
    text: str
    message_id: str
    references: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]


class FakeSmtp:
    """A mail server that takes mails, with scripts for `message`; an async context manager.

    `Accept` and `ResetConnection` mean what they mean elsewhere: a mail arrives, and the response is lost.
    """

    def __init__(self) -> None:
        self.scripts = Scripts({})
        self.changed = Notifier()
        self.mails: dict[str, list[Mail]] = defaultdict(list)
        self.port = 0
        self.refused = ""  # an address that doesn't exist
        self.logins: list[str] = []
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            with suppress(OSError, EOFError):
                await self._talk(reader, writer)
        finally:
            writer.close()
            del self._open[task]

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 fake ESMTP\r\n")
        to = ""
        while line := (await reader.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            match word.upper():
                case "EHLO":
                    writer.write(b"250-fake\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n")
                case "AUTH":
                    self.logins.append(rest)
                    writer.write(b"235 ok\r\n")
                case "RCPT":
                    to = re.sub(r".*<(.*)>.*", r"\1", rest)
                    writer.write(b"550 5.1.1 no such user\r\n" if to == self.refused else b"250 ok\r\n")
                case "DATA":
                    writer.write(b"354 go on\r\n")
                    raw = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                    if not await self._take(to, raw, writer):
                        return
                case "QUIT":
                    return
                case _:
                    writer.write(b"250 ok\r\n")

    async def _take(self, to: str, raw: bytes, writer: asyncio.StreamWriter) -> bool:
        """Take a mail, or let its script happen; False if the connection is cut."""

        async def accept() -> dict[str, object]:
            self.mails[to].append(_parsed(raw))
            self.changed.notify()
            return {}

        exchange = Exchange(accept=accept)
        await played(self.scripts.next("message", to), exchange)
        if exchange.reset:
            writer.transport.abort()
            return False
        writer.write(b"250 2.0.0 queued\r\n" if exchange.status == 200 else b"451 4.3.0 later\r\n")
        return True


def _parsed(raw: bytes) -> Mail:
    mail = BytesParser(policy=policy.default).parsebytes(raw)
    assert isinstance(mail, EmailMessage)
    body = mail.get_body(("plain",))
    attached = [(str(one.get_filename()), one.get_payload(decode=True)) for one in mail.iter_attachments()]
    return Mail(
        to=str(mail["To"]),
        subject=str(mail["Subject"]),
        text=body.get_content().strip().replace("\r\n", "\n") if body is not None else "",
        message_id=str(mail["Message-ID"]),
        references=tuple(str(mail.get("References", "")).split()),
        files=tuple((name, data) for name, data in attached if isinstance(data, bytes)),
    )
