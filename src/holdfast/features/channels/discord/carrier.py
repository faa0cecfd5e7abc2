"""Brings deliveries to Discord: as messages, as cards with buttons, and as changes of them.

How far a gateway session is accepted: everything up to this sequence is on the log.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from holdfast import events as e
from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    EditRefused,
    FormatRefused,
    FoundThere,
    MayHaveArrived,
    NoLongerNeeded,
    NotAccepted,
    NotThere,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.cards import Card
from holdfast.features.channels.deliveries import PlatformFormat, message_key
from holdfast.features.channels.discord.api import (
    DiscordApi,
    DiscordFailure,
    DiscordReply,
    DiscordResult,
    message_at,
    messages_of,
)
from holdfast.features.channels.discord.markdown import (
    FORMAT,
    ROOM_FOR_MARKS,
    UNITS_MAX,
    code_block,
    cut_to,
    discord_draft,
    discord_markdown,
    escaped,
    utf16_units,
)
from holdfast.features.channels.files_out import FileContent, file_content, rejection_text, too_big
from holdfast.features.channels.messages import EDIT_ANSWER_S, Unanswered, Unwritten, shaped
from holdfast.features.channels.outbound import (
    GONE,
    UNNEEDED,
    ContentUnavailable,
    PreviewText,
    Prose,
    Unneeded,
    content_of,
)
from holdfast.features.channels.texts import MARK
from holdfast.folds.outbox import Outbox, OutboxEntry
from holdfast.interfaces.journal import Blobs, Store
from holdfast.runner.supervisor import Supervisor
from holdfast.values import SentFile

FILE_BYTES_MAX = 10 * 1024 * 1024  # for a bot in a chat without a paid plan
NONCE_CHARS = 25
LABEL_CHARS_MAX = 80
BUTTONS_IN_ROW, ROWS_MAX = 5, 5
PROBED = 100  # the newest messages of a chat, where one that was sent moments ago is looked for
SKEW_MS = 600_000  # how far Discord's clock and ours may differ
DISCORD_EPOCH_MS = 1_420_070_400_000
SUPPRESS_EMBEDS = 1 << 2
SILENT: Mapping[str, Any] = {"parse": []}  # no mention in a text notifies anyone
UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
MISSING_ACCESS, NOT_TO_THIS_USER, CANNOT_SEND, MISSING_PERMISSIONS = 50001, 50007, 50008, 50013
ARCHIVED = 50083
CHAT_ENDS = frozenset(
    {UNKNOWN_CHANNEL, MISSING_ACCESS, NOT_TO_THIS_USER, CANNOT_SEND, MISSING_PERMISSIONS, ARCHIVED}
)
Content: TypeAlias = Prose | Card | FileContent | PreviewText | ContentUnavailable | Unneeded
_STYLES = {"deny": 4, "once": 3}  # red, green; others are grey


class _Author(msgspec.Struct):
    id: str


class _Attached(msgspec.Struct):
    size: int = 0


class _Component(msgspec.Struct):
    custom_id: str = ""
    components: list["_Component"] = []


class _Listed(msgspec.Struct):
    """A message as Discord lists it."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,20}$")]
    author: _Author
    content: str = ""
    attachments: list[_Attached] = []
    components: list[_Component] = []


def nonce_of(log_id: str, key: str) -> str:
    """The same text each time that the same delivery is sent; Discord makes one message of it."""
    return urlsafe_b64encode(sha256(f"{log_id}/{key}".encode()).digest()).decode()[:NONCE_CHARS]


def card_content(card: Card) -> str:
    """A card's text."""
    detail = code_block(card.detail) if card.detail else ""
    pieces = (f"**{escaped(card.headline)}**", detail, escaped("\n".join(card.notes)))
    return "\n".join(piece for piece in pieces if piece)


def card_fits(card: Card) -> bool:
    """Whether one message shows all of a card."""
    has_room = len(card.buttons) <= BUTTONS_IN_ROW * ROWS_MAX
    return has_room and utf16_units(card_content(card)) <= UNITS_MAX - ROOM_FOR_MARKS


