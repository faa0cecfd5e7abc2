"""Files that the agent sends to the chat: once or marked, from the workspace alone, and only to a chat."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent.world import World, process, send
from fakes.telegram import Accept, FakeTelegram, RefuseWith, ResetConnection
from features.channels.lab import LOG, ME, channel, options_for, said, state_of, until
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.texts import MARK
from holdfast.folds.phases import Phase
from holdfast.tools.files.send_file import SendFile
from runner.steered_clock import SteeredClock, settle

PNG = b"\x89PNG\r\n\x1a\n" + bytes(3 * 1024 * 1024)


def sends(*calls: Mapping[str, object]) -> list[Script]:
    """The model sends files, then says that it did."""
    return [[CallTool("send_file", args) for args in calls], [Say("there you are")]]


@asynccontextmanager
async def chatting(chaos: ChaosServer, folder: Path) -> AsyncGenerator[World]:
    async with process(chaos, SendFile(), workspace=folder) as world:
        yield world


def documents(telegram: FakeTelegram) -> list[tuple[str, bytes, str]]:
    """What came as a document: its name, its bytes and its caption."""
    calls = telegram.world.done("sendDocument")
    return [(*one.parameters["document"], one.parameters.get("caption", "")) for one in calls]


async def test_a_document_and_a_picture_arrive_before_the_answer(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_bytes(b"all is well")
    (tmp_path / "chart.png").write_bytes(PNG)
    script = sends({"path": "report.txt", "caption": "the <b>report</b>"}, {"path": "chart.png"})
    async with FakeTelegram() as telegram, ChaosServer(*script) as chaos, chatting(chaos, tmp_path) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "report, please")
            await said(telegram, "there you are")
        assert documents(telegram) == [("report.txt", b"all is well", "the <b>report</b>")]
        (photo,) = telegram.world.done("sendPhoto")
        assert photo.parameters["photo"] == ("chart.png", PNG)
        keys = [one.key.partition("/")[2] for one in (await state_of(world)).outbox.deliveries.values()]
        assert keys == ["file/0", "file/1", "answer/0"]
        assert not any(b"all is well" in record.body for record in await world.log(LOG))


async def test_a_file_that_may_have_arrived_is_sent_once_more_and_says_so(tmp_path: Path) -> None:
    """P14: never silently twice, never silently not at all."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    clock = SteeredClock()
    script = sends({"path": "a.txt", "caption": "notes"})
    async with FakeTelegram() as telegram, ChaosServer(*script) as chaos, chatting(chaos, tmp_path) as world:
        telegram.scripts.add("sendDocument", [Accept(), ResetConnection()])
        async with channel(world, options_for(telegram), clock=clock):
            telegram.world.say(ME, "send it")
            await world.until(LOG, e.DeliveryUnknown)
            await settle()
            clock.advance(1)
            await said(telegram, "there you are")
        assert documents(telegram) == [("a.txt", b"abc", "notes"), ("a.txt", b"abc", f"{MARK}\nnotes")]


async def test_a_picture_that_telegram_does_not_take_arrives_as_a_document(tmp_path: Path) -> None:
    """P14: never silently not at all."""
    (tmp_path / "wide.png").write_bytes(PNG)
    script = sends({"path": "wide.png"})
    async with FakeTelegram() as telegram, ChaosServer(*script) as chaos, chatting(chaos, tmp_path) as world:
        telegram.scripts.add("sendPhoto", [RefuseWith("Bad Request: PHOTO_INVALID_DIMENSIONS")])
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "send it")
            await said(telegram, "there you are")
        assert documents(telegram) == [("wide.png", PNG, "")]


async def test_what_is_outside_the_workspace_empty_or_missing_is_not_sent(tmp_path: Path) -> None:
    """P13: a path that leaves the workspace leads nowhere."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "empty.txt").touch()
    paths = ["../secret.txt", "link.txt", "empty.txt", "missing.txt"]
    script = sends(*({"path": path} for path in paths))
    async with FakeTelegram() as telegram, ChaosServer(*script) as chaos, chatting(chaos, folder) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "send them")
            await said(telegram, "there you are")
        (session_id,) = (await state_of(world)).chats
        ended = [one.event for one in await world.log(session_id) if isinstance(one.event, e.ToolEnded)]
        assert [one.ok for one in ended] == [False] * 4
        assert documents(telegram) == []


async def test_only_a_run_of_a_chat_has_the_tool(tmp_path: Path) -> None:
    def offered(request: SeenRequest) -> Script:
        return [Say("yes" if "send_file" in str((request.body or {}).get("tools", [])) else "no")]

    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=offered) as chaos,
        chatting(chaos, tmp_path) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.say(ME, "can you?")
        await said(telegram, "yes")
        run_id = await send(world, "and you?", session_id="page")
        await world.until("page", e.RunEnded)
        view = await world.supervisor.view("page")
        assert view.runs[run_id].output == "no"
        assert view.runs[run_id].state.phase is Phase.ENDED
        await until(telegram, lambda: not telegram.world.updates)


async def test_any_name_of_a_file_can_be_sent_as_people_read_it(tmp_path: Path) -> None:
    """P14: a name can't stop a channel, and arrives as it is, but for what can't be in one."""
    names = ("my report (1) ü.txt", "we\nird.txt", 'a"b.txt')
    for name in names:
        (tmp_path / name).write_bytes(b"abc")
    script = sends(*({"path": name} for name in names))
    async with FakeTelegram() as telegram, ChaosServer(*script) as chaos, chatting(chaos, tmp_path) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "send them")
            await said(telegram, "there you are")
        found = [name for name, *_ in documents(telegram)]
        assert found == ["my report (1) ü.txt", "we_ird.txt", "a_b.txt"]
