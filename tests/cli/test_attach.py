"""A server that is not as expected: silent, of another kind, of another version, or with another key."""

import asyncio
import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer

from holdfast import __version__
from holdfast.api.operation import Scope
from holdfast.chaos import ChaosServer
from holdfast.cli.asks import key_scopes, may_approve
from holdfast.cli.attach import FAILED, check_server, error_text, ignored_settings
from holdfast.client import BadAnswer, Client, ClientPatience, Refused, Unreachable
from holdfast.features.postgres.commands import nodes
from holdfast.host.data_dir import announce, find_data_directory
from holdfast.host.lock import DirectoryLock
from holdfast.server.options import ApiKey, ServerOptions
from serving import Setting, served, target_of
from stream_server import stream_server

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
ONCE = ClientPatience(call_s=0.0)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[str]:
    """The address of something that says this to everyone, or nothing at all."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not answer:
            await reader.read()
        writer.close()

    async with stream_server(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_server_that_says_nothing_is_not_waited_for_longer_than_one_means_to() -> None:
    """P3: a command that only reads goes on without it."""
    async with answering(b"") as url, Client(url) as client:
        with pytest.raises(Unreachable, match=f"no answer from {url} .no response in time"):
            await check_server(client, url, within_s=0.05)


@pytest.mark.parametrize("answer", [b"HTTP/1.0 404 Not Found\r\n\r\n<html>", JSON + b"[]", JSON + b"hello"])
async def test_what_answers_and_is_none_of_ours_is_called_so(answer: bytes) -> None:
    """P12: the port may be somebody else's by now."""
    async with answering(answer) as url, Client(url, patience=ONCE) as client:
        with pytest.raises(BadAnswer, match=f"the program at {url} is not a Holdfast server"):
            await check_server(client, url, within_s=20)


@pytest.mark.parametrize(
    ("version", "words"),
    [(__version__, ""), ("0.0.1", "the server is Holdfast 0.0.1"), ("", "doesn't report its version")],
)
async def test_another_version_is_said_in_one_line_and_the_same_one_is_not(
    capsys: pytest.CaptureFixture[str], version: str, words: str
) -> None:
    """P9: quiet when it works."""
    async with (
        answering(JSON + b'{"status": "ok", "version": "%b"}' % version.encode()) as url,
        Client(url, patience=ONCE) as client,
    ):
        await check_server(client, url, within_s=20)
    told = capsys.readouterr()
    assert (words in told.err, bool(told.err)) == (True, bool(words))
    assert told.out == ""


async def test_a_key_that_the_server_does_not_take_is_said_with_what_to_do() -> None:
    """P11, P12: also without the key itself."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("one", "the-right-key-of-the-server"),)))
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url, "a-wrong-key-that-is-long") as client,
    ):
        with pytest.raises(Refused) as refused:
            await client.runs()
    text = error_text(refused.value)
    assert "use the server's --config" in text
    assert "a-wrong-key" not in text


def test_a_file_that_cannot_be_written_is_named_in_plain_words() -> None:
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "/nowhere/x")
    assert error_text(error) == "/nowhere/x: No such file or directory"
    assert error_text(OSError("the disk is full")) == "the disk is full"


def test_the_list_of_servers_starts_none_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be in the list, and under the name of a running one it would take that one's place."""
    with pytest.raises(typer.Exit) as ended:
        nodes(data_dir=str(tmp_path / "data"))
    assert ended.value.exit_code == FAILED
    assert f"no server is running in {tmp_path}/data" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_configuration_file_that_the_running_server_does_not_use_is_named(tmp_path: Path) -> None:
    """P12: settings that have no effect are not passed over in silence."""
    data, here = tmp_path / "data", tmp_path / "holdfast.toml"
    here.write_text(f'[server]\ndata_dir = "{data}"\n')
    with DirectoryLock(data) as lock:
        directory = find_data_directory({"config": str(here)})
        lock.announce("http://127.0.0.1:8642", config=here)
        assert not ignored_settings(directory)
        lock.announce("http://127.0.0.1:8642", config=tmp_path / "other.toml")
        (note,) = ignored_settings(directory)
        assert f"uses {tmp_path}/other.toml, so {here} has no effect" in note
        lock.announce("http://127.0.0.1:8642")
        (note,) = ignored_settings(directory)
        assert "uses its own settings" in note
        assert not ignored_settings(find_data_directory({"data_dir": str(data), "config": None}))
    assert not ignored_settings(directory), "nobody runs"


def test_a_variable_that_the_running_server_does_not_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P12: a mode that the server was started with, or that only it has, is no reason for a note."""
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "warning")
    flags = {"data_dir": str(tmp_path), "config": None}
    with DirectoryLock(tmp_path) as lock:
        announce(lock, "http://127.0.0.1:8642", find_data_directory(flags).loaded)
        assert ignored_settings(find_data_directory(flags)) == []
        monkeypatch.setenv("HOLDFAST_APPROVALS_MODE", "workspace")
        monkeypatch.delenv("HOLDFAST_LOG_LEVEL")
        (note,) = ignored_settings(find_data_directory(flags))
    assert note.startswith("HOLDFAST_APPROVALS_MODE has no effect: the server at http://127.0.0.1:8642 ")


@pytest.mark.parametrize("scopes", [("chat",), ("chat", "approve")])
async def test_a_key_that_cannot_approve_knows_it(scopes: tuple[Scope, ...]) -> None:
    """P8: nobody is asked for an approval that they can't give."""
    owner = ApiKey("owner", "the-right-key-of-the-server")
    setting = Setting(options=ServerOptions(keys=(owner,)))
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url, owner.secret) as all_powerful,
    ):
        made = await all_powerful.add_key("laptop", scopes)
        async with Client(server.url, made.key) as client:
            assert may_approve(await key_scopes(client)) == ("approve" in scopes)
        assert may_approve(await key_scopes(all_powerful))
