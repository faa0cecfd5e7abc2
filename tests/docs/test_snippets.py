"""Every shell and Python block of the documents runs, as it stands, against a real server."""

import ast
import asyncio
import builtins
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

import holdfast
from docs.reading import CONFIG, DOCS, PAGES, ROOT, all_blocks, blocks
from features.hermes_import.home import TALK, make_database
from features.mcp_client.scene import McpCall, run, servers
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.cli.demo.server import clean_environment
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.testing import ScriptedModel

SHELL = (
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in ("quick-start", "operations", "migrating-from-hermes")),
    *(DOCS / f"{name}.md" for name in ("hooks", "custom-commands")),
)
TRIGGERS = (DOCS / "automations.md", DOCS / "recipes" / "nightly-report.md")
AGENTS = DOCS / "agents.md"
REVIEW = DOCS / "recipes" / "pr-review.md"
PYTHON = (ROOT / "README.md", DOCS / "python.md")
TOOL = DOCS / "tutorials.md"
PORT = "8642"
# A program imports what it uses before its event loop runs.
IMPORTED = (holdfast.Agent, ScriptedModel)


def _hello(request: SeenRequest) -> Script:
    if "final_answer" in str((request.body or {}).get("tools")):
        return [CallTool("final_answer", {"name": "Bern", "country": "Switzerland"})]
    return [Say("hello, reader")]


@asynccontextmanager
async def server_of(home: Path) -> AsyncGenerator[tuple[dict[str, str], str]]:
    """A server for the user of this home: their environment, and its address."""
    programs = f"{Path(sys.executable).parent}:{clean_environment()['PATH']}"
    environ = {
        **clean_environment(),
        "HOME": str(home),
        "PATH": programs,
        "HOLDFAST_CONFIG": f"{home}/mine.toml",
    }
    environ.pop("XDG_CONFIG_HOME", None)
    async with ChaosServer(choose=_hello) as chaos:
        await asyncio.to_thread((home / "mine.toml").write_text, CONFIG.format(url=chaos.base_url))
        process = await asyncio.create_subprocess_exec(
            *("holdfast", "serve"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environ,
            cwd=home,
        )
        assert process.stdout is not None
        try:
            greeting = (await process.stdout.readline()).decode()
            yield environ, next(word for word in greeting.split() if word.startswith("http://"))
        finally:
            process.terminate()
            await process.communicate()


async def run_blocks(documents: Sequence[Path], folder: Path) -> None:
    """Run all shell blocks of the documents, as one script each."""
    async with server_of(folder) as (environ, url):
        for document in documents:
            texts = blocks(document, "sh")
            assert texts, document
            script = "set -eu\n" + "\n".join(texts)
            script = script.replace(f"127.0.0.1:{PORT}", url.removeprefix("http://")).replace(
                ".venv/bin/", ""
            )
            shell = await asyncio.create_subprocess_exec(
                *("bash", "-c", script),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environ,
                cwd=folder,
            )
            out, _ = await shell.communicate()
            assert shell.returncode == 0, f"{document.name}:\n{out.decode()}"


@pytest.mark.release
@pytest.mark.long
@pytest.mark.timeout(300)  # some twenty processes, one after the other
async def test_every_shell_block_runs(tmp_path: Path) -> None:
    await asyncio.to_thread(make_database, tmp_path / ".hermes", {"s1": TALK})
    await run_blocks(SHELL, tmp_path)
    shown = await asyncio.to_thread(os.listdir, tmp_path)
    assert {"backup", "conversation.md", "conversation.json", "laptop.key", "report.json"} <= set(shown)


@pytest.mark.release
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_shell_blocks_about_triggers_run(tmp_path: Path) -> None:
    await run_blocks(TRIGGERS, tmp_path)


@pytest.mark.release
async def test_the_shell_blocks_about_named_agents_run(tmp_path: Path) -> None:
    await run_blocks([AGENTS], tmp_path)


@pytest.mark.release
async def test_the_review_of_a_pull_request_runs(tmp_path: Path) -> None:
    for command in ("init", "add .", "commit --allow-empty -m one", "commit --allow-empty -m two"):
        who = ("-c", "user.name=n", "-c", "user.email=e@example.com")
        process = await asyncio.create_subprocess_exec("git", *who, *command.split(), cwd=tmp_path)
        assert await process.wait() == 0
    await run_blocks([REVIEW], tmp_path)
    assert await asyncio.to_thread((tmp_path / "review.md").read_text) == "hello, reader\n"


def test_every_block_is_run_or_says_why_not() -> None:
    """A block in another spelling of its language would be skipped, so there's one spelling of each."""
    run = {
        "sh": {*SHELL, *TRIGGERS, AGENTS, REVIEW},
        "python": {*PYTHON, TOOL, DOCS / "guard.md"},
    }  # tests/guard has the last
    for page in PAGES:
        for block in all_blocks(page):
            name = page.relative_to(ROOT)
            assert block.language not in {"py", "python3", "bash", "shell", "zsh"}, name
            if block.no_run:
                print(f"{name}: not run, because {block.no_run}:\n{block.text}")  # noqa: T201
            elif block.language in run:
                assert page in run[block.language], f"no test runs this block of {name}:\n{block.text}"


@pytest.mark.release
async def test_the_tool_of_the_tutorial_can_be_called(tmp_path: Path) -> None:
    """With the version of mcp that is installed, and the configuration below it."""
    (text,) = await asyncio.to_thread(blocks, TOOL, "python")
    await asyncio.to_thread((tmp_path / "weather.py").write_text, text)
    (table,) = [text for text in await asyncio.to_thread(blocks, TOOL, "toml") if "weather.py" in text]
    assert 'command = ["python", ' in table
    config = McpServerConfig(name="weather", command=(sys.executable, str(tmp_path / "weather.py")))
    async with servers(config) as of:
        result = await run(of, "temperature", McpCall(workspace=tmp_path), label="weather", city="Rome")
    assert "21 °C in Rome" in result.text


def _compiled(text: str) -> CodeType:
    return compile(text, "<snippet>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.release
@pytest.mark.parametrize("document", PYTHON, ids=lambda path: path.name)
async def test_every_python_block_runs(
    document: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = await asyncio.to_thread(blocks, document, "python")
    assert texts
    needs_server = any(PORT in text for text in texts)
    monkeypatch.chdir(tmp_path)  # where the snippets keep their files
    monkeypatch.setenv("HOME", str(tmp_path))
    async with ChaosServer(choose=_hello) as chaos:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-nobody")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", chaos.url)
        if not needs_server:
            await _run_all(texts)
        else:
            async with server_of(tmp_path) as (_, url):
                await _run_all([text.replace(f"http://127.0.0.1:{PORT}", url) for text in texts])
    assert "hello, reader" in capsys.readouterr().out


async def _run_all(texts: list[str]) -> None:
    for text in texts:
        code = _compiled(text)
        names: dict[str, Any] = {"__name__": "snippet", "__builtins__": builtins}
        sys.modules.pop("snippet", None)
        called = FunctionType(code, names)()
        if code.co_flags & CO_COROUTINE:
            await called