DIALECT = PlatformFormat(count=lambda text: len(discord_markdown(text)), fits=card_fits, format=FORMAT)


def components(card: Card) -> list[dict[str, Any]]:
    """A card's buttons, in rows of five."""
    buttons = [
        {
            "type": 2,
            "style": _STYLES.get(data.rpartition(":")[2], 2),
            "label": label[:LABEL_CHARS_MAX] or "…",
            "custom_id": data,
        }
        for label, data in card.buttons
    ]
    rows = range(0, len(buttons), BUTTONS_IN_ROW)
    return [{"type": 1, "components": buttons[at : at + BUTTONS_IN_ROW]} for at in rows]


class DiscordCarrier:
    """Sends with one bot; words of a session are read from its log when they are sent."""

    def __init__(
        self, api: DiscordApi, supervisor: Supervisor, outbox: Outbox, blobs: Blobs, *, log_id: str
    ) -> None:
        self._api = api
        self._supervisor = supervisor
        self._outbox = outbox
        self._blobs = blobs
        self._log_id = log_id

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send it."""
        intended = delivery.intended
        if intended.removes:
            return await self._remove(intended)
        said = await self._said(intended)
        body = _body(delivery, said)
        if not isinstance(body, dict):
            return body
        if is_marked:
            body["content"] = f"{escaped(MARK)}\n{body['content']}".strip()
        if not delivery.is_new:
            return await self._edit(intended, body)
        body |= {"nonce": self._nonce(delivery), "enforce_nonce": True}
        if intended.reply_to:
            body["message_reference"] = {"message_id": intended.reply_to, "fail_if_not_exists": False}
        if isinstance(said, FileContent) and not _in_place_of(said, delivery):
            return file_sent_as(await self._api.upload(messages_of(intended.chat), body, said))
        return sent_as(await self._api.call(messages_of(intended.chat), body))

    def _nonce(self, delivery: OutboxEntry) -> str:
        return nonce_of(self._log_id, delivery.key)

    async def _said(self, intended: e.DeliveryIntended) -> Content:
        said = await content_of(self._supervisor, intended, text_format=DIALECT, outbox=self._outbox)
        if isinstance(said, SentFile):
            return await file_content(self._blobs, said) or ContentUnavailable()
        return said

    async def show(self, preview: OutboxEntry, text: str) -> SendResult:
        """Change what a preview shows."""
        body = {"content": discord_draft(text) or "…", "allowed_mentions": SILENT, "flags": SUPPRESS_EMBEDS}
        place = message_at(preview.intended.chat, preview.platform_id)
        return sent_as(await self._api.call(place, body, answer_s=EDIT_ANSWER_S))

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Look for it among the newest messages: one of ours that no other delivery is."""
        reply = await self._newest(delivery.intended.chat)
        if not isinstance(reply, list):
            return reply
        said = await self._said(delivery.intended)
        after = self._after(delivery)
        known = {one.platform_id for one in self._outbox.deliveries.values()}
        for message in reply:
            is_candidate = int(message.id) > after and message.id not in known
            if is_candidate and message.author.id == self._api.bot_id and _says(message, said, delivery):
                return FoundThere(message.id)
        return NotThere()

    async def _newest(self, chat: str) -> list[_Listed] | ProbeResult:
        """The newest messages of a chat, or what follows from not getting them."""
        reply = await self._api.who_am_i()
        if isinstance(reply, DiscordResult):
            query = {"limit": str(PROBED)}
            reply = await self._api.call(messages_of(chat, method="GET"), query=query)
        match reply:
            case DiscordResult(value=value) if (listed := shaped(value, list[_Listed])) is not None:
                return listed
            case DiscordFailure(code=code) if code == UNKNOWN_CHANNEL:
                return NotThere()
            case DiscordFailure(status=401 | 429) as failure:
                return DidNotArrive(failure.text, failure.retry_after_s)
            case DiscordFailure() | DiscordResult():
                return CannotTell()  # not possible without the permission to read the history
            case Unwritten(why=why) | Unanswered(why=why):
                return DidNotArrive(why)

    def _after(self, delivery: OutboxEntry) -> int:
        """The id that a message of this delivery is certainly greater than."""
        before = [
            int(one.platform_id)
            for one in self._outbox.deliveries.values()
            if one.intended.chat == delivery.intended.chat
            and one.platform_id
            and one.settled_seq < delivery.seq
        ]
        from_ms = delivery.intended.at_ms - SKEW_MS - DISCORD_EPOCH_MS
        return max([*before, 0]) if before else max(0, from_ms) << 22

    async def _remove(self, intended: e.DeliveryIntended) -> SendResult:
        removed = self._outbox.deliveries.get(intended.edits)
        if removed is None or not removed.platform_id:
            return Arrived("")
        place = message_at(intended.chat, removed.platform_id, method="DELETE")
        reply = await self._api.call(place, answer_s=EDIT_ANSWER_S)
        if isinstance(reply, DiscordFailure) and reply.code in {UNKNOWN_MESSAGE, UNKNOWN_CHANNEL}:
            return Arrived("")
        return sent_as(reply)

    async def _edit(self, intended: e.DeliveryIntended, body: dict[str, Any]) -> SendResult:
        changed = self._outbox.deliveries.get(intended.edits)
        is_card = "components" in body
        if changed is None or not changed.platform_id:
            why = "the message to edit doesn't exist"
            return NotAccepted(why) if is_card else EditRefused(why)
        reply = await self._api.call(
            message_at(intended.chat, changed.platform_id), {"components": [], **body}, answer_s=EDIT_ANSWER_S
        )
        if isinstance(reply, DiscordFailure) and not is_card and _is_about_message(reply):
            return EditRefused(reply.text)
        return sent_as(reply)


