"""Voice notes: each is transcribed once, before the model reads the message, and the audio stays attached."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from agent.world import CrashingStore, World, ending, messages, process
from fakes.crash import Crashed, CrashPoint
from fakes.telegram import FakeTelegram
from fakes.transcriptions import FakeTranscriptions
from features.channels.lab import ME, channel, last_user_text, options_for, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.cli.doctor.findings import DoctorFinding
from holdfast.config.fields import Secret
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings, SpeechSettings, TargetSettings
from holdfast.features.speech import transcribing
from holdfast.features.speech.events import AudioTranscribed
from holdfast.features.speech.transcribing import Speech, check_speech, speech_of
from holdfast.features.speech.voice_notes import GONE
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.journal import JournalError, Record, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.shell.background import Background
from holdfast.values import FilePart, Part
from sandbox.confined_world import HAS_BUBBLEWRAP, confined_world
from stores import MemoryStore
from tools.calls import shell

OGG = b"OggS\0\x02"
SPOKEN = "call me at nine"


def speech(
    folder: Path, command: tuple[str, ...] = (), *, target: str = "", sandboxed: bool = False, **more: Any
) -> Speech:
    """The speech settings of a server; `target` is the URL of one."""
    ears = TargetSettings(name="ears", wire="chat", base_url=target, model="whisper-1", api_key=Secret("k"))
    settings = Settings(
        server=ServerSettings(data_dir=str(folder / "data")),
        speech=SpeechSettings(command=command, target="ears" if target else "", **more),
        targets=(ears,) if target else (),
    )
    return replace(speech_of(settings), needs_sandbox=sandboxed)


def program(folder: Path, code: str) -> tuple[str, ...]:
    """A command that notes each call, and then runs the code; `audio` is the file's path."""
    script = folder / "hear.py"
    calls = folder / "calls"
    script.write_text(
        f"import sys, time, pathlib\naudio = pathlib.Path(sys.argv[-1])\n"
        f"with open({str(calls)!r}, 'a') as calls:\n"
        f"    calls.write(audio.suffix + ' ' + str(audio.stat().st_size) + '\\n')\n"
        f"{code}\n"
    )
    return (sys.executable, "-S", "-E", str(script))


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


@asynccontextmanager
async def hearing(
    chaos: ChaosServer, folder: Path, made: Speech | None, *, store: Store | None = None
) -> AsyncGenerator[World]:
    """A process that runs agents, which transcribe so."""
    background = Background(folder / "background", now_ms=lambda: 1)
    features = {"speech": made} if made is not None else {}
    work = folder / "work"
    await asyncio.to_thread(work.mkdir, exist_ok=True)
    tools = (shell(background), ReadFile(FilesSeen()))
    async with process(chaos, *tools, store=store, features=features, workspace=work) as world:
        yield world
    await background.close()


async def note(
    world: World, nth: int = 1, *, name: str = "voice.ogg", media_type: str = "audio/ogg"
) -> FilePart:
    return FilePart(blob=await world.store.put_blob(OGG + bytes([nth])), media_type=media_type, name=name)


async def send(world: World, *parts: Part, text: str = "") -> str:
    sent = await world.inbox.send("s", IncomingMessage(text=text, parts=parts))
    assert isinstance(sent, Sent)
    return sent.run_id


def transcribed(log: Sequence[Record]) -> list[AudioTranscribed]:
    return [one.event for one in log if isinstance(one.event, AudioTranscribed)]


async def test_a_voice_note_is_transcribed_by_the_command_and_the_audio_stays(tmp_path: Path) -> None:
    command = program(tmp_path, f"print('  {SPOKEN}  ')\nprint('noise', file=sys.stderr)")
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        await send(world, await note(world))
        log = await world.until("s", e.RunEnded)
        (event,) = transcribed(log)
        assert (event.text, event.failure, event.name) == (SPOKEN, "", "voice.ogg")
        assert event.by == Path(sys.executable).name
        told = str(messages(chaos.seen.request(1))[-1]["content"])
        assert "voice.ogg (audio/ogg, 7 bytes) is in the workspace" in told
        assert f"[The user says in voice.ogg, as transcribed by a program:]\\n{SPOKEN}" in repr(told)
        assert list((tmp_path / "data" / "speech").iterdir()) == []
        await send(world, text="and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert len(transcribed(log)) == 1
        assert SPOKEN in str(messages(chaos.seen.request(2)))
    assert await asyncio.to_thread(calls, tmp_path) == [".ogg 7"]


async def test_without_the_setting_a_voice_note_is_a_file_as_before(tmp_path: Path) -> None:
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, None) as world:
        await send(world, await note(world))
        log = await world.until("s", e.RunEnded)
        assert (transcribed(log), ending(log).outcome) == ([], "completed")
        assert "is in the workspace" in str(messages(chaos.seen.request(1)))


