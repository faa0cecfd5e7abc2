"""Moves a full home of hermes-agent: all of the folder is in the report, and the agent is who it was."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes.telegram import FakeTelegram
from features.hermes_import.home import TALK, data_dir, make_database, make_page_session
from features.hermes_import.whole_home import CODEX_HOME, CONFIG, ENV, fill, write
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.features.hermes_import.command import import_hermes
from runner.program import Program, program

ME = 42
KEY, KEY_OF_CODER = "the-key-of-the-api-server", "key-of-the-profile-coder"
OF_AGENT, OF_PAGE = 150, 50
SHORT = [{"role": "user", "content": "Hello, xylophone."}, {"role": "assistant", "content": "Hello, person."}]
FATES = ("moved", "left", "unknown")


def as_itself(request: SeenRequest) -> Script:
    """A model that says who it's told to be, and what it's told about the person."""
    body: Any = request.body
    told = json.dumps(body["messages"])
    names = [name for name in ("Ada", "Coder") if f"You are {name}" in told]
    knows = [word for word in ("oolong", "Write notes") if word in told]
    return [Say(f"I am {names} on {body['model']}, and I know {knows}.")]


def fill_all(home: Path, *, url: str, token: str) -> None:
    """The home of the other test, with 200 more conversations, a Codex sign-in and three odd profiles."""
    fill(home)
    (home / "state.db").unlink()
    make_database(home, {"s1": TALK} | {f"agent-{nth}": SHORT for nth in range(1, OF_AGENT)})
    for nth in range(OF_PAGE):
        make_page_session(home, f"page-{nth}")
    fallback = "fallback_providers: [{provider: openai-codex, model: gpt-5.4}]\n"
    write(home / "config.yaml", CONFIG.replace("http://127.0.0.1:4000/v1", url) + fallback)
    bot = re.sub("BOT_TOKEN=.*", f"BOT_TOKEN={token}", ENV)
    write(home / ".env", bot)
    write(home / "auth.json", json.dumps(CODEX_HOME))
    coder = home / "profiles" / "coder"
    write(
        coder / "config.yaml",
        f"model: {{default: m, provider: p}}\nproviders: {{p: {{base_url: '{url}'}}}}\n",
    )
    write(coder / ".env", f"API_SERVER_KEY={KEY_OF_CODER}\nTELEGRAM_BOT_TOKEN={token}\n")  # as a clone has it
    write(home / "profiles" / "new" / "SOUL.md", "You are New.")  # as `hermes profile create` leaves it
    write(home / "profiles" / "My Own" / "SOUL.md", "You are no one.")


def sections(report: str) -> Mapping[str, list[str]]:
    """The lines of the report by profile."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for line in report.splitlines():
        if match := re.fullmatch(r"profile (\S+):", line):
            found[name := match[1]] = []
        else:
            found[name].append(line)
    return found


def items(lines: list[str], *, fates: tuple[str, ...] = FATES) -> set[str]:
    """The files and folders that a report lists."""
    found: list[str] = []
    for line in lines:
        fate, _, rest = line.partition(": ")
        names, _, why = rest.partition(": ")
        if fate in fates:
            assert fate == "moved" or why, line
            found += names.split(", ")
    return set(found)


