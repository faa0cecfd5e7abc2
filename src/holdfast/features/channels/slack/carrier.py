"""Brings deliveries to Slack: as messages, cards with buttons, and changes of them; and finds them again.

Shares a file in a Slack conversation, and finds it there later. Slack accepts a file in three steps: get a
URL, upload the bytes, share the file. Only the last step is visible, so a failure before it restarts from the
beginning.
"""

import json
from collections.abc import Mapping
from typing import Any

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
from holdfast.features.channels.deliveries import ANSWER, ENDING, FILE, PlatformFormat, message_key
from holdfast.features.channels.files_out import FileContent, file_content, rejection_text
from holdfast.features.channels.messages import EDIT_ANSWER_S, UNREADABLE, Unanswered, Unwritten, shaped
from holdfast.features.channels.outbound import (
    GONE,
    UNNEEDED,
    ContentUnavailable,
    PreviewText,
    Prose,
    Unneeded,
    content_of,
)
from holdfast.features.channels.slack.api import (
    SlackApi,
    SlackDone,
    SlackFailure,
    SlackReply,
    listed_in,
    next_cursor,
)
from holdfast.features.channels.slack.blocks import (
    FORMAT,
    SlackMessage,
    card_fits,
    card_message,
    plain_message,
    slack_messages,
)
from holdfast.features.channels.slack.replies import APP_TROUBLE, sent_as, unasked
from holdfast.features.channels.texts import MARK, with_lead
from holdfast.folds.outbox import Outbox, OutboxEntry
from holdfast.interfaces.journal import Blobs
from holdfast.runner.supervisor import Supervisor
from holdfast.values import SentFile

# The app can't send files, but can send a notice.
LACKS_PERMISSION = frozenset({"missing_scope", "no_permission", "access_denied"})
HINT = "If this happens with every file, add the scope `files:write` to the app."
UNCLEAR = "file_update_failed"  # Slack's error code for an internal failure while sharing


async def share(api: SlackApi, place: Mapping[str, str], file: FileContent, *, is_marked: bool) -> SendResult:
    """Bring a file to a conversation; it is confirmed under its own id, since Slack names no message."""
    asked = await api.call("files.getUploadURLExternal", {"filename": file.name, "length": len(file.data)})
    if not isinstance(asked, SlackDone):
        return _before_sharing(asked)
    file_id = str(asked.value.get("file_id", ""))
    brought = await api.upload(str(asked.value.get("upload_url", "")), file.data)
    if not isinstance(brought, SlackDone):
        return _before_sharing(brought)
    arguments = {
        "files": json.dumps([{"id": file_id, "title": file.name}]),
        "channel_id": place["channel"],
        **({"thread_ts": place["thread_ts"]} if "thread_ts" in place else {}),
        **_caption(file, is_marked=is_marked),
    }
    return _shared(file_id, await api.call("files.completeUploadExternal", arguments))


def in_place_of(file: FileContent) -> SlackMessage:
    """Return the notice for a rejected file."""
    return plain_message(f"{rejection_text(file, 'Slack')} {HINT}")


def shared_in(message: Mapping[str, Any], file: FileContent, *, bot: str) -> str:
    """The id of the file, if the message is one in which the bot shared one like this; else empty."""
    files = shaped(message.get("files") or [], list[dict[str, Any]]) or []
    is_it = [one.get("size") for one in files] == [len(file.data)] and message.get("user") == bot
    return str(files[0].get("id", "")) if is_it else ""


def _caption(file: FileContent, *, is_marked: bool) -> dict[str, str]:
    """The words above a file, as rich text: an `initial_comment` would be read for markup."""
    text = f"{MARK if is_marked else ''}\n{file.caption}".strip()
    return {"blocks": json.dumps(list(plain_message(text).blocks))} if text else {}


def _before_sharing(reply: SlackReply) -> SendResult:
    """Return the outcome of a failure before the file was shared."""
    match reply:
        case Unwritten(why=why) | Unanswered(why=why):
            return DidNotArrive(why)
        case SlackFailure():
            return _refused(reply)
        case SlackDone():
            raise AssertionError("that went well")