async def test_only_audio_is_transcribed(tmp_path: Path) -> None:
    command = program(tmp_path, "print('x')")
    async with (
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        await send(world, await note(world, name="a.zip", media_type="application/zip"), text="hi")
        assert transcribed(await world.until("s", e.RunEnded)) == []


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("sys.exit(3)", "the command failed with exit code 3"),
        ("print('   ')", transcribing.EMPTY),
        ("sys.stdout.write('x' * 10_000_000)", transcribing.TOO_MUCH),
    ],
)
async def test_a_failure_is_said_to_people_and_the_model_and_the_run_goes_on(
    tmp_path: Path, code: str, failure: str
) -> None:
    command = program(tmp_path, code)
    async with (
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        await send(world, await note(world))
        log = await world.until("s", e.RunEnded)
        (event,) = transcribed(log)
        assert (event.text, event.failure, ending(log).outcome) == ("", failure, "completed")
        told = str(messages(chaos.seen.request(1)))
        assert f"voice.ogg couldn't be transcribed: {failure}" in told
        assert "is in the workspace" in told


async def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    made = speech(tmp_path, (str(tmp_path / "nowhere"), "{file}"))
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, made) as world:
        await send(world, await note(world))
        (event,) = transcribed(await world.until("s", e.RunEnded))
        assert "couldn't be started" in event.failure


async def test_a_note_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    command = program(tmp_path, "print('x')")
    async with (
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        await send(world, FilePart(blob="0" * 64, media_type="audio/ogg", name="a.ogg"))
        (event,) = transcribed(await world.until("s", e.RunEnded))
        assert event.failure == GONE
    assert await asyncio.to_thread(calls, tmp_path) == []


async def test_a_command_that_hangs_is_killed_and_the_other_notes_arent_tried(tmp_path: Path) -> None:
    """P3."""
    command = program(tmp_path, "time.sleep(3600)")
    made = speech(tmp_path, command, deadline_s=1.0)
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, made) as world:
        await send(world, await note(world, 1), await note(world, 2))
        log = await world.until("s", e.RunEnded)
        assert [one.failure for one in transcribed(log)] == [transcribing.LATE] * 2
        assert ending(log).outcome == "completed"
    assert len(await asyncio.to_thread(calls, tmp_path)) <= 1


async def test_a_stop_ends_the_command(tmp_path: Path) -> None:
    """P5."""
    command = program(tmp_path, "time.sleep(3600)")
    async with (
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        run_id = await send(world, await note(world))
        while not await asyncio.to_thread(calls, tmp_path):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await world.inbox.stop("s", run_id)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, transcribed(log)) == ("cancelled", [])
        assert chaos.seen.requests == []


async def test_a_retry_tries_a_failed_note_again_and_a_good_one_not(tmp_path: Path) -> None:
    again = tmp_path / "again"
    code = (
        f"again = pathlib.Path({str(again)!r})\n"
        "bad = audio.read_bytes()[-1] == 1 and not again.exists()\nprint('' if bad else 'heard')"
    )
    command = program(tmp_path, code)
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, command)) as world,
    ):
        run_id = await send(world, await note(world, 1), await note(world, 2))
        log = await world.until("s", e.RunEnded)
        assert [one.text for one in transcribed(log)] == ["", "heard"]
        await send(world, text="go on")
        assert len(transcribed(await world.until("s", e.RunEnded, times=2))) == 2
        await asyncio.to_thread(again.touch)
        assert await world.inbox.retry("s", run_id)
        log = await world.until("s", e.RunEnded, times=3)
        assert [one.text for one in transcribed(log)] == ["", "heard", "heard"]
        assert "couldn't be transcribed" not in str(messages(chaos.seen.requests[-1]))


