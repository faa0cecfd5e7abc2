"""The fake Telegram against a real bot library, whose typed models say what Telegram's answers look like."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO

import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import BotCommand, BufferedInputFile, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiohttp import web
from aiohttp.test_utils import TestServer

from fakes.telegram import (
    Accept,
    Double,
    FakeTelegram,
    RefuseWith,
    ResetConnection,
    Reverse,
    TooManyRequests,
)
from holdfast.chaos import BadScript

# The fake and the library change seldom, and importing the library takes longer than all of this.
pytestmark = pytest.mark.release

CHAT = 42


@asynccontextmanager
async def aiogram_bot(telegram: FakeTelegram, token: str = "") -> AsyncGenerator[Bot]:
    session = AiohttpSession(api=TelegramAPIServer.from_base(telegram.url))
    async with Bot(token or telegram.token, session=session) as bot:
        yield bot


async def test_a_real_bot_library_understands_every_answer() -> None:
    async with FakeTelegram() as telegram, aiogram_bot(telegram) as bot:
        me = await bot.get_me()
        assert me.is_bot
        assert me.username == "holdfast_bot"
        assert await bot.delete_webhook(drop_pending_updates=False)
        assert (await bot.get_webhook_info()).url == ""
        assert await bot.set_my_commands([BotCommand(command="new", description="Start a new conversation")])
        assert telegram.world.commands == [{"command": "new", "description": "Start a new conversation"}]

        telegram.world.say(CHAT, "/new @holdfast_bot")
        telegram.world.say(-5, "hello", user_id=CHAT, thread=7)
        telegram.world.send_file(CHAT, b"wave", kind="voice")
        updates = await bot.get_updates()
        first, second, voice = (one.message for one in updates)
        assert first is not None
        assert first.entities is not None
        assert [entity.type for entity in first.entities] == ["bot_command", "mention"]
        assert second is not None
        assert (second.chat.type, second.message_thread_id) == ("supergroup", 7)
        assert voice is not None
        assert voice.voice is not None
        file = await bot.get_file(voice.voice.file_id)
        downloaded = BytesIO()
        await bot.download(file, destination=downloaded)
        assert downloaded.getvalue() == b"wave"

        button = InlineKeyboardButton(text="Allow", callback_data="a:1")
        markup = InlineKeyboardMarkup(inline_keyboard=[[button]])
        sent = await bot.send_message(CHAT, "<b>bold</b> &lt;", parse_mode="HTML", reply_markup=markup)
        assert sent.text == "bold <"
        assert sent.entities is not None
        assert (sent.entities[0].type, sent.entities[0].length) == ("bold", 4)
        telegram.world.click(CHAT, sent.message_id, "a:1")
        click = (await bot.get_updates(offset=updates[-1].update_id + 1))[0].callback_query
        assert click is not None
        assert click.data == "a:1"
        assert await bot.answer_callback_query(click.id, text="Allowed")
        edited = await bot.edit_message_text("decided", chat_id=CHAT, message_id=sent.message_id)
        assert isinstance(edited, Message)
        assert edited.reply_markup is None
        assert await bot.send_chat_action(CHAT, "typing")
        assert await bot.send_message_draft(chat_id=CHAT, draft_id=1, text="hel")
        assert telegram.world.chat(CHAT).drafts == {1: "hel"}
        document = await bot.send_document(CHAT, BufferedInputFile(b"report", "report.txt"), caption="here")
        assert document.document is not None
        assert document.document.file_name == "report.txt"
        assert telegram.world.files[document.document.file_id] == ("documents/report.txt", b"report")


async def test_it_refuses_what_telegram_refuses_in_telegrams_words() -> None:
    async with (
        FakeTelegram() as telegram,
        aiogram_bot(telegram) as bot,
        aiogram_bot(telegram, "1:x") as stranger,
    ):
        with pytest.raises(TelegramUnauthorizedError):
            await stranger.get_me()
        with pytest.raises(TelegramBadRequest, match="chat not found"):
            await bot.send_message(CHAT, "hello")
        chat = telegram.world.chat(CHAT)
        for text, why in (
            ("<b>open", "can't parse entities: Can't find end tag"),
            ("<script>", 'can\'t parse entities: Unsupported start tag "script"'),
            ("<b><i>x</b></i>", "can't parse entities: Unmatched end tag"),
            ("a < b", "can't parse entities: Unsupported start tag"),
            (" ", "message text is empty"),
            ("😀" * 2049, "message is too long"),
        ):
            with pytest.raises(TelegramBadRequest, match=why):
                await bot.send_message(CHAT, text, parse_mode="HTML")
        button = InlineKeyboardButton(text="x", callback_data="x" * 65)
        with pytest.raises(TelegramBadRequest, match="BUTTON_DATA_INVALID"):
            await bot.send_message(CHAT, "x", reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]]))
        sent = await bot.send_message(CHAT, "x")
        with pytest.raises(TelegramBadRequest, match="message is not modified"):
            await bot.edit_message_text("x", chat_id=CHAT, message_id=sent.message_id)
        del chat.messages[sent.message_id]
        with pytest.raises(TelegramBadRequest, match="message to edit not found"):
            await bot.edit_message_text("y", chat_id=CHAT, message_id=sent.message_id)
        chat.blocked = True
        with pytest.raises(TelegramForbiddenError, match="blocked by the user"):
            await bot.send_message(CHAT, "x")
        assert [call.outcome for call in telegram.world.calls if call.message_id] == ["done"]


async def test_faults_come_by_script_and_the_record_says_what_arrived() -> None:
    async with FakeTelegram() as telegram, aiogram_bot(telegram) as bot:
        telegram.world.chat(CHAT)
        telegram.world.chat(43)
        telegram.scripts.add(
            "sendMessage", [TooManyRequests(3)], [Accept(), ResetConnection()], [ResetConnection()]
        )
        telegram.scripts.add("sendMessage@43", [RefuseWith("Bad Request: not now")])
        with pytest.raises(TelegramRetryAfter) as limited:
            await bot.send_message(CHAT, "first")
        assert limited.value.retry_after == 3
        with pytest.raises(TelegramBadRequest, match="not now"):
            await bot.send_message(43, "other chat")
        with pytest.raises(TelegramNetworkError):
            await bot.send_message(CHAT, "arrives")
        with pytest.raises(TelegramNetworkError):
            await bot.send_message(CHAT, "lost")
        await bot.send_message(CHAT, "last")
        assert telegram.world.chat(CHAT).texts() == ["arrives", "last"]

        telegram.scripts.add("getUpdates", [Double()], [Reverse()])
        telegram.world.say(CHAT, "one")
        telegram.world.say(CHAT, "two")
        doubled = [one.message.text for one in await bot.get_updates() if one.message]
        assert doubled == ["one", "one", "two", "two"]
        reversed_ = [one.message.text for one in await bot.get_updates() if one.message]
        assert reversed_ == ["two", "one"]


async def test_of_two_that_poll_the_first_ends_with_a_conflict() -> None:
    async with FakeTelegram() as telegram, aiogram_bot(telegram) as bot:
        first = asyncio.create_task(bot.get_updates(timeout=20))
        while not first.done():
            await bot.get_updates(timeout=0)
        with pytest.raises(TelegramConflictError):
            first.result()


async def test_a_script_as_text_names_what_it_does_not_understand() -> None:
    telegram = FakeTelegram()
    telegram.scripts.add_text("# a comment\nsendMessage: retry-after 2 | accept; reset\n")
    assert telegram.scripts.next("sendMessage", "1") == [TooManyRequests(2)]
    assert telegram.scripts.next("sendmessage", "1") == [Accept(), ResetConnection()]
    assert telegram.scripts.next("sendMessage", "1") == (Accept(),)
    with pytest.raises(BadScript, match="did you mean 'accept'"):
        telegram.scripts.add_text("sendMessage: acept")
    with pytest.raises(BadScript, match="begins with a method"):
        telegram.scripts.add_text("accept")


async def test_updates_are_delivered_to_a_webhook_one_by_one_until_each_is_taken() -> None:
    taken: list[tuple[int, str]] = []
    statuses = iter([500, 200, 200])

    async def hook(request: web.Request) -> web.Response:
        update = await request.json()
        taken.append((update["update_id"], request.headers["X-Telegram-Bot-Api-Secret-Token"]))
        return web.Response(status=next(statuses))

    app = web.Application()
    app.router.add_post("/hook", hook)
    async with (
        TestServer(app) as receiver,
        FakeTelegram() as telegram,
        aiogram_bot(telegram) as bot,
    ):
        with pytest.raises(TelegramBadRequest, match="HTTPS"):
            await bot.set_webhook("http://example.com/hook")
        telegram.world.say(CHAT, "one")
        assert await bot.set_webhook(str(receiver.make_url("/hook")), secret_token="s-1")  # noqa: S106
        telegram.world.say(CHAT, "two")
        with pytest.raises(TelegramConflictError, match="webhook"):
            await bot.get_updates()
        await telegram.world.changed.until(lambda: not telegram.world.updates)
        ids = [update_id for update_id, _ in taken]
        assert ids[0] == ids[1] == ids[2] - 1
        assert {secret for _, secret in taken} == {"s-1"}
        info = await bot.get_webhook_info()
        assert (info.url, info.pending_update_count) == (str(receiver.make_url("/hook")), 0)
        photo = await bot.send_photo(CHAT, BufferedInputFile(b"\x89PNG", "a.png"), caption="look")
        assert photo.photo
        assert photo.caption == "look"
        with pytest.raises(TelegramBadRequest, match="IMAGE_PROCESS_FAILED"):
            await bot.send_photo(CHAT, BufferedInputFile(b"text", "a.png"))
        assert await bot.delete_webhook()
        assert (await bot.get_webhook_info()).url == ""