def _shared(file_id: str, reply: SlackReply) -> SendResult:
    match reply:
        case SlackDone():
            return Arrived(file_id)
        case SlackFailure(error=error) if error == UNCLEAR:
            return MayHaveArrived(error)
        case SlackFailure():
            return _refused(reply)
        case Unwritten() | Unanswered():
            return sent_as(reply)


def _refused(failure: SlackFailure) -> SendResult:
    """Replace a rejected file with a text, which is rejected permanently if the chat no longer exists."""
    is_for_later = failure.error == "ratelimited" or failure.error in APP_TROUBLE - LACKS_PERMISSION
    return sent_as(failure) if is_for_later else FormatRefused(failure.error)


LEAD = "!"  # Slack keeps what begins with `/` for itself
EVENT_TYPE = "holdfast_delivery"
PAGE, PAGES_MAX = 200, 5
SKEW_S = 600  # how far Slack's clock may be from ours
EDIT_ERRORS = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "cant_edit", "update_failed"}
)


class _Metadata(msgspec.Struct):
    event_type: str = ""
    event_payload: dict[str, Any] = {}


def place_of(chat: str) -> dict[str, str]:
    """The arguments that name a conversation, or a thread of it."""
    channel, _, thread = chat.partition("/")
    return {"channel": channel, **({"thread_ts": thread} if thread else {})}


DIALECT = PlatformFormat(
    count=lambda text: len(slack_messages(text)), fits=card_fits, lead=LEAD, format=FORMAT
)


class SlackCarrier:
    """Sends with one app; words of a session are read from its log when they are sent."""

    def __init__(self, api: SlackApi, supervisor: Supervisor, outbox: Outbox, blobs: Blobs) -> None:
        self._api = api
        self._supervisor = supervisor
        self._outbox = outbox
        self._blobs = blobs

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send it, as a new message, a change or a removal."""
        intended = delivery.intended
        target = "" if delivery.is_new else self._target(intended)
        if not delivery.is_new and not target:
            return _cannot_edit(intended, "the message to edit doesn't exist")
        if intended.removes:
            place = {"channel": place_of(intended.chat)["channel"], "ts": target}
            return _removed(await self._api.call("chat.delete", place, answer_s=EDIT_ANSWER_S))
        words = await self._words(intended)
        if isinstance(words, FileContent):
            if not delivery.is_plain:
                return await share(self._api, place_of(intended.chat), words, is_marked=is_marked)
            words = in_place_of(words)
        if not isinstance(words, SlackMessage):
            return words
        message = words.marked() if is_marked else words
        body = _content(delivery, SlackMessage(message.text) if delivery.is_plain else message)
        if target:
            change = _edit_of(intended, target, body)
            return _edited(intended, await self._api.call("chat.update", change, answer_s=EDIT_ANSWER_S))
        return sent_as(await self._api.call("chat.postMessage", place_of(intended.chat) | body))

    async def show(self, preview: OutboxEntry, text: str) -> SendResult:
        """Change a preview to this text."""
        body = _content(preview, plain_message(text))
        change = _edit_of(preview.intended, preview.platform_id, body)
        reply = await self._api.call("chat.update", change, answer_s=EDIT_ANSWER_S)
        return _edited(preview.intended, reply)

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Look for the message in its conversation: by the key that it carries, or by its file."""
        file, bot = await self._file(delivery.intended), ""
        if file is not None:
            me = await self._api.call("auth.test")
            if not isinstance(me, SlackDone):
                return unasked(me)
            bot = str(me.value.get("user_id", ""))
        known = {one.platform_id for one in self._outbox.deliveries.values()}
        method, arguments = _listing(delivery.intended)
        for _ in range(PAGES_MAX):
            reply = await self._api.call(method, arguments)
            if not isinstance(reply, SlackDone):
                return unasked(reply)
            listed = listed_in(reply.value)
            if listed is None:
                return DidNotArrive(UNREADABLE)
            for message in listed:
                if _key_of(message) == delivery.key:
                    return FoundThere(str(message.get("ts", "")))
                shared = shared_in(message, file, bot=bot) if file is not None else ""
                if shared and shared not in known:
                    return FoundThere(shared)
            arguments["cursor"] = next_cursor(reply.value)
            if not arguments["cursor"]:
                return NotThere()
        return CannotTell()

    async def _file(self, intended: e.DeliveryIntended) -> FileContent | None:
        """The file that the delivery brings, if it brings one and has its bytes."""
        words = await self._words(intended) if message_key(intended) == FILE else None
        return words if isinstance(words, FileContent) else None

    def _target(self, intended: e.DeliveryIntended) -> str:
        """The id of the message that this changes; empty if there is none."""
        edited = self._outbox.deliveries.get(intended.edits)
        return edited.platform_id if edited is not None else ""

    async def _words(
        self, intended: e.DeliveryIntended
    ) -> SlackMessage | FileContent | NotAccepted | NoLongerNeeded:
        said = await content_of(self._supervisor, intended, text_format=DIALECT, outbox=self._outbox)
        match said:
            case Prose():
                messages = slack_messages(said.markdown)
                return messages[said.part] if said.part < len(messages) else NotAccepted(GONE)
            case Card():
                notes = tuple(with_lead(note, LEAD) for note in said.notes)
                return card_message(Card(said.headline, said.detail, notes, said.buttons))
            case SentFile():
                return await file_content(self._blobs, said) or NotAccepted(GONE)
            case PreviewText():
                return plain_message(said.text)
            case ContentUnavailable():
                return NotAccepted(GONE)
            case Unneeded():
                return NoLongerNeeded(UNNEEDED)


