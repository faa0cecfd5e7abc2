"""Processes updates: append, then acknowledge. Duplicates are ignored."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.catalog import FEATURES
from holdfast.features.channels.approvals import DONE, NOT_YOURS, Answerer, ChannelAsks
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_commands import ChatCommands, command_of, next_session
from holdfast.features.channels.deliveries import PlatformFormat
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.events import (
    ChannelChatBound,
    ChannelCodeTried,
    ChannelUpdateLogged,
    ChannelUserAllowed,
    UpdateBecame,
)
from holdfast.features.channels.incoming import (
    Arrival,
    ButtonPress,
    ChatFile,
    MessageDeletion,
    PlatformMessage,
)
from holdfast.features.channels.modes import apply_configured_mode
from holdfast.features.channels.people import looks_like_code, may_talk
from holdfast.features.channels.state import code_digest
from holdfast.features.channels.store_errors import BROKEN, OF_ONE_LOG, is_transient
from holdfast.features.channels.texts import (
    ALREADY_PAIRED,
    CODE_WRONG,
    EDIT_OF_OTHER,
    EDIT_TOO_LONG,
    FILE_LOST,
    FILE_TOO_BIG,
    NOT_ACCEPTED,
    PAIRED,
    QUEUE_FULL,
    REFUSAL,
    TAKEN_OUT,
    TEXT_TOO_LONG,
    TOO_LATE_TO_DELETE,
    TOO_LATE_TO_EDIT,
    choice_of,
    coded,
    pressed,
    with_lead,
)
from holdfast.folds.inputs import MessageState
from holdfast.interfaces.feature import Expansion, UserCommands
from holdfast.interfaces.journal import IdempotencyKey, KeyConflict, Replayed
from holdfast.models.parts import IMAGE_TYPES
from holdfast.racing import is_about
from holdfast.runner.inbox import IncomingMessage, NotSent, OnceFor, Sent
from holdfast.safe_text import safe_line
from holdfast.values import FilePart, ImagePart, Part

_log = logging.getLogger(__name__)
KEPT_MS = 7 * 86_400_000  # longer than any platform redelivers an update
TEXT_CHARS_MAX = 100_000

Download: TypeAlias = Callable[[ChatFile], Awaitable[bytes | None]]
AnswerClick: TypeAlias = Callable[[str, str], Awaitable[None]]  # the click, and the text to show


class Platform(Struct, frozen=True):
    """The platform functions needed to process updates."""

    download: Download
    answer_click: AnswerClick
    text_format: PlatformFormat
    takes_files: bool = False  # its carrier can deliver the agent's files
    counts_by_bot: bool = False  # its message ids aren't unique across bots
    leads: str = "/"  # command prefixes; our texts use the last one
    has_codes: bool = False  # people press buttons by replying with their codes
    answers_strangers: bool = True  # with one refusal; without, a stranger could be a forged address


class _NotAccepted(Exception):
    """A message that can't be accepted. The text explains why to its sender."""


