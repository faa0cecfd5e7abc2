"""Saves attached files that the model can't read in the workspace, before the model call.

A file is on disk before `attachments.saved` is logged, and the model is called after that. Its name is
derived from its content, so after a crash the file is found and not saved twice.

Puts attached files into the workspace, where the agent's tools can read them; nothing is overwritten.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.asks import Asks
from holdfast.agent.deps import AgentDeps
from holdfast.agent.run_hooks import attachments
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.interfaces.feature import RunContext
from holdfast.interfaces.journal import JournalError
from holdfast.messages import PARTS, Message, UserMessage
from holdfast.models.parts import is_picture_or_pdf, text_of
from holdfast.policy.tool_names import READ_FILE, SHELL
from holdfast.safe_text import safe_line
from holdfast.tools.files.contents import replace_whole
from holdfast.tools.files.workspace import PathRefused, Spot, Workspace
from holdfast.tools.offload import offload
from holdfast.values import FilePart, ImagePart, SavedFile, TextPart

FOLDER = "attachments"
SAME_NAME_MAX = 100
_STEM_CHARS_MAX = 60
_STEM_BYTES_MAX = 180  # a file name has at most 255
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,12}")
_KEPT_CLASSES = frozenset("LMN")  # letters, marks and numbers of any script


def save_attachment(workspace: Workspace, name: str, data: bytes) -> str:
    """Put a file into the workspace and return its path there; raises PathRefused. Blocks.

    The same file under the same name is saved once. When this returns, it survives a power cut.
    """
    is_new = _insist_on_own_folder(workspace)
    digest = sha256(data).hexdigest()
    for nth in range(1, SAME_NAME_MAX + 1):
        path = f"{FOLDER}/{safe_name(name, digest, nth=nth)}"
        with workspace.spot_with_folders(path) as spot:
            if spot.inside != path:
                raise PathRefused(f"{path} is a link.")
            if spot.look() is None:
                replace_whole(spot, data, was=None)
            elif not _has_digest(spot, digest):
                continue  # someone changed the file, and wants to keep the change
            os.fsync(spot.folder_fd)
            break
    else:
        raise PathRefused(f"{FOLDER} already has {SAME_NAME_MAX} other files of this name.")
    if is_new:
        _finish_new_folder(workspace)
    return path


def safe_name(name: str, digest: str, *, nth: int = 1) -> str:
    """A file name that is one name, says what the file is called, and starts or configures nothing."""
    base = unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1])
    stem, dot, extension = base.rpartition(".")
    suffix = f".{extension}" if stem.strip("._-") and _SUFFIX.fullmatch(dot + extension) else ""
    stem = stem if suffix else base
    kept = "".join(
        char if char in "._-" or unicodedata.category(char)[0] in _KEPT_CLASSES else "_" for char in stem
    )
    short = kept.strip("._-")[:_STEM_CHARS_MAX].encode()[:_STEM_BYTES_MAX].decode(errors="ignore")
    number = f"-{nth}" if nth > 1 else ""
    return f"{short or 'file'}-{digest[:8]}{number}{suffix}"


def _insist_on_own_folder(workspace: Workspace) -> bool:
    """Whether the folder is still to be made; raises PathRefused if it is a link."""
    with workspace.spot(FOLDER) as spot:
        if spot.inside != FOLDER:
            raise PathRefused(f"{FOLDER} is a link.")
        return spot.look() is None


def _finish_new_folder(workspace: Workspace) -> None:
    """Keep the folder out of git, and its own name on disk."""
    with workspace.spot(f"{FOLDER}/.gitignore") as spot:
        if spot.look() is None:
            replace_whole(spot, b"*\n", was=None)
    with workspace.folder(".") as root:
        os.fsync(root.fd)


def _has_digest(spot: Spot, digest: str) -> bool:
    with os.fdopen(spot.open_file(), "rb") as file:
        return file_digest(file, "sha256").hexdigest() == digest


TEXT_BYTES_MAX = 32 * 1024  # a longer text is a file, of which the model is shown the beginning
HEAD_CHARS_MAX = 4_000


class Attachments:
    """The attachments of one run's messages."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps) -> None:
        self._view = view
        self._log = log
        self._deps = deps
        self._readable: set[str] = set()  # blobs that the model is shown as they are

    async def context(self) -> tuple[Message, ...]:
        """The messages for the next model call, once all files that they speak of are in the workspace."""
        messages = self._view.context(self._log.run_id)
        attached = [*filter(PARTS, messages)]
        if not attached:
            return messages
        context = RunContext(self._view, self._log, Asks(self._view, self._log, self._deps), self._deps)
        if await attachments(context, attached):
            messages = self._view.context(self._log.run_id)
        unknown = self._unknown(attached)
        files = [await self._saved(part) for part in unknown] if unknown and self._can_read_files else []
        saved = tuple(file for file in files if file is not None)
        if not saved:
            return messages
        self._log.emit(e.AttachmentsSaved(at_ms=self._log.now_ms(), run_id=self._log.run_id, files=saved))
        await self._view.flush(self._log)
        return self._view.context(self._log.run_id)

    @property
    def _can_read_files(self) -> bool:
        tools = self._deps.tools_now(self._view.run(self._log.run_id).settings)
        return tools.get(READ_FILE) is not None or tools.get(SHELL) is not None

    def _unknown(self, messages: Sequence[Message]) -> list[ImagePart | FilePart]:
        parts = {
            part.blob: part
            for message in messages
            if isinstance(message, UserMessage)
            for part in message.parts
            if not isinstance(part, TextPart) and part.blob not in self._readable
        }
        return list(parts.values())

    async def _saved(self, part: ImagePart | FilePart) -> SavedFile | None:
        """The file in the workspace; None if the model is better shown the attachment itself."""
        data = None if is_picture_or_pdf(part.media_type) else await self._blob(part.blob)
        text = None if data is None else text_of(part.media_type, data)
        if data is None or (text is not None and len(data) <= TEXT_BYTES_MAX):
            self._readable.add(part.blob)
            return None
        head = (text or "")[:HEAD_CHARS_MAX]
        file = SavedFile(
            blob=part.blob,
            name=safe_line(part.name) or "file",
            media_type=safe_line(part.media_type),
            bytes=len(data),
            head=head,
        )
        settings = self._view.run(self._log.run_id).settings
        workspace = self._deps.workspaces(Path(settings.workspace or self._deps.workspace))
        try:
            path = await offload(lambda: save_attachment(workspace, part.name, data))
        except PathRefused as refused:
            if text is None:
                return replace(file, why=str(refused))
            self._readable.add(part.blob)  # it can be shown whole
            return None
        return replace(file, path=path)

    async def _blob(self, name: str) -> bytes | None:
        """Return None if it's missing or damaged; the model gets a note instead of the attachment."""
        try:
            return await self._deps.store.blob(name)
        except JournalError:
            return None
