"""Putting a server together: what is set reaches those whom it is for."""

import asyncio
from pathlib import Path

import pytest

from config.given import loaded
from holdfast.config.approvals import ApprovalSettings
from holdfast.config.server import LimitSettings, ServerSettings
from holdfast.config.settings import AgentSettings, Settings
from holdfast.config.target_secrets import secrets_of
from holdfast.host.assembly import open_application, open_parts
from holdfast.host.http_server import serving
from holdfast.host.known_secrets import mcp_secrets_of


async def test_where_nobody_is_there_to_ask_model_calls_may_try_for_longer(tmp_path: Path) -> None:
    """P3: ten minutes after the last progress, or thirty."""
    for mode in ("ask", "unattended"):
        settings = Settings(
            server=ServerSettings(data_dir=str(tmp_path)),
            agent=AgentSettings(workspace=str(tmp_path)),
            approvals=ApprovalSettings(mode=mode),
        )
        async with open_parts(settings, keys=None, config=None) as parts:
            assert parts.unattended is (mode == "unattended")


def test_only_what_is_a_key_by_its_name_and_no_ordinary_word_is_kept_out_of_the_journal() -> None:
    """P11: what a local server takes for a key, or the name of a project, stays readable in answers."""
    text = """
[[targets]]
name = "here"
wire = "chat"
base_url = "http://127.0.0.1:11434/v1"
model = "m"
api_key = "ollama"
headers = { HTTP-Referer = "https://holdfast.example.com", X-Title = "the walrus project", \
Authorization = "Bearer header-0123456789abcdef" }
[[targets]]
name = "here too"
wire = "chat"
base_url = "http://127.0.0.1:8080/v1"
model = "m"
headers = { Authorization = "Bearer llama.cpp" }
[[targets]]
name = "far"
wire = "chat"
base_url = "https://models.example.com/v1"
model = "m"
api_key = "sk-short"
headers = { x-portkey-provider = "anthropic", Authorization = "Api-Key other-0123456789abcdef" }
[[targets]]
name = "near"
wire = "chat"
base_url = "http://10.0.0.5/v1"
model = "m"
api_key = "hunter2-hunter2"
"""
    assert list(secrets_of(loaded(text).settings.model_targets())) == [
        "Bearer header-0123456789abcdef",
        "header-0123456789abcdef",
        "sk-short",
        "Api-Key other-0123456789abcdef",
        "other-0123456789abcdef",
        "hunter2-hunter2",
    ]


def test_what_mcp_servers_are_given_and_looks_like_a_key_is_kept_out_of_the_journal() -> None:
    """P11: a server that repeats its own key in an error gives it away otherwise."""
    text = """
[[mcp_servers]]
name = "started"
command = ["a", "--token", "word-0123456789abcdef", "--mode=repositories-and-issues", "-H", "X-Key: in-head"]
env = { GITHUB_TOKEN = "ghp_0123456789abcdef", DB_PASSWORD = "hunter2hunter2", MAX_TOKENS = "100000", \
GIT_AUTHOR_NAME = "Ada Maria Lovelace", DATA_DIR = "/home/u/a/long/way/down" }
[[mcp_servers]]
name = "called"
url = "https://a.example/mcp?key=query-0123456789abcdef&toolset=repositories-and-issues"
headers = { Authorization = "Bearer header-0123456789abcdef", Accept = "application/json", X-Api-Key = " ", \
X-Thing = "thing-0123456789abcdef", X-Mode = "fast", X-Title = "https://app.example.com/a" }
"""
    assert set(mcp_secrets_of(loaded(text).settings.mcp_servers)) == {
        "ghp_0123456789abcdef",
        "hunter2hunter2",
        "word-0123456789abcdef",
        "in-head",
        "query-0123456789abcdef",
        "Bearer header-0123456789abcdef",
        "header-0123456789abcdef",
        "thing-0123456789abcdef",
    }


async def test_a_spool_that_nothing_can_be_kept_in_is_told_at_the_start(tmp_path: Path) -> None:
    """P1: on the day that the disk is full it would be too late."""
    (tmp_path / "file").touch()
    settings = Settings(
        server=ServerSettings(data_dir=str(tmp_path), spool_dir=str(tmp_path / "file" / "spool"))
    )
    with pytest.raises(OSError, match="can't write to spool_dir"):
        async with open_application(settings, keys=None, config=None):
            pass
    assert not (tmp_path / "holdfast.db").exists()


async def test_a_limit_of_0_seconds_is_no_limit(tmp_path: Path) -> None:
    """P3: the reference says that 0 turns these two off."""
    settings = Settings(
        server=ServerSettings(
            data_dir=str(tmp_path), api_keys=(), limits=LimitSettings(header_s=0, body_s=0)
        ),
        agent=AgentSettings(workspace=str(tmp_path)),
    )
    async with open_application(settings, keys=None, config=None) as app, serving(app) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = "POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n"
        writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n", (
            "it waits for the body"
        )
        writer.write(b'{"title": "slow"}')
        assert (await reader.readline()).split()[1] == b"201"
        writer.close()
        await writer.wait_closed()
