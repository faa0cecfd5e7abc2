"""An e-mail channel: mails of one mailbox in, by IMAP, and answers in their threads out, by SMTP."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct
from yarl import URL

from holdfast.cli.doctor.findings import DoctorFinding, fault, note, ok
from holdfast.decisions.deliveries import NotAccepted, SendResult
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.email.imap import Mailbox, MailServer, MailTrouble, open_mailbox
from holdfast.features.channels.email.messages import address_of, mail_for, read_mail, subject_in
from holdfast.features.channels.email.smtp import send_mail, sign_in
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.store_errors import is_transient, readable_view
from holdfast.features.channels.text_platform import TextCarrier, TextMessage, text_format, text_inbound

CHARS_MAX = 50_000
RETRY_S, RETRY_S_MAX = 5.0, 300.0
RESCANNED = 200  # messages to look at again if the mailbox has new UIDs
OVERHEAD = 1.4  # of a file in a mail
HINT = "Check `imap_url`, `login` and `token`. Many providers need an app password."
DIALECT = text_format(chars_max=CHARS_MAX)
_log = logging.getLogger(__name__)


class _Position(Struct):
    """The next UID to read, which is meaningful only with the mailbox's validity."""

    validity: int
    next_uid: int


def mail_server(url: str) -> MailServer:
    """Return the server of an imap, imaps, smtp or smtps URL. Only loopback works without TLS."""
    parsed = URL(url)
    kind, host = parsed.scheme.removesuffix("s"), parsed.host or ""
    is_local = host in {"127.0.0.1", "::1", "localhost"}
    security = "tls" if parsed.scheme.endswith("s") else "plain" if is_local else "starttls"
    ports = {"imap": (993, 143), "smtp": (465, 587)}
    port = parsed.explicit_port or ports[kind][0 if security == "tls" else 1]
    return MailServer(host=host, port=port, security=security)


class Mails:
    """One account: it reads the mailbox, and answers in threads."""

    def __init__(self, deps: ChannelDeps, options: ChannelOptions, log: ChannelLog) -> None:
        self._deps = deps
        self._options = options
        self._log = log
        self._note = f"session/{log.log_id}/imap"

    async def post(self, message: TextMessage) -> SendResult:
        """Send a mail."""
        options = self._options
        to = address_of(message.chat.partition("/")[0])
        if not to:
            return NotAccepted(f"{message.chat[:80]!r} isn't an address")
        subject, thread = await self._subject(message), self._thread(message)
        made = mail_for(message, own=options.address, subject=subject, references=thread)
        data = await asyncio.to_thread(made.as_bytes)
        return await send_mail(
            mail_server(options.smtp_url),
            user=options.login,
            password=str(options.token),
            sender=options.address,
            to=to,
            message=data,
        )

    async def _subject(self, message: TextMessage) -> str:
        view = await readable_view(self._deps.supervisor, message.session_id) if message.session_id else None
        messages = view.session.inbox.messages.values() if view is not None else ()
        return subject_in([one.text for one in messages])

    def _thread(self, message: TextMessage) -> list[str]:
        """Return the first and the newest mail of the thread that are known."""
        state = self._log.state
        known = [id_ for chat, id_ in (*state.accepted, *state.used) if chat == message.chat]
        newest = [id_ for chat, id_ in state.accepted if chat == message.chat][-1:]
        return [*known[:1], *newest]

    async def connect(self, accept: Accept) -> None:
        """Read mails until cancelled. Failures are logged and retried."""
        clock, retry_s, options = self._deps.clock, RETRY_S, self._options
        while True:
            try:
                async with open_mailbox(
                    mail_server(options.imap_url), user=options.login, password=str(options.token)
                ) as mailbox:
                    position = await self._position(mailbox)
                    while True:
                        await self._read(mailbox, position, accept)
                        await self._log.connected(clock.now_ms(), options.address)
                        retry_s = RETRY_S
                        await mailbox.wait(clock)
            except MailTrouble as error:
                await self._log.failed(clock.now_ms(), f"Can't read mails: {error}", HINT)
                await clock.sleep_s(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _position(self, mailbox: Mailbox) -> _Position:
        """Return where to continue; in a mailbox that is new here, after the mails that are there."""
        raw = await self._deps.store.note(self._note)
        known = msgspec.json.decode(raw, type=_Position) if raw else None
        if known is not None and known.validity == mailbox.validity:
            return known
        next_uid = mailbox.next_uid if known is None else max(1, mailbox.next_uid - RESCANNED)
        position = _Position(mailbox.validity, next_uid)
        await self._deps.store.put_note(self._note, msgspec.json.encode(position))
        return position

    async def _read(self, mailbox: Mailbox, position: _Position, accept: Accept) -> None:
        for uid in await mailbox.uids_from(position.next_uid):
            await self._take(mailbox, uid, accept)
            # After the mail is on the log, so that a crash reads it again.
            position.next_uid = uid + 1
            await self._deps.store.put_note(self._note, msgspec.json.encode(position))
            await mailbox.mark_seen(uid)

    async def _take(self, mailbox: Mailbox, uid: int, accept: Accept) -> None:
        bytes_max = int(OVERHEAD * self._options.file_bytes_max)
        size = await mailbox.size(uid)
        raw = await mailbox.message(uid, bytes_max=min(size, bytes_max) or 1)
        options = self._options

        def read() -> object:
            return read_mail(raw, authserv_id=options.authserv_id, own=options.address, size_bytes=size)

        try:
            arrival = await asyncio.to_thread(read)
        except Exception as error:  # mail is whatever anyone sends, and the parser raises many kinds
            if is_transient(error):
                raise
            _log.warning(
                "channel %s: the mail with UID %d can't be read", self._log.log_id, uid, exc_info=True
            )
            return
        if arrival is not None:
            await accept(arrival)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one mailbox, until the block ends."""
    mails = Mails(deps, options, log)
    yield ChatPlatform(
        carrier=TextCarrier(deps, log, mails.post, chars_max=CHARS_MAX),
        # A refusal would go to the address that spam names as its sender.
        inbound=text_inbound(DIALECT, answers_strangers=False),
        connect=mails.connect,
    )


async def check(options: ChannelOptions) -> DoctorFinding:
    """Check it for `holdfast doctor`."""
    name = f"channel {options.name}"
    password = str(options.token)
    try:
        async with open_mailbox(mail_server(options.imap_url), user=options.login, password=password):
            pass
    except MailTrouble as error:
        return fault(name, f"Can't read mails: {error}", HINT)
    if why := await sign_in(mail_server(options.smtp_url), user=options.login, password=password):
        return fault(name, f"Can't send mails: {why}", "check `smtp_url`, `login` and `token`")
    if options.authserv_id == "none":
        advice = "set `authserv_id` if your mail server checks senders"
        return note(name, f"connected as {options.address}; anyone can pretend to be a sender", advice)
    return ok(name, f"connected as {options.address}")
