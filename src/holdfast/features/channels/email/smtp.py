"""Sends one message by SMTP, with the certain outcome: only after the final dot it may have arrived."""

import asyncio
import ssl
from base64 import b64encode

from holdfast.decisions.deliveries import Arrived, DidNotArrive, MayHaveArrived, NotAccepted, SendResult
from holdfast.features.channels.email.imap import MailServer, MailTrouble, connected

ANSWER_S = 60.0
DATA_S = 300.0
EXPECTED = 400  # from here on, a code is a refusal: 4xx for now, 5xx for good
FOR_GOOD = 500


class _Refused(Exception):
    """The server's reply to a command, if it isn't what was expected."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class _Conversation:
    """The commands and replies of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def command(self, line: str) -> str:
        """Send a command and return its reply; raises _Refused."""
        self._writer.write(line.encode() + b"\r\n")
        await self._writer.drain()
        return await self.reply()

    async def reply(self, *, within_s: float = ANSWER_S) -> str:
        """Return the text of a reply; raises _Refused for 4xx and 5xx."""
        texts: list[str] = []
        async with asyncio.timeout(within_s):
            while True:
                line = await self._reader.readline()
                if not line.endswith(b"\n") or not line[:3].isdigit():
                    raise EOFError("the connection ended")
                texts.append(line[4:].decode("utf-8", "replace").strip())
                if line[3:4] != b"-":
                    break
        code, text = int(line[:3]), "\n".join(texts)
        if code >= EXPECTED:
            raise _Refused(code, text[:300].replace("\n", " "))
        return text

    async def data(self, message: bytes) -> None:
        """Write the message. It isn't accepted before the reply."""
        lines = message.replace(b"\r\n", b"\n").split(b"\n")
        stuffed = (b"." + line if line.startswith(b".") else line for line in lines)
        async with asyncio.timeout(DATA_S):
            self._writer.write(b"\r\n".join(stuffed) + b"\r\n")
            await self._writer.drain()

    async def dot(self) -> None:
        """End the message: from here on it may arrive."""
        self._writer.write(b".\r\n")
        await self._writer.drain()

    async def secure(self, host: str) -> None:
        """Continue with TLS."""
        await self._writer.start_tls(ssl.create_default_context(), server_hostname=host)


async def send_mail(
    server: MailServer, *, user: str, password: str, sender: str, to: str, message: bytes
) -> SendResult:
    """Send the message to one address. It's never sent twice."""
    try:
        reader, writer = await connected(server)
    except MailTrouble as error:
        return DidNotArrive(str(error))
    conversation, is_written = _Conversation(reader, writer), False
    try:
        await _begun(conversation, server, user=user, password=password)
        await conversation.command(f"MAIL FROM:<{sender}>")
        try:
            await conversation.command(f"RCPT TO:<{to}>")
            await conversation.command("DATA")
            await conversation.data(message)
            is_written = True
            await conversation.dot()
            await conversation.reply(within_s=DATA_S)
        except _Refused as error:
            return NotAccepted(str(error)) if error.code >= FOR_GOOD else DidNotArrive(str(error))
    except _Refused as error:  # the account, not the message
        return DidNotArrive(str(error))
    except (TimeoutError, OSError, EOFError, ValueError) as error:
        why = f"the connection ended ({type(error).__name__})"
        return MayHaveArrived(why) if is_written else DidNotArrive(why)
    finally:
        writer.transport.abort()
    return Arrived("")


async def sign_in(server: MailServer, *, user: str, password: str) -> str:
    """Sign in and leave; the reason if that fails."""
    try:
        reader, writer = await connected(server)
    except MailTrouble as error:
        return str(error)
    try:
        await _begun(_Conversation(reader, writer), server, user=user, password=password)
    except (_Refused, TimeoutError, OSError, EOFError, ValueError) as error:
        return str(error) or type(error).__name__
    finally:
        writer.transport.abort()
    return ""


async def _begun(conversation: _Conversation, server: MailServer, *, user: str, password: str) -> None:
    """Greet, secure the connection, and sign in."""
    await conversation.reply()
    offered = await conversation.command("EHLO [127.0.0.1]")
    if server.security == "starttls":
        await conversation.command("STARTTLS")
        await conversation.secure(server.host)
        offered = await conversation.command("EHLO [127.0.0.1]")
    if not user:
        return
    lines = [one.upper().split() for one in offered.splitlines()]
    if any(line[:1] == ["AUTH"] and "PLAIN" in line for line in lines):
        secret = _base64(f"\x00{user}\x00{password}")
        await conversation.command(f"AUTH PLAIN {secret}")
    else:
        await conversation.command("AUTH LOGIN")
        await conversation.command(_base64(user))
        await conversation.command(_base64(password))


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