def _body(delivery: OutboxEntry, said: Content) -> dict[str, Any] | NotAccepted | NoLongerNeeded:
    """Return the content of the message, or why there is nothing to send."""
    chat = delivery.intended.chat
    if not chat.isdigit():
        return NotAccepted(f"Discord has no channel {chat!r}")
    body: dict[str, Any] = {"allowed_mentions": SILENT, "flags": SUPPRESS_EMBEDS}
    match said:
        case Prose():
            texts = discord_markdown(said.markdown)
            if said.part >= len(texts):
                return NotAccepted(GONE)
            return body | {"content": texts[said.part]}
        case Card():
            return body | {"content": card_content(said), "components": components(said)}
        case FileContent():
            caption = cut_to(said.caption, UNITS_MAX - ROOM_FOR_MARKS, escaped)
            return body | {"content": _in_place_of(said, delivery) or caption}
        case PreviewText():
            return body | {"content": discord_draft(said.text) or "…"}
        case ContentUnavailable():
            return NotAccepted(GONE)
        case Unneeded():
            return NoLongerNeeded(UNNEEDED)


def _in_place_of(file: FileContent, delivery: OutboxEntry) -> str:
    """Return the notice that replaces a file Discord would reject; empty if it may accept it."""
    if len(file.data) > FILE_BYTES_MAX:
        return escaped(too_big(file, "Discord", bytes_max=FILE_BYTES_MAX))
    return escaped(rejection_text(file, "Discord")) if delivery.is_plain else ""


def _says(message: _Listed, said: Content, delivery: OutboxEntry) -> bool:
    """Whether a message is what an attempt of this delivery brought there."""
    content = message.content.strip().removeprefix(escaped(MARK)).strip()
    match said:
        case Prose():
            texts = discord_markdown(said.markdown)
            return said.part < len(texts) and content == texts[said.part].strip()
        case Card():
            ask_id = message_key(delivery.intended)
            has_buttons = any(f":{ask_id}:" in one for one in _custom_ids(message))
            return has_buttons or content == card_content(said)
        case FileContent():
            return _brings(message, said) or content == (_in_place_of(said, delivery) or None)
        case PreviewText() | Unneeded():
            return True  # its words have changed since; nothing else was sent to the chat meanwhile
        case ContentUnavailable():
            return False