def unreported(folder: Path, listed: set[str], *, below: str = "") -> list[str]:
    """The files of a home that the report mentions neither by name nor by folder."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    own = [path for path in paths if not below or not str(path).startswith(below)]
    return [str(path) for path in own if not {str(path), *map(str, path.parents)} & listed]


@asynccontextmanager
async def serving(home: Path, telegram: FakeTelegram) -> AsyncGenerator[Program]:
    """The server that a person starts after the import, with the fake in place of Telegram."""
    folder = home.parent / ".config" / "holdfast"
    file = folder / "holdfast.toml"
    text = file.read_text().replace("port = 9000", "port = 0")
    text = text.replace('kind = "telegram"', f'kind = "telegram"\nbase_url = "{telegram.url}"')
    file.write_text(f'{text}\n[sandbox]\nmode = "off"\n')
    (coder := folder / "profiles" / "coder" / "holdfast.toml").write_text(
        f'{coder.read_text()}\n[sandbox]\nmode = "off"\n'
    )
    async with program(folder) as server:
        yield server


async def answer(server: Program, path: str, headers: Mapping[str, str]) -> str:
    """The answer to a message that starts a session."""
    body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "Who are you?"}]}
    status, shown = await server.call("POST", path, body, headers=headers)
    while status == 503:  # a profile opens
        status, shown = await server.call("POST", path, body, headers=headers)
    assert status == 200, shown
    return shown["choices"][0]["message"]["content"]


async def test_a_full_home_is_reported_whole_and_its_agent_answers_everywhere_as_itself(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=as_itself) as chaos:
        fill_all(home, url=chaos.base_url, token=telegram.token)
        assert await asyncio.to_thread(import_hermes, None, {}, how="do") == 0
        report = sections(capsys.readouterr().out)
        assert report.keys() == {"", "coder", "new"}
        for name, lines in report.items():
            folder = home / "profiles" / name if name else home
            listed = items(lines)
            assert unreported(folder, listed, below="" if name else "profiles/") == []
            assert [one for one in items(lines, fates=("moved",)) if not (folder / one).exists()] == []
            assert not [line for line in lines if line.startswith("left: sign-ins")]
        main = "\n".join(report[""])
        assert f"{OF_AGENT + OF_PAGE + 1} sessions imported" in main
        assert "target openai-codex: gpt-5.4 at" in main
        assert (data_dir(home) / "sign-ins" / "codex.json").exists()
        assert {"profiles/coder", "profiles/new", "profiles/My Own"} <= items(report[""])
        (bot,) = [line for line in report["coder"] if "telegram" in line]
        assert bot.startswith("left: telegram: the main configuration has the same bot")
        assert "left: .env: TELEGRAM_BOT_TOKEN: see [[channels]]" in report["coder"]
        assert "next: add a model as [[targets]], because none was imported" in report["new"]

        async with serving(home, telegram) as server:
            bearer = {"Authorization": f"Bearer {KEY}", "X-Hermes-Session-Id": "of-a-client"}
            ada = "I am ['Ada'] on hermes-4, and I know ['oolong', 'Write notes']."
            assert await answer(server, "/v1/chat/completions", bearer) == ada
            coder = {"Authorization": f"Bearer {KEY_OF_CODER}", "X-Hermes-Session-Id": "of-a-client"}
            assert (
                await answer(server, "/p/coder/v1/chat/completions", coder)
                == "I am ['Coder'] on m, and I know []."
            )
            await check_page(server, ada)
            await check_telegram(server, telegram, ada)


async def check_page(server: Program, ada: str) -> None:
    """The requests of the page: sign in, list and search the conversations, and continue one."""
    async with server.http.get(server.url) as page:
        assert "Holdfast" in await page.text()
    async with server.http.post(f"{server.url}/api/sign-in", json={"key": KEY}) as signed:
        cookie = signed.headers["Set-Cookie"].partition(";")[0]
        headers = {"Cookie": cookie, "X-Holdfast-Page": (await signed.json())["page"]}
    sources: list[str] = []
    for page_of in (0, 1):
        path = f"/api/sessions?limit=200&offset={200 * page_of}"
        sources += [one["source"] for one in (await server.call("GET", path, headers=headers))[1]["data"]]
    assert sources.count("hermes") == OF_AGENT + OF_PAGE + 1
    _, found = await server.call("GET", "/api/sessions?q=xylophone&limit=200", headers=headers)
    assert len(found["data"]) == OF_AGENT - 1
    body = {"input": "Who are you?", "session_id": "page-7", "origin": "page"}
    _, started = await server.call("POST", "/v1/runs", body, headers=headers)
    path = f"/v1/runs/{started['run_id']}/events"
    async with server.http.get(server.url + path, headers=headers) as events:
        assert "run.completed" in await events.text()
    _, run = await server.call("GET", f"/v1/runs/{started['run_id']}", headers=headers)
    assert run["output"] == ada


async def check_telegram(server: Program, telegram: FakeTelegram, ada: str) -> None:
    """The person of the allow list talks to it, and a job sends its result to the home chat."""

    async def told(text: str) -> None:
        await telegram.world.changed.until(
            lambda: any(text in one for one in telegram.world.chat(ME).texts())
        )

    telegram.world.say(ME, "Who are you?")
    await told(ada)
    headers = {"Authorization": f"Bearer {KEY}"}
    _, triggers = await server.call("GET", "/api/triggers", headers=headers)
    assert {one["name"]: one["state"] for one in triggers["data"]} == dict.fromkeys(
        ("digest", "hourly", "report"), "paused"
    )
    (digest,) = [one["id"] for one in triggers["data"] if one["name"] == "digest"]
    status, _ = await server.call("POST", f"/api/triggers/{digest}/run", {}, headers=headers)
    assert status == 202
    await told(f"From digest:\n\n{ada}")
