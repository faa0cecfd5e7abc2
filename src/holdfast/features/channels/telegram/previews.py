"""Shows that the agent works: "typing", and in direct chats a draft of the answer. Nothing of it is kept."""

import asyncio
from zlib import crc32

from msgspec import Struct

from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.state import ChannelState
from holdfast.features.channels.store_errors import readable_view
from holdfast.features.channels.telegram.api import TelegramApi, TelegramFailure
from holdfast.features.channels.telegram.carrier import place_of
from holdfast.features.channels.telegram.html import telegram_draft

BEAT_S = 3.0  # "typing" lasts 5 s, and a draft 30 s
ANSWER_S = 10.0


class _Preview(Struct, frozen=True):
    chat: str
    run_id: str
    text: str


class TelegramPreviews:
    """A preview for each active session. Best effort: failures are ignored."""

    def __init__(self, api: TelegramApi, state: ChannelState, deps: ChannelDeps) -> None:
        self._api = api
        self._state = state
        self._deps = deps
        self._drafts_work = True

    async def run(self) -> None:
        """Refresh what is shown, until cancelled."""
        while True:
            await self._deps.clock.sleep_s(BEAT_S)
            chats = {one.session_id: one.chat for one in self._state.awaited.values()}
            found = [await self._preview(session_id, chat) for session_id, chat in chats.items()]
            await asyncio.gather(*(self._show(one) for one in found if one is not None))

    async def _preview(self, session_id: str, chat: str) -> _Preview | None:
        """Return the preview of the session; None if it's idle or waiting for a person."""
        view = await readable_view(self._deps.supervisor, session_id)
        run = view.session.current_run if view is not None else None
        if view is None or run is None or run.open_asks:
            return None
        return _Preview(chat, run.run_id, view.runs[run.run_id].output)

    async def _show(self, preview: _Preview) -> None:
        if preview.chat in self._state.outbox.closed_chats or self._is_limited(preview.chat):
            return
        place = place_of(preview.chat)
        text = telegram_draft(preview.text)
        if self._drafts_work and text and place["chat_id"] > 0:
            draft = {**place, "draft_id": crc32(preview.run_id.encode()) or 1, "text": text}
            reply = await self._api.call("sendMessageDraft", draft, answer_s=ANSWER_S)
            # An older Bot API server doesn't know drafts.
            self._drafts_work = not (isinstance(reply, TelegramFailure) and reply.code == 404)  # noqa: PLR2004
        else:
            await self._api.call("sendChatAction", {**place, "action": "typing"}, answer_s=ANSWER_S)

    def _is_limited(self, chat: str) -> bool:
        head = self._state.outbox.head(chat)
        return head is not None and head.state == "postponed"