def _brings(message: _Listed, file: FileContent) -> bool:
    """Whether a message has the file; Discord changes names, so that its size has to do."""
    return [one.size for one in message.attachments] == [len(file.data)]


def _custom_ids(message: _Listed) -> Iterator[str]:
    for row in message.components:
        for button in row.components:
            yield button.custom_id


def _is_about_message(failure: DiscordFailure) -> bool:
    """Whether it is this message that can't be changed, and another could be sent."""
    return failure.status not in {401, 429} and failure.code not in CHAT_ENDS


def sent_as(reply: DiscordReply) -> SendResult:
    """Classify a reply about a message."""
    match reply:
        case DiscordResult(value=value):
            sent = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            return Arrived(str(sent.get("id", "")))
        case Unwritten(why=why):
            return DidNotArrive(why)
        case Unanswered(why=why):
            return MayHaveArrived(why)
        case DiscordFailure() as failure:
            return _refusal(failure)


def file_sent_as(reply: DiscordReply) -> SendResult:
    """Classify a reply about a file. A rejected file is replaced with a text, which needs no permission."""
    if isinstance(reply, DiscordFailure) and (_is_about_message(reply) or reply.code == MISSING_PERMISSIONS):
        return FormatRefused(reply.text)
    return sent_as(reply)


def _refusal(failure: DiscordFailure) -> SendResult:
    match failure.status:
        case 429:
            return DidNotArrive(failure.text, failure.retry_after_s)
        case 401:
            return DidNotArrive(failure.text)  # the token, not the message: it is sent once that works again
        case _:
            return NotAccepted(failure.text, ends_chat=failure.code in CHAT_ENDS)


class ResumePoint(msgspec.Struct, frozen=True):
    """From where a session can be resumed, also by another process."""

    session_id: str
    url: str
    seq: int


class Progress:
    """The events of one session that came in; its sequence moves only past those that were accepted."""

    def __init__(self, session_id: str, url: str, seq: int) -> None:
        self.session_id = session_id
        self.url = url
        self._floor = seq  # it can be resumed from here at the earliest
        self._newest = seq
        self._open: dict[int, int] = {}  # sequence -> how much of it is still to be accepted

    def begin(self, seq: int, parts: int = 1) -> None:
        """An event came in."""
        self._newest = max(self._newest, seq)
        if parts:
            self._open[seq] = self._open.get(seq, 0) + parts

    def end(self, seq: int) -> None:
        """One part of it is on the log."""
        left = self._open.get(seq, 0) - 1
        if left > 0:
            self._open[seq] = left
        else:
            self._open.pop(seq, None)

    @property
    def is_taken(self) -> bool:
        """Whether a process that knows nothing else can resume: the beginning itself was accepted."""
        return self._taken >= self._floor

    @property
    def _taken(self) -> int:
        return min(self._open) - 1 if self._open else self._newest

    @property
    def point(self) -> ResumePoint:
        """From where to resume."""
        return ResumePoint(self.session_id, self.url, max(self._floor, self._taken))


class KeptProgress:
    """The resume point as a note: losing it costs a look at the history, never a message."""

    def __init__(self, store: Store, log_id: str) -> None:
        self._store = store
        self._key = f"session/{log_id}/gateway"

    async def load(self) -> ResumePoint | None:
        """The point that was kept last."""
        found = await self._store.note(self._key)
        if not found:
            return None
        try:
            return msgspec.json.decode(found, type=ResumePoint)
        except msgspec.MsgspecError:
            return None  # another version wrote it

    async def keep(self, point: ResumePoint) -> None:
        """Remember it."""
        await self._store.put_note(self._key, msgspec.json.encode(point))

    async def drop(self) -> None:
        """Forget it."""
        await self._store.drop_note(self._key)
