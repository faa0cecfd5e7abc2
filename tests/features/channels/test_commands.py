"""`holdfast channels`: each command against a real server with the fake Telegram behind it."""

import os
import re
from pathlib import Path

from cli.lab import Start, command, executed, serving, started
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, until
from holdfast.chaos import ChaosServer, Say
from runner.program import configure

OWNER = 7
CHANNEL = """
[[channels]]
name = "tg"
kind = "telegram"
token = "{token}"
base_url = "{url}"
allow = [{allow}]
"""


async def said_by(folder: Path, *words: str, start: Start = started) -> tuple[int, str, str]:
    """Run a command; its exit code, and what it prints."""
    ended = await command(folder, "channels", *words, start=start)
    return ended.code, ended.out, ended.err


async def test_people_are_let_in_and_out_and_a_test_says_what_became_of_it(tmp_path: Path) -> None:
    """P14: what was not accepted is marked in the log, and the exit code says so."""
    async with FakeTelegram() as telegram, ChaosServer([Say("hello")]) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        with (tmp_path / "holdfast.toml").open("a", encoding="utf-8") as file:
            file.write(CHANNEL.format(token=telegram.token, url=telegram.url, allow=f'"{ME}"'))
        async with serving(tmp_path):
            await until(telegram, lambda: any(one.method == "setMyCommands" for one in telegram.world.calls))
            code, out, hint = await said_by(tmp_path, "pair", "tg", start=executed)
            assert code == 0
            assert re.fullmatch(r"[0-9A-Z]{8}\n", out)
            assert "within 10 minutes" in hint
            telegram.world.say(OWNER, out.strip())
            await until(telegram, lambda: bool(telegram.world.chat(OWNER).texts()))
            assert (await said_by(tmp_path, "allow", "tg", "77"))[:2] == (0, "Allowed.\n")
            code, out, _ = await said_by(tmp_path, "list")
            assert re.search(r"tg +telegram +connected", out)
            assert "tg: User 7 (7) can talk and approve; paired with a code\n" in out
            assert "tg: 77 can talk; allowed\n" in out
            assert "tg: 42 can talk; listed in the configuration\n" in out
            assert (await said_by(tmp_path, "revoke", "tg", "77"))[:2] == (0, "Revoked.\n")
            assert "77" not in (await said_by(tmp_path, "list"))[1]
            assert (await said_by(tmp_path, "test", "tg", str(OWNER)))[:2] == (0, "Delivered.\n")
            code, out, _ = await said_by(tmp_path, "test", "tg", "999")
            assert code != 0
            assert out == "Not delivered: Bad Request: chat not found.\n"
            await sends(tmp_path, telegram)
            _, out, _ = await said_by(tmp_path, "log", "tg")
            assert re.search(r"! +rejected +999 +Bad Request: chat not found", out)
            assert re.search(r"person allowed +7 +User 7 as approver with a code", out)
            code, _, hint = await said_by(tmp_path, "log", "other")
            assert code != 0
            assert "No channel has this name" in hint


async def sends(folder: Path, telegram: FakeTelegram) -> None:
    """P14: a message and a file are sent once, to known chats, and the exit code tells the result."""

    async def sent(*words: str) -> tuple[int, str, str]:
        ended = await command(folder, "send", *words)
        return ended.code, ended.out, ended.err

    before, long = len(telegram.world.chat(OWNER).texts()), "word " * 1_500
    for _ in range(2):
        assert await sent(f"tg:{OWNER}", "**Hi**", "--id", "one") == (0, "Delivered.\n", "")
    code, _, hint = await sent(f"tg:{OWNER}", "Other", "--id", "one")
    assert (code, "was used for a different request" in hint) == (1, True)
    code, _, hint = await sent("tg:999", "Hi")
    assert (code, "doesn't know the chat '999'" in hint) == (1, True)
    code, _, hint = await sent("telegram", "Hi")
    assert (code, "The channel 'tg' has no home chat. Send /home" in hint) == (1, True)
    telegram.world.say(OWNER, "/home")
    await until(telegram, lambda: "now arrive in this chat" in telegram.world.chat(OWNER).texts()[-1])
    (folder / "a.txt").write_text("abc")
    assert (await sent("telegram", long, "--file", str(folder / "a.txt")))[:2] == (0, "Delivered.\n")
    texts = telegram.world.chat(OWNER).texts()[before:]
    assert (texts[0], len(texts), len("".join(texts[2:4]).split())) == ("Hi", 4, 1_500)
    (document,) = [one.parameters["document"] for one in telegram.world.done("sendDocument")]
    assert document == ("a.txt", b"abc")
    code, _, hint = await sent("tg", "")
    assert (code, "Nothing to send" in hint) == (1, True)
    os.mkfifo(folder / "pipe")  # whose other end no one opens
    for path, why in ((folder / "pipe", "not a regular file"), (Path("/dev/zero"), "not a regular file")):
        code, _, hint = await sent("tg", "--file", str(path))
        assert (code, str(path) in hint, why in hint) == (1, True, True), hint


async def test_without_a_server_nothing_is_said_to_be_connected(tmp_path: Path) -> None:
    """P14: a channel that nobody holds is off, whatever it was before; and every command says so."""
    async with FakeTelegram() as telegram, ChaosServer([Say("hello")]) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        with (tmp_path / "holdfast.toml").open("a", encoding="utf-8") as file:
            file.write(CHANNEL.format(token=telegram.token, url=telegram.url, allow=f'"{ME}"'))
        async with serving(tmp_path):
            telegram.world.say(ME, "hi")
            await until(telegram, lambda: bool(telegram.world.chat(ME).texts()))
            assert re.search(r"tg +telegram +connected", (await said_by(tmp_path, "list"))[1])
        _, out, _ = await said_by(tmp_path, "list")
        assert re.search(r"tg +telegram +off", out)
        assert "tg: No server is running this channel. Start" in out
        code, out, _ = await said_by(tmp_path, "test", "tg", str(ME))
        assert code != 0
        assert "No server is running this channel" in out
        assert "No server is running this channel" in (await said_by(tmp_path, "pair", "tg"))[2]
        ended = await command(tmp_path, "send", f"tg:{ME}", "Later")
        assert (ended.code, "it's sent when you start" in ended.err) == (4, True)
        async with serving(tmp_path):
            telegram.world.say(ME, "again")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 3)
        assert "Later" in telegram.world.chat(ME).texts()
        assert "It works" not in str(telegram.world.chat(ME).texts()), "what was refused isn't sent later"