class ChannelIntake:
    """Converts updates to messages, answers and commands, for one channel."""

    def __init__(
        self, deps: ChannelDeps, options: ChannelOptions, log: ChannelLog, platform: Platform
    ) -> None:
        self._deps = deps
        self._options = options
        self._channel = log
        self._platform = platform
        self._asks = ChannelAsks(deps, options, log.state, text_format=platform.text_format)
        self._commands = ChatCommands(deps, options, log.log_id, log.state, self._asks)
        # Chats are processed concurrently, but pairing codes are checked and used up one at a time.
        self._pairing = asyncio.Lock()

    async def accept(self, arrival: Arrival) -> None:
        """Process an update. On return, it's logged and can be acknowledged."""
        if self._platform.counts_by_bot:
            named = self._channel.state.of_account
            arrival = replace(arrival, key=named(arrival.key), platform_id=named(arrival.platform_id))
        if arrival.key in self._channel.state.keys:
            return
        try:
            await self._accept(arrival)
        except Exception as error:
            # Store errors are transient, so the update is redelivered. Any other error would repeat
            # forever and block everyone, because the platform sends nothing new before this is acknowledged.
            if is_transient(error):
                raise
            _log.exception("channel %s: %s can't be taken", self._channel.log_id, arrival.key)
            says = BROKEN if is_about(error, OF_ONE_LOG) else NOT_ACCEPTED
            await self._give_up(arrival, type(error).__name__, says=says)

    async def _give_up(self, arrival: Arrival, why: str, *, says: str) -> None:
        """Log that the update was ignored, and notify its sender."""
        is_known = may_talk(self._options, self._channel.state, arrival.user)
        is_said = is_known and isinstance(arrival, PlatformMessage) and self._is_ours(arrival)
        try:
            await self._record(arrival, "ignored", says=says if is_said else "", why=f"failed: {why}")
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("channel %s: nor can %s be put on the log", self._channel.log_id, arrival.key)

    async def _accept(self, arrival: Arrival) -> None:
        if isinstance(arrival, MessageDeletion):
            await self._delete(arrival)
            return
        if await self._is_about_pairing(arrival):
            return
        if isinstance(arrival, ButtonPress):
            await self._press(arrival)
        elif not self._is_ours(arrival):
            return  # a group's own conversation: nothing is stored, and a redelivery is harmless
        elif len(arrival.text) > TEXT_CHARS_MAX:
            too_long = (EDIT_TOO_LONG if arrival.is_edit else TEXT_TOO_LONG).format(chars=TEXT_CHARS_MAX)
            await self._record(arrival, "ignored", says=too_long, why="too long")
        elif arrival.is_edit:
            await self._edit(arrival)
        elif self._platform.has_codes and (button := await self._coded(arrival)) is not None:
            await self._reply_code(arrival, button)
        elif (command := command_of(arrival.text, leads=self._platform.leads)) is not None:
            await self._command(arrival, command)
        else:
            await self._message(arrival)

    async def _is_about_pairing(self, arrival: PlatformMessage | ButtonPress) -> bool:
        """Handle pairing codes and messages from people without access. Returns False for all others."""
        is_stranger = not may_talk(self._options, self._channel.state, arrival.user)
        if isinstance(arrival, ButtonPress):
            if is_stranger:
                await self._platform.answer_click(arrival.click, NOT_YOURS)
            return is_stranger
        if not is_stranger and self._said_code(arrival) is None:
            return False
        async with self._pairing:
            # The code may have been used, or its sender granted access, in the meantime.
            if not may_talk(self._options, self._channel.state, arrival.user):
                await self._stranger(arrival)
                return True
            if (code := self._said_code(arrival)) is None:
                return False
            # The code is a secret: no model reads it, and once it was sent, no one else can use it.
            tried = ChannelCodeTried(at_ms=self._deps.clock.now_ms(), user=arrival.user, code=code)
            await self._record(arrival, "command", tried, says=ALREADY_PAIRED)
            return True

    def _said_code(self, message: PlatformMessage) -> str | None:
        """Return the open code in a message from a person with access, or None."""
        return self._open_code(message) if self._is_ours(message) and not message.is_edit else None

    def _is_ours(self, message: PlatformMessage) -> bool:
        if message.is_direct:
            return True
        match self._options.groups:
            case "off":
                return False
            case "mention":
                return message.is_for_us
            case "all":
                return True

    async def _stranger(self, arrival: PlatformMessage) -> None:
        """Handle a person without access: a pairing code grants it; otherwise they get one refusal.

        The caller holds the pairing lock, so that the check and the change are atomic.
        """
        state, now_ms = self._channel.state, self._deps.clock.now_ms()
        if not arrival.is_for_us or arrival.is_edit:
            return
        if arrival.is_direct and (code := self._open_code(arrival)) is not None:
            allowed = ChannelUserAllowed(
                at_ms=now_ms, user=arrival.user, name=arrival.name, role="approver", by="code", code=code
            )
            await self._record(arrival, "command", allowed, says=PAIRED)
            return
        has_codes = bool(state.open_codes(now_ms))
        is_try = arrival.is_direct and has_codes and looks_like_code(arrival.text)
        tried = [ChannelCodeTried(at_ms=now_ms, user=arrival.user)] if is_try else []
        is_told = arrival.user in state.refused
        if is_told and not is_try:
            return
        says = CODE_WRONG if is_try else REFUSAL
        await self._record(arrival, "refused", *tried, says=says if self._platform.answers_strangers else "")

    def _open_code(self, message: PlatformMessage) -> str | None:
        """Return the digest of the message's pairing code, or None if it isn't a valid one."""
        digest = code_digest(self._channel.log_id, message.text)
        return digest if digest in self._channel.state.open_codes(self._deps.clock.now_ms()) else None

    async def _press(self, press: ButtonPress) -> None:
        found = pressed(press.data)
        text = "This button isn't supported."
        if found is not None:
            who = Answerer(press.user, press.name, press.chat, is_direct=press.is_direct)
            text = await self._asks.settle(found[0], found[1], who)
        await self._record(press, "answer", why=text)
        await self._platform.answer_click(press.click, text)

    async def _coded(self, message: PlatformMessage) -> tuple[str, str] | None:
        """Return the request and the choice that a reply's code names; None if it's no code of this chat."""
        found = coded(message.text)
        ask_id = self._channel.state.cards.get(message.chat, {}).get(found[0], "") if found else ""
        row = await self._deps.store.ask(ask_id) if ask_id else None
        choice = choice_of(row.kind, found[1]) if row is not None and found is not None else ""
        return (ask_id, choice) if choice else None

    async def _reply_code(self, message: PlatformMessage, button: tuple[str, str]) -> None:
        who = Answerer(message.user, message.name, message.chat, is_direct=message.is_direct)
        text = await self._asks.settle(*button, who)
        # The result of the request arrives as its own message.
        await self._record(message, "answer", says="" if text in DONE else text, why=text)

    async def _edit(self, message: PlatformMessage) -> None:
        """Apply an edit to a queued message. Other edits are ignored with a notice."""
        known = self._channel.state.accepted.get((message.chat, message.platform_id))
        if known is None:
            is_used = (message.chat, message.platform_id) in self._channel.state.used
            says = EDIT_OF_OTHER if is_used else ""
            await self._record(message, "ignored", says=says, why="not a queued message")
            return
        text = self._text_of(message)
        changed = await self._deps.inbox.edit(known.session_id, known.message_id, text)
        if changed is None:
            await self._record(message, "ignored", says=TOO_LATE_TO_EDIT, why="too late")
        else:
            await self._record(message, "edit")

    async def _delete(self, deletion: MessageDeletion) -> None:
        """Remove a deleted message from the queue, and notify the chat."""
        known = self._channel.state.accepted.get((deletion.chat, deletion.platform_id))
        if known is None:
            return  # not ours, and a redelivery is harmless
        removed = e.MessageRemoved(at_ms=self._deps.clock.now_ms(), message_id=known.message_id)
        await self._deps.inbox.change_message(known.session_id, removed)
        session = await self._deps.inbox.state(known.session_id)
        message = session.inbox.messages.get(known.message_id)
        # Check its state, because a crash may have happened between the removal and this append.
        if message is None or message.state is MessageState.REMOVED:
            await self._record(deletion, "edit", says=TAKEN_OUT, why="deleted while queued")
        else:
            is_at_work = known.message_id in self._channel.state.awaited
            says = TOO_LATE_TO_DELETE if is_at_work else ""
            await self._record(deletion, "ignored", says=says, why="deleted too late")

    async def _command(self, message: PlatformMessage, command: tuple[str, str]) -> None:
        who = Answerer(message.user, message.name, message.chat, is_direct=message.is_direct)
        done = await self._commands.carry_out(command, who, once=self._once(message))
        awaits = done.awaits
        await self._record(message, "command", *done.events, says=done.text, sent=awaits)

    async def _message(self, message: PlatformMessage) -> None:
        state = self._channel.state
        if not message.files and (answered := await self._answers_question(message)) is not None:
            await self._record(message, "answer", why=answered)
            return
        try:
            incoming = await self._incoming(message)
        except _NotAccepted as error:
            await self._record(message, "ignored", says=str(error), why="couldn't fetch its file")
            return
        session_id = state.sessions.get(message.chat, "")
        bound: list[e.Event] = []
        if not session_id or await self._is_gone(session_id):
            session_id = next_session(self._channel.log_id, state, message.chat)
            bound = [
                ChannelChatBound(at_ms=self._deps.clock.now_ms(), chat=message.chat, session_id=session_id)
            ]
        await apply_configured_mode(self._deps, self._options, session_id)
        sent = await self._send(session_id, incoming, self._once(message))
        if isinstance(sent, NotSent):
            await self._record(message, "ignored", *bound, says=QUEUE_FULL, why=sent.why)
            return
        if message.files:  # the run reads them at its next step, which starts with an answer
            await self._answers_question(message)
        became: UpdateBecame = "steer" if sent.mode == "steer" else "message"
        await self._record(message, became, *bound, sent=sent)

    async def _has_one_waiting(self, chat: str) -> bool:
        """Return whether an earlier message of the chat is queued; a later one mustn't overtake it."""
        session_id = self._channel.state.sessions.get(chat)
        if session_id is None:
            return False
        session = await self._deps.inbox.state(session_id)
        waiting = (session.inbox.messages[message_id] for message_id in session.inbox.queue)
        known = (self._channel.state.awaited.get(one.message_id) for one in waiting if not session.holds(one))
        return any(accepted is not None and accepted.chat == chat for accepted in known)

    async def _is_gone(self, session_id: str) -> bool:
        row = await self._deps.store.session(session_id)
        return row is not None and bool(row.purge_at_ms)

    async def _send(self, session_id: str, message: IncomingMessage, once: OnceFor) -> Sent | NotSent:
        """Send the message to the session. Idempotent."""
        sent = await self._deps.inbox.send(session_id, message, once=once)
        match sent:
            case Replayed(answer=answer):
                return msgspec.json.decode(answer, type=Sent)
            case KeyConflict():
                raise AssertionError("the key is made of the message itself")
            case _:
                return sent

    async def _answers_question(self, message: PlatformMessage) -> str | None:
        """Use the message as the answer if the agent is waiting for one."""
        asks = [ask.asked for ask in await self._asks.open_asks(*self._asking(message.chat))]
        questions = [asked for asked in asks if isinstance(asked, e.QuestionAsked)]
        who = Answerer(message.user, message.name, message.chat, message.key)
        sent = ", ".join(safe_line(file.name) for file in message.files)
        text = message.text or (f"(sent {sent})" if sent else "")
        if not questions or not text:
            return "Answered" if await self._asks.was_answered(who) else None
        newest = max(questions, key=lambda one: one.at_ms)  # it's the last one people see
        return await self._asks.reply(newest.question_id, text, who)

    def _asking(self, chat: str) -> list[str]:
        """Return the sessions whose questions a message answers: the chat's, and those of triggers.

        Questions of an earlier conversation are answered with buttons.
        """
        state = self._channel.state
        told = [one for one in state.awaited.values() if one.chat == chat and one.is_from_elsewhere]
        elsewhere = [one.session_id for one in told if state.chats.get(one.session_id) == chat]
        return [*([state.sessions[chat]] if chat in state.sessions else []), *dict.fromkeys(elsewhere)]

    async def _incoming(self, message: PlatformMessage) -> IncomingMessage:
        parts = [await self._part(file) for file in message.files]
        model = self._channel.state.models.get(message.chat, "")
        settings = self._options.run_settings
        made = await self._user_command(message.text)
        if made is not None:
            message = replace(message, text=made.text)
            model = made.model if made.model in self._deps.models() else model
            settings = replace(settings, plan_first=settings.plan_first or made.plan_first)
        return IncomingMessage(
            text=self._text_of(message),
            parts=tuple(parts),
            client_id=message.key,
            settings=replace(settings, model=model or settings.model, takes_files=self._platform.takes_files),
            source=self._options.kind,
            chat=f"{self._options.name}/{message.chat}",
            when_busy="queue" if await self._has_one_waiting(message.chat) else "steer",
        )

    async def _user_command(self, text: str) -> Expansion | None:
        """Return the message for a command that the user wrote; None if the text is none."""
        if not text.startswith(tuple(self._platform.leads)):
            return None
        name, _, rest = text[1:].partition(" ")
        workspace = Path(self._options.workspace or self._deps.workspace)
        for feature in FEATURES.values():
            if feature.user_commands:
                commands: UserCommands = feature.part(feature.user_commands)
                made = await commands.in_messenger(workspace, name.partition("@")[0].lower(), rest.strip())
                if made is not None:
                    return made
        return None

    async def _part(self, file: ChatFile) -> Part:
        """Store the file and return it as a part of the message."""
        limit = self._options.file_bytes_max
        if file.size_bytes > limit:
            raise _NotAccepted(FILE_TOO_BIG.format(mb=limit // (1024 * 1024)))
        data = file.data or await self._platform.download(file)
        if data is None:
            raise _NotAccepted(FILE_LOST)
        blob = await self._deps.store.put_blob(data)
        name = safe_line(file.name)[:255] or "file"
        if file.media_type in IMAGE_TYPES:
            return ImagePart(blob=blob, media_type=file.media_type, name=name)
        return FilePart(blob=blob, media_type=file.media_type[:255], name=name)

    def _text_of(self, message: PlatformMessage) -> str:
        """Return the text for the agent; in a group, with the sender's name."""
        return message.text if message.is_direct else f"{message.name}: {message.text}"

    def _once(self, message: PlatformMessage) -> OnceFor:
        key = sha256(f"{self._channel.log_id}/{message.key}".encode()).hexdigest()
        expires_ms = self._deps.clock.now_ms() + KEPT_MS

        def once(sent: Sent) -> IdempotencyKey:
            return IdempotencyKey(f"channel:{key}", key, msgspec.json.encode(sent), expires_ms)

        return once

    async def _record(
        self,
        arrival: Arrival,
        became: UpdateBecame,
        *events: e.Event,
        says: str = "",
        sent: Sent | None = None,
        why: str = "",
    ) -> None:
        """Log the outcome and the reply to the sender, in one append."""
        now_ms = self._deps.clock.now_ms()
        accepted = ChannelUpdateLogged(
            at_ms=now_ms,
            key=arrival.key,
            became=became,
            chat=arrival.chat,
            user=arrival.user,
            platform_id=arrival.platform_id,
            session_id=sent.session_id if sent else "",
            message_id=sent.message_id if sent else "",
            why=why,
            conversation=arrival.conversation if isinstance(arrival, PlatformMessage) else "",
        )
        body = with_lead(says, self._platform.leads[-1])
        intended = e.DeliveryIntended(at_ms=now_ms, chat=arrival.chat, message=arrival.key, body=body)
        said = [intended] if says else []
        await self._channel.append(*events, accepted, *said)
