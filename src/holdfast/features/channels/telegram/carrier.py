"""Brings deliveries to Telegram: as messages, as cards with buttons, and as changes of them."""

from typing import Any

from holdfast import events as e
from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    FormatRefused,
    MayHaveArrived,
    NoLongerNeeded,
    NotAccepted,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.cards import Card
from holdfast.features.channels.deliveries import PlatformFormat
from holdfast.features.channels.files_out import sendable_name
from holdfast.features.channels.messages import EDIT_ANSWER_S, Unanswered, Unwritten
from holdfast.features.channels.outbound import (
    GONE,
    UNNEEDED,
    ContentUnavailable,
    PreviewText,
    Prose,
    Unneeded,
    content_of,
)
from holdfast.features.channels.state import ChannelState
from holdfast.features.channels.telegram.api import (
    ANSWER_S,
    TelegramApi,
    TelegramFailure,
    TelegramReply,
    TelegramResult,
    Upload,
)
from holdfast.features.channels.telegram.html import (
    FORMAT,
    ROOM_FOR_MARKS,
    UNITS_MAX,
    escaped,
    plain_of,
    telegram_html,
    utf16_units,
)
from holdfast.features.channels.texts import MARK
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.journal import Blobs
from holdfast.runner.supervisor import Supervisor
from holdfast.values import SentFile

NOT_MODIFIED = "message is not modified"
PHOTO_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
PHOTO_BYTES_MAX = 10_000_000
CHAT_GONE = ("chat not found", "bot was kicked", "user is deactivated", "not enough rights to send")


def place_of(chat: str) -> dict[str, Any]:
    """The parameters that name a chat, or a topic of it."""
    chat_id, _, thread = chat.partition("/")
    return {"chat_id": int(chat_id), **({"message_thread_id": int(thread)} if thread else {})}


def keyboard(card: Card) -> dict[str, Any]:
    """A card's buttons, one to a row."""
    rows = [[{"text": label, "callback_data": data}] for label, data in card.buttons]
    return {"inline_keyboard": rows}


def card_html(card: Card) -> str:
    """A card's text."""
    pieces = [f"<b>{escaped(card.headline)}</b>"]
    if card.detail:
        pieces.append(f"<pre>{escaped(card.detail)}</pre>")
    pieces += [escaped(note) for note in card.notes]
    return "\n".join(pieces)


def card_fits(card: Card) -> bool:
    """Whether one message shows all of a card."""
    return utf16_units(plain_of(card_html(card))) <= UNITS_MAX - ROOM_FOR_MARKS


DIALECT = PlatformFormat(count=lambda text: len(telegram_html(text)), fits=card_fits, format=FORMAT)


class TelegramCarrier:
    """Sends with one bot; words of a session are read from its log when they are sent."""

    def __init__(self, api: TelegramApi, supervisor: Supervisor, state: ChannelState, blobs: Blobs) -> None:
        self._api = api
        self._supervisor = supervisor
        self._state = state
        self._blobs = blobs

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send it."""
        intended = delivery.intended
        request = await self._request(intended)
        if isinstance(request, NotAccepted | NoLongerNeeded):
            return request
        if isinstance(request, SentFile):
            return await self._send_file(delivery, request, mark=f"{MARK}\n" if is_marked else "")
        method, parameters = request
        if is_marked:
            parameters["text"] = f"{escaped(MARK)}\n{parameters['text']}"
        if delivery.is_plain:
            del parameters["parse_mode"]
            parameters["text"] = plain_of(parameters["text"])
        answer_s = ANSWER_S if delivery.is_new else EDIT_ANSWER_S
        return self._named(_result(await self._api.call(method, parameters, answer_s=answer_s)))

    def _named(self, result: SendResult) -> SendResult:
        """The same, with the number of a message as one of this bot's."""
        return Arrived(self._state.of_account(result.platform_id)) if isinstance(result, Arrived) else result

    async def _send_file(self, delivery: OutboxEntry, file: SentFile, *, mark: str) -> SendResult:
        """Send it as a picture if it is one; if Telegram doesn't take it as such, as a document."""
        data = await self._blobs.blob(file.blob)
        if data is None:
            return NotAccepted(GONE)
        is_photo = file.media_type in PHOTO_TYPES and len(data) <= PHOTO_BYTES_MAX and not delivery.is_plain
        method, field = ("sendPhoto", "photo") if is_photo else ("sendDocument", "document")
        caption = f"{mark}{file.caption}".strip()
        parameters = place_of(delivery.intended.chat) | ({"caption": caption} if caption else {})
        upload = Upload(field, sendable_name(file.name), file.media_type, data)
        return self._named(_result(await self._api.upload(method, parameters, upload)))

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Telegram has no way to look for a message."""
        del delivery
        return CannotTell()

    async def _request(
        self, intended: e.DeliveryIntended
    ) -> tuple[str, dict[str, Any]] | SentFile | NotAccepted | NoLongerNeeded:
        """The method and its parameters, or why there is nothing to send."""
        try:
            parameters = place_of(intended.chat)
        except ValueError:
            return NotAccepted(f"Telegram has no chat {intended.chat!r}")
        parameters |= {"parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}
        said = await content_of(self._supervisor, intended, text_format=DIALECT, outbox=self._state.outbox)
        match said:
            case Prose():
                texts = telegram_html(said.markdown)
                if said.part >= len(texts):
                    return NotAccepted(GONE)
                parameters["text"] = texts[said.part]
            case Card():
                parameters["text"] = card_html(said)
                parameters |= {"reply_markup": keyboard(said)} if said.buttons else {}
            case SentFile():
                return said
            case Unneeded():
                return NoLongerNeeded(UNNEEDED)
            case ContentUnavailable() | PreviewText():  # previews are drafts here, and no deliveries
                return NotAccepted(GONE)
        if not intended.edits:
            return "sendMessage", parameters | _replying(intended.reply_to)
        card = self._state.outbox.deliveries.get(intended.edits)
        number = self._state.numbered(card.platform_id) if card is not None else ""
        if not number:
            return NotAccepted("the message to edit doesn't exist or belongs to another bot")
        parameters.pop("message_thread_id", None)
        return "editMessageText", parameters | {"message_id": int(number)}


def _replying(message_id: str) -> dict[str, Any]:
    """The parameters of an answer to a message, if it is one."""
    if not message_id:
        return {}
    return {"reply_parameters": {"message_id": int(message_id), "allow_sending_without_reply": True}}


def _result(reply: TelegramReply) -> SendResult:
    """Classify a reply about a message."""
    match reply:
        case TelegramResult(value=value):
            sent: dict[str, Any] = value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
            return Arrived(str(sent.get("message_id", "")))
        case Unwritten(why=why):
            return DidNotArrive(why)
        case Unanswered(why=why):
            return MayHaveArrived(why)
        case TelegramFailure() as failure:
            return _refusal(failure)


def _refusal(failure: TelegramFailure) -> SendResult:
    if NOT_MODIFIED in failure.text:
        return Arrived("")
    match failure.code:
        case 429:
            return DidNotArrive(failure.text, failure.retry_after_s)
        case 401 | 404 | 409:
            return DidNotArrive(failure.text)  # the token, not the message: it is sent once that works again
        case 403:
            return NotAccepted(failure.text, ends_chat=True)
        case _ if any(one in failure.text for one in CHAT_GONE):
            return NotAccepted(failure.text, ends_chat=True)
        case 400:
            return FormatRefused(failure.text)
        case _:
            return NotAccepted(failure.text)