def _content(delivery: OutboxEntry, message: SlackMessage) -> dict[str, Any]:
    """Build a message with its key, without mentions and link previews."""
    metadata = {"event_type": EVENT_TYPE, "event_payload": {"key": delivery.key}}
    fields: dict[str, Any] = {
        "text": message.text,
        "metadata": metadata,
        "parse": "none",
        "link_names": False,
    }
    if delivery.is_new:
        fields |= {"unfurl_links": False, "unfurl_media": False, "mrkdwn": bool(message.blocks)}
    return fields | ({"blocks": list(message.blocks)} if message.blocks else {})


def _edit_of(intended: e.DeliveryIntended, ts: str, body: Mapping[str, Any]) -> dict[str, Any]:
    # An edit without blocks leaves those that are there, unless they are emptied.
    return {"blocks": [], **body, "channel": place_of(intended.chat)["channel"], "ts": ts}


def _listing(intended: e.DeliveryIntended) -> tuple[str, dict[str, Any]]:
    """The method that lists the messages among which a delivery would be, and its arguments."""
    place = place_of(intended.chat)
    oldest = max(0.0, intended.at_ms / 1000 - SKEW_S)
    arguments: dict[str, Any] = {
        "channel": place["channel"],
        "oldest": f"{oldest:.6f}",
        "limit": PAGE,
        "include_all_metadata": True,
    }
    if "thread_ts" in place:
        return "conversations.replies", arguments | {"ts": place["thread_ts"]}
    return "conversations.history", arguments


def _key_of(message: Mapping[str, Any]) -> str:
    metadata = shaped(message.get("metadata"), _Metadata) or _Metadata()
    return str(metadata.event_payload.get("key", "")) if metadata.event_type == EVENT_TYPE else ""


def _edited(intended: e.DeliveryIntended, reply: SlackReply) -> SendResult:
    if isinstance(reply, SlackFailure) and reply.error in EDIT_ERRORS:
        return _cannot_edit(intended, reply.error)
    return sent_as(reply)


def _cannot_edit(intended: e.DeliveryIntended, why: str) -> SendResult:
    """Return the outcome of editing a missing message: only answers are resent."""
    if intended.removes:
        return Arrived("")
    return EditRefused(why) if message_key(intended) in {ANSWER, ENDING} else NotAccepted(why)


def _removed(reply: SlackReply) -> SendResult:
    is_gone = isinstance(reply, SlackFailure) and reply.error == "message_not_found"
    return Arrived("") if is_gone else sent_as(reply)
