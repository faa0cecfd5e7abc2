"""Transcribes audio with the user's command in the sandbox, or at a target's `/audio/transcriptions`."""

import asyncio
import mimetypes
import os
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.config.settings import Settings
from holdfast.interfaces.feature import DoctorContext, FeatureContext, RunContext
from holdfast.policy.tool_names import SHELL
from holdfast.safe_text import safe, safe_line
from holdfast.targets import Target
from holdfast.tools.offload import offload
from holdfast.tools.shell.confined_run import ConfinedRun
from holdfast.tools.shell.marker import foreground
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.tool import Shell
from holdfast.values import Lift

OUTPUT_BYTES_MAX = 256 * 1024
PROBLEM_CHARS_MAX = 300
FILE = "{file}"  # in the command: the path of the audio file
LATE = "it took too long"
EMPTY = "no speech was recognized"
TOO_MUCH = f"the transcript has more than {OUTPUT_BYTES_MAX // 1024} kB"
NO_SHELL = "this agent has no shell tool, which starts the command"
NO_SANDBOX = "the command needs the sandbox, and there is none on this server"
_CALL = "transcription"  # the tool call in the marker of its processes
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


class Transcription(Struct, frozen=True):
    """The text, or why there is none."""

    text: str = ""
    failure: str = ""


class _Answer(Struct):
    """The answer of `/audio/transcriptions`."""

    text: str


class _Output:
    """The command's output, up to a limit; a sink of the thread that reads it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def take(self, data: bytes) -> bool:
        self.data += data
        return len(self.data) > OUTPUT_BYTES_MAX


class Speech(Struct, frozen=True):
    """How this server transcribes."""

    command: tuple[str, ...]
    read: tuple[str, ...]  # paths that the command can read
    target: Target | None
    model: str
    deadline_s: float
    needs_sandbox: bool
    folder: Path  # for the files that commands read

    @property
    def by(self) -> str:
        """The program or the target, for events."""
        return self.target.name if self.target is not None else Path(self.command[0]).name

    async def transcribe(
        self, context: RunContext, audio: bytes, *, blob: str, name: str, media_type: str
    ) -> Transcription:
        """Transcribe one file, within the deadline. A cancellation is raised when its processes are dead."""
        suffix = Path(name).suffix
        if not _SUFFIX.fullmatch(suffix):
            suffix = mimetypes.guess_extension(media_type) or ".audio"
        if self.target is not None:
            return await self._at_target(self.target, audio, name=f"audio{suffix}", media_type=media_type)
        # After a crash, the run finds the folder by its name, and deletes it.
        folder = self.folder / f"{context.log.run_id}-{blob}"
        try:
            await offload(lambda: _fill(folder, f"audio{suffix}", audio))
            return await self._by_command(context, folder, f"audio{suffix}")
        except OSError as error:
            return Transcription(failure=f"its file can't be written: {error.strerror}")
        finally:
            await offload(lambda: shutil.rmtree(folder, ignore_errors=True))

    async def _by_command(self, context: RunContext, folder: Path, name: str) -> Transcription:
        shell = context.deps.tools.get(SHELL)
        if not isinstance(shell, Shell):
            return Transcription(failure=NO_SHELL)
        run = await offload(lambda: self._program(shell, folder, name))
        if run is None:
            return Transcription(failure=NO_SANDBOX)
        output = _Output()
        await run.open()
        try:
            marker = foreground(context.log.run_id, _CALL)
            ended = await run_command(run.command, output, marker=marker, patience_s=self.deadline_s)
        finally:
            await run.close()
        return transcript_of(ended, bytes(output.data))

    def _program(self, shell: Shell, folder: Path, name: str) -> ConfinedRun | None:
        """The command in a folder of its own, with nothing else to write and no network."""
        folder = folder.resolve()
        path = str(folder / name)
        words = [os.path.expanduser(word) for word in self.command]  # noqa: PTH111  # they can be names, too
        words = [word.replace(FILE, path) for word in words] if FILE in str(words) else [*words, path]
        command = Command(argv=tuple(words), cwd=str(folder), environment={}, errors_fd=subprocess.DEVNULL)
        lift = Lift(read=tuple(path for path in map(_real, self.read) if Path(path).exists()))
        run = shell.program(command, folder, in_sandbox=self.needs_sandbox, lift=lift)
        if run is None or (confinement := run.command.confinement) is None:
            return run
        profile = replace(confinement.profile, network="off", hosts=(), write=(), caches=(), approved=())
        # The folder is gone afterward, so no one watches for protected files in it.
        return ConfinedRun(replace(run.command, confinement=replace(confinement, profile=profile)))

    async def _at_target(self, target: Target, audio: bytes, *, name: str, media_type: str) -> Transcription:
        from holdfast.features.speech.audio_requests import AudioRefused, post_audio

        try:
            async with asyncio.timeout(self.deadline_s):
                body = await post_audio(target, audio, model=self.model, name=name, media_type=media_type)
        except TimeoutError:
            return Transcription(failure=LATE)
        except AudioRefused as refused:
            return Transcription(failure=safe_line(str(refused))[:PROBLEM_CHARS_MAX])
        if len(body) > OUTPUT_BYTES_MAX:
            return Transcription(failure=TOO_MUCH)
        try:
            return _spoken(msgspec.json.decode(body, type=_Answer).text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Transcription(failure="the target's answer has no text")


def transcript_of(ended: ProcessEnd, output: bytes) -> Transcription:
    """Return what the end of the command means."""
    match ended.why:
        case "deadline":
            return Transcription(failure=LATE)
        case "not_started":
            return Transcription(
                failure=f"the command couldn't be started: {ended.error}"[:PROBLEM_CHARS_MAX]
            )
        case "sandbox_failed":
            return Transcription(failure="the sandbox failed")
        case _ if ended.why == "enough" or len(output) > OUTPUT_BYTES_MAX:
            return Transcription(failure=TOO_MUCH)
        case _ if ended.code != 0:
            code = "" if ended.code is None else f" with exit code {ended.code}"
            return Transcription(failure=f"the command failed{code}")
        case _:
            return _spoken(output.decode("utf-8", "replace"))


def _spoken(text: str) -> Transcription:
    text = safe(text).strip()
    return Transcription(text) if text else Transcription(failure=EMPTY)


def _fill(folder: Path, name: str, audio: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / name).write_bytes(audio)


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


@asynccontextmanager
async def open_speech(context: FeatureContext) -> AsyncGenerator[Speech]:
    """The speech settings of this server."""
    yield speech_of(context.settings)


def speech_of(settings: Settings) -> Speech:
    """Return how a server with these settings transcribes."""
    wanted = settings.speech
    targets = {target.name: target for target in settings.model_targets()}
    return Speech(
        command=wanted.command,
        read=wanted.read,
        target=targets.get(wanted.target),
        model=wanted.model,
        deadline_s=wanted.deadline_s,
        needs_sandbox=settings.sandbox.mode != "off",
        folder=settings.data_dir.absolute() / "speech",
    )


async def check_speech(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check that the command is installed, if there is one."""
    command = context.settings.speech.command
    if not command:
        return []
    found = await asyncio.to_thread(lambda: shutil.which(os.path.expanduser(command[0])))  # noqa: PTH111
    if found is None:
        advice = "install it, or change `command` under [speech]; see docs/voice-notes.md"
        return [fault("speech", f"{command[0]} isn't installed", advice)]
    return [ok("speech", found)]