async def test_a_target_gets_the_file_its_model_and_the_key(tmp_path: Path) -> None:
    async with (
        FakeTranscriptions() as fake,
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, target=fake.base_url)) as world,
    ):
        await send(world, await note(world))
        (event,) = transcribed(await world.until("s", e.RunEnded))
        assert (event.text, event.by) == (SPOKEN, "ears")
        (seen,) = fake.seen
        assert (seen.key, seen.name, seen.media_type) == ("Bearer k", "audio.ogg", "audio/ogg")
        assert seen.fields == {"model": "whisper-1", "response_format": "json"}
        assert seen.audio == OGG + b"\x01"


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (500, b"out of memory", "ears answered 500: out of memory"),
        (200, b"no json", "the target's answer has no text"),
        (200, b'{"text": 7}', "the target's answer has no text"),
        (200, b'{"text": "  "}', transcribing.EMPTY),
        (200, b'{"text": "' + b"x" * 5_000_000 + b'"}', transcribing.TOO_MUCH),
        (302, b"", "ears answered 302: "),
    ],
)
async def test_a_bad_answer_of_a_target_is_a_failure(
    tmp_path: Path, status: int, body: bytes, failure: str
) -> None:
    async with (
        FakeTranscriptions() as fake,
        ChaosServer([Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, target=fake.base_url)) as world,
    ):
        fake.status, fake.answer = status, body
        await send(world, await note(world))
        log = await world.until("s", e.RunEnded)
        (event,) = transcribed(log)
        assert (event.failure, ending(log).outcome) == (failure.strip(), "completed")


async def test_a_target_that_hangs_is_given_up_and_a_stop_ends_it_at_once(tmp_path: Path) -> None:
    """P3, P5."""
    async with FakeTranscriptions() as fake, ChaosServer([Say("ok")]) as chaos:
        fake.hangs = True
        made = speech(tmp_path, target=fake.base_url, deadline_s=0.2)
        async with hearing(chaos, tmp_path, made) as world:
            await send(world, await note(world))
            log = await world.until("s", e.RunEnded)
            assert (transcribed(log)[0].failure, ending(log).outcome) == (transcribing.LATE, "completed")
        fake.taken.clear()
        async with hearing(chaos, tmp_path, speech(tmp_path, target=fake.base_url)) as world:
            run_id = await send(world, await note(world))
            await fake.taken.wait()
            assert await world.inbox.stop("s", run_id)
            log = await world.until("s", e.RunEnded)
            assert (ending(log).outcome, transcribed(log)) == ("cancelled", [])


async def test_a_target_that_is_away_is_a_failure(tmp_path: Path) -> None:
    made = speech(tmp_path, target="http://127.0.0.1:9/v1")
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, made) as world:
        await send(world, await note(world))
        (event,) = transcribed(await world.until("s", e.RunEnded))
        assert event.failure.startswith("ears can't be reached")


async def live(chaos: ChaosServer, folder: Path, made: Speech, disk: MemoryDisk, crash: CrashPoint) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    async def use(world: World) -> None:
        if not await world.store.last_seq("s"):
            await send(world, await note(world, 1), await note(world, 2))
        await world.until("s", e.RunEnded)

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with hearing(chaos, folder, made, store=CrashingStore(disk, crash, after=False)) as world:
            tasks = [asyncio.create_task(one) for one in (use(world), died.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_a_crash_at_any_append_transcribes_no_note_twice(tmp_path: Path) -> None:
    """P6: what is on the log isn't done again, and the model always reads it."""
    for nth in count(1):
        disk = MemoryDisk()
        async with FakeTranscriptions() as fake, ChaosServer([Say("ok")], after_last="repeat") as chaos:
            made = speech(tmp_path, target=fake.base_url)
            crash = CrashPoint(nth)
            await live(chaos, tmp_path, made, disk, crash)
            if crash.has_crashed:
                await live(chaos, tmp_path, made, disk, CrashPoint(10_000))
            log = list(await MemoryStore(disk).read("s", limit=10_000))
            assert [one.text for one in transcribed(log)] == [SPOKEN] * 2
            assert len({one.blob for one in transcribed(log)}) == 2
            assert ending(log).outcome == "completed"
            assert all(str(messages(one)).count(SPOKEN) == 2 for one in chaos.seen.requests)
            assert len(fake.seen) <= 3  # what wasn't on the log yet is the only thing that is done again
            if not crash.has_crashed:
                assert len(fake.seen) == 2
                break


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_in_the_sandbox_the_command_reaches_its_file_and_what_it_may_read(tmp_path: Path) -> None:
    """P13: neither the network nor the workspace nor any other file."""
    model = tmp_path / "models"
    await asyncio.to_thread(model.mkdir)
    await asyncio.to_thread((model / "m.bin").write_text, "weights")
    async with confined_world(tmp_path) as confined:
        secret = confined.workspace / "notes.txt"
        await asyncio.to_thread(secret.write_text, "mine")
        script = (
            f'wc -c < "$1"; cat {model}/m.bin; cat {secret} || echo no workspace; '
            f"(: < /dev/tcp/127.0.0.1/{confined.port}) || echo no network; "
            f"echo x > {model}/m.bin || echo no writing"
        )
        command = ("/bin/bash", "-c", script, "hear", "{file}")
        made = speech(tmp_path, command, read=(str(model),), sandboxed=True)
        async with (
            ChaosServer([Say("ok")]) as chaos,
            process(chaos, confined.shell, features={"speech": made}, workspace=confined.workspace) as world,
        ):
            await send(world, await note(world))
            (event,) = transcribed(await world.until("s", e.RunEnded))
        assert event.failure == ""
        assert event.text.split("\n") == ["7", "weightsno workspace", "no network", "no writing"]


async def test_a_file_that_cant_be_written_is_a_failure(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "data").write_bytes, b"not a folder")
    made = speech(tmp_path, program(tmp_path, "print('x')"))
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, made) as world:
        await send(world, await note(world))
        log = await world.until("s", e.RunEnded)
        assert "its file can't be written" in transcribed(log)[0].failure
        assert ending(log).outcome == "completed"


