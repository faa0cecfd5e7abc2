"""Shows previews of running answers on platforms without drafts: a message that is posted once, then edited.

The message is a logged delivery, so it's known after a crash. Its edits aren't logged. The answer that
replaces it is logged, and no edit follows it.
"""

from typing import Protocol

from holdfast.decisions.deliveries import Arrived, DidNotArrive, MayHaveArrived, SendResult
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deliveries import preview_intent, preview_of
from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.outbound import WORKING
from holdfast.features.channels.state import AcceptedMessage
from holdfast.features.channels.store_errors import readable_view
from holdfast.folds.outbox import OutboxEntry

PAUSE_S = 10.0  # after a rejected edit


class PreviewEditor(Protocol):
    """Edits the message of a preview."""

    async def show(self, preview: OutboxEntry, text: str) -> SendResult:
        """Set it to this plain text, or to the end of it."""
        ...


class MessagePreviews:
    """Previews of runs that take longer than a moment. Failed edits are ignored."""

    def __init__(self, deps: ChannelDeps, log: ChannelLog, editor: PreviewEditor, locks: ChatLocks) -> None:
        self._deps = deps
        self._channel = log
        self._editor = editor
        self._locks = locks
        self._seen_s: dict[str, float] = {}  # run -> when it was first seen active
        self._shown: dict[str, str] = {}  # delivery -> its text
        self._rests_s: dict[str, float] = {}  # chat -> when edits can resume

    async def run(self) -> None:
        """Post and edit previews until cancelled."""
        while True:
            await self._deps.clock.sleep_s(self._deps.preview_beat_s)
            awaited = {
                one.session_id: one
                for one in self._channel.state.awaited.values()
                if not one.is_from_elsewhere
            }
            working = [await self._beat(accepted) for accepted in awaited.values()]
            self._forget({run_id for run_id in working if run_id})

    def _forget(self, working: set[str]) -> None:
        self._seen_s = {run_id: at_s for run_id, at_s in self._seen_s.items() if run_id in working}
        self._shown = {
            key: text for key, text in self._shown.items() if key.partition("/")[0] in self._seen_s
        }

    async def _beat(self, accepted: AcceptedMessage) -> str:
        """Update the preview of a session and return its active run, if any."""
        view = await readable_view(self._deps.supervisor, accepted.session_id)
        run = view.session.current_run if view is not None else None
        if view is None or run is None:
            return ""
        now_s = self._deps.clock.steady_s()
        since_s = self._seen_s.setdefault(run.run_id, now_s)
        chat, outbox = accepted.chat, self._channel.state.outbox
        if run.open_asks or chat in outbox.closed_chats or now_s < self._rests_s.get(chat, 0.0):
            return run.run_id
        preview = preview_of(self._channel.state, accepted, run.run_id)
        known = preview_intent(accepted, run.run_id, self._deps.clock.now_ms())
        if preview is None and known.key not in outbox.deliveries:
            if now_s - since_s >= self._deps.preview_after_s and chat not in outbox.queues:
                await self._channel.append(known)
        elif preview is not None and preview.platform_id:
            await self._change(preview, view.runs[run.run_id].output or WORKING)
        return run.run_id

    async def _change(self, preview: OutboxEntry, text: str) -> None:
        chat, outbox = preview.intended.chat, self._channel.state.outbox
        lock = self._locks.of(chat)
        if self._shown.get(preview.key) == text or lock.locked():
            return
        async with lock:
            if chat in outbox.queues:  # logged deliveries go first, and no edit follows the answer
                return
            result = await self._editor.show(preview, text)
            match result:
                case Arrived():
                    self._shown[preview.key] = text
                    return
                case MayHaveArrived():
                    # It could still take effect, and mustn't after the answer.
                    await self._deps.clock.sleep_s(self._deps.settles_s)
                case _:
                    pass
        wait_s = result.again_after_s if isinstance(result, DidNotArrive) else None
        self._rests_s[chat] = self._deps.clock.steady_s() + max(PAUSE_S, wait_s or 0.0)
