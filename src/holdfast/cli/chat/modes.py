"""The permission mode of the chat: shown at all times, cycled with Shift+Tab, and set with /mode."""

from typing import TYPE_CHECKING

from holdfast import events as e
from holdfast.client.errors import ClientError
from holdfast.events.modes import mode_of
from holdfast.values import MODES, WORKSPACE_MODES

if TYPE_CHECKING:
    from holdfast.api.server import PermissionModesShown
    from holdfast.api.sessions import TranscriptPage
    from holdfast.cli.chat.conversation import ChatScreen

CYCLE = ("plan", "ask", "edits", "workspace")  # `unattended` is only set by its name
MEANINGS = {
    "plan": "only read, until you accept a plan",
    "unattended": "deny anything that needs approval",
    "ask": "ask about every change",
    "edits": "don't ask about edits that undo covers",
    "workspace": "don't ask about anything that the sandbox contains",
}


class ChatModes:
    """The mode of the open session or, before there is one, of the next."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._server: PermissionModesShown | None = None  # None: an older server
        self._mode = ""
        self.for_next = ""  # the mode that the first message sets; empty: the configured one

    @property
    def shown(self) -> str:
        """Return the mode's name; empty if it's unknown."""
        return self._mode

    def connected(self, server: "PermissionModesShown | None") -> None:
        """Store what the server says about modes."""
        self._server = server
        self.closed()

    def opened(self, page: "TranscriptPage") -> None:
        """Show the mode of the session that was opened."""
        mode = page.permission_mode
        self._mode = mode if isinstance(mode, str) else ""

    def closed(self) -> None:
        """Show the mode of the next session."""
        self._mode = self.for_next or (self._server.mode if self._server is not None else "")

    async def hear(self, event: e.Event) -> None:
        """Follow the session's log."""
        if isinstance(event, e.SessionModeSet | e.PermissionModeSet):
            self._mode = mode_of(event) or (self._server.mode if self._server is not None else "")
        elif isinstance(event, e.RunStarted) and self._mode in WORKSPACE_MODES and self._chat.session_id:
            # The mode ends if the run works in another workspace.
            self.opened(await self._chat.client.messages(self._chat.session_id, limit=1))

    def fields(self) -> dict[str, str]:
        """Return the fields of the message that begins a session."""
        return {"permission_mode": self.for_next} if self.for_next else {}

    def cycle(self) -> None:
        """Set the next mode that the key can set."""
        allowed = self._server.allowed if self._server is not None else ()
        modes = [mode for mode in CYCLE if mode in allowed]
        if modes:
            at = modes.index(self._mode) if self._mode in modes else -1
            self._chat.begin(self.set(modes[(at + 1) % len(modes)]))

    async def set(self, mode: str) -> bool:
        """Set the mode of the open session or, before there is one, of the next; False if it's refused."""
        if not self._chat.session_id:
            self.for_next = self._mode = mode
            await self._chat.prompt.print("")
            return True
        try:
            await self._chat.client.set_approval_mode(self._chat.session_id, mode)
        except ClientError as error:
            await self._chat.complain(error)
            return False
        return True  # the log's event changes what is shown

    async def command(self, name: str) -> None:
        """Do /mode: set a mode, or list them."""
        if name in MODES:
            if await self.set(name):
                await self._chat.prompt.print(self._chat.style.dim(f"Mode {name}: {MEANINGS[name]}."))
            return
        rows = [f"{'*' if mode == self._mode else ' '} {mode:<11}{MEANINGS[mode]}" for mode in MODES]
        if name:
            rows.insert(0, "There is no such mode. Choose one of these:")
        await self._chat.prompt.print(self._chat.style.dim("\n".join(rows)))