async def test_without_a_sandbox_the_command_does_not_run(tmp_path: Path) -> None:
    """P13."""
    made = speech(tmp_path, program(tmp_path, "print('x')"), sandboxed=True)
    async with ChaosServer([Say("ok")]) as chaos, hearing(chaos, tmp_path, made) as world:
        await send(world, await note(world))
        (event,) = transcribed(await world.until("s", e.RunEnded))
        assert event.failure == transcribing.NO_SANDBOX
    assert await asyncio.to_thread(calls, tmp_path) == []


async def test_a_voice_note_from_telegram_is_answered_by_what_it_says(tmp_path: Path) -> None:
    async with (
        FakeTranscriptions() as fake,
        FakeTelegram() as telegram,
        ChaosServer(choose=lambda one: [Say(f"you said: {last_user_text(one)}")]) as chaos,
        process(chaos, features={"speech": speech(tmp_path, target=fake.base_url)}) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.send_file(ME, OGG, kind="voice", name="v.oga")
        await until(telegram, lambda: any(SPOKEN in text for text in telegram.world.chat(ME).texts()))
        (seen,) = fake.seen
        assert (seen.name, seen.media_type, seen.audio) == ("audio.ogg", "audio/ogg", OGG)


async def test_a_summary_has_what_a_voice_note_says(tmp_path: Path) -> None:
    summary = "## Task\nCall at nine."
    async with (
        FakeTranscriptions() as fake,
        ChaosServer([Say("ok")], [Say(summary)]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, target=fake.base_url)) as world,
    ):
        await send(world, await note(world), text="listen")
        await world.until("s", e.RunEnded)
        await world.inbox.compact("s", "")
        await world.until("s", e.ContextCompacted)
        asked = str(messages(chaos.seen.requests[-1]))
        assert "USER: listen" in asked
        assert SPOKEN in asked


async def test_a_voice_note_for_a_busy_agent_is_transcribed_before_its_next_step(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        FakeTranscriptions() as fake,
        ChaosServer([Wait(gate), Say("so far")], [Say("ok")]) as chaos,
        hearing(chaos, tmp_path, speech(tmp_path, target=fake.base_url)) as world,
    ):
        run_id = await send(world, text="begin")
        await gate.reached()
        note_alone = IncomingMessage(text="", parts=(await note(world),))
        assert await world.inbox.steer("s", run_id, message=note_alone)
        gate.open()
        log = await world.until("s", e.RunEnded)
        assert [one.text for one in transcribed(log)] == [SPOKEN]
        assert SPOKEN in str(messages(chaos.seen.requests[-1]))


async def test_the_doctor_looks_for_the_command(tmp_path: Path) -> None:
    async def found(*command: str) -> list[DoctorFinding]:
        settings = Settings(speech=SpeechSettings(command=command))
        return list(await check_speech(DoctorContext(settings, tmp_path, SystemClock(), is_offline=True)))

    assert await found() == []
    (fine,) = await found(sys.executable, "{file}")
    assert "speech" in str(fine)
    (missing,) = await found("no-such-program")
    assert "no-such-program isn't installed" in str(missing)
