"""Targets that nobody wrote down: known keys, servers on this machine, and the knobs of hermes-agent."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from config.given import TARGET, given, loaded
from holdfast.chaos.serve import closed_port
from holdfast.config.known_targets import (
    FoundServer,
    KnownKey,
    KnownTargets,
    LocalServer,
    shipped_known,
)
from holdfast.config.load import load, load_or_probe
from holdfast.config.local_servers import probe_local
from holdfast.config.value_formats import format_error
from holdfast.targets import Patience
from stream_server import stream_server
from tables import for_each_row

SHIPPED = shipped_known()


def test_the_data_file_is_in_order() -> None:
    names = [one.name for one in (*SHIPPED.known, *SHIPPED.local)]
    assert len(set(names)) == len(names)
    assert {key.variable for key in SHIPPED.known} >= {
        f"{maker}_API_KEY"
        for maker in ("OPENAI", "ANTHROPIC", "OPENROUTER", "GROQ", "MISTRAL", "DEEPSEEK", "XAI", "GEMINI")
    }
    for one in (*SHIPPED.known, *SHIPPED.local):
        assert format_error("url", one.base_url) == ""
    assert all(urlsplit(key.base_url).scheme == "https" for key in SHIPPED.known)


@pytest.mark.parametrize("key", SHIPPED.known, ids=lambda key: key.name)
def test_each_known_key_makes_a_target(key: KnownKey) -> None:
    it = loaded(environ={key.variable: "sk-1"})
    (target,) = it.settings.model_targets()
    assert (target.name, target.api_key) == (key.name, "sk-1")
    assert str(it.sources.of(("targets", 0, "model"))) == key.variable
    assert it.warnings == ()


def test_known_keys_make_targets_in_the_order_of_the_data_file_and_empty_ones_none() -> None:
    it = loaded(environ={"GROQ_API_KEY": "g", "OPENAI_API_KEY": "o", "XAI_API_KEY": " "})
    assert [target.name for target in it.settings.targets] == ["openai", "groq"]
    assert not it.is_demo


def test_a_written_target_leaves_known_keys_alone_and_an_empty_list_does_not() -> None:
    environ = {"OPENAI_API_KEY": "o"}
    assert [target.name for target in loaded(TARGET, environ=environ).settings.targets] == ["main"]
    assert [target.name for target in loaded("targets = []", environ=environ).settings.targets] == ["openai"]


def test_a_key_for_another_address_is_sent_nowhere_else() -> None:
    environ = {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    it = loaded(environ=environ)
    (target,) = it.settings.targets
    assert (target.base_url, target.wire) == ("http://127.0.0.1:9/v1", "chat")
    assert str(it.sources.of(("targets", 0, "base_url"))) == "OPENAI_BASE_URL"
    usual = loaded(environ={"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "https://api.openai.com/v1/"})
    assert usual.settings.targets[0].wire == "responses"


def test_the_model_of_the_default_target_can_be_chosen_from_outside() -> None:
    two = TARGET + TARGET.replace("main", "other")
    environ = {"HOLDFAST_MODEL": "by-variable"}
    assert [target.model for target in loaded(two, environ=environ).settings.targets] == ["by-variable", "m"]
    it = load(given(two, environ=environ, flags={"model": "by-flag"}))
    assert (it.settings.targets[0].model, str(it.sources.of(("targets", 0, "model")))) == (
        "by-flag",
        "--model",
    )


HERMES = {
    "HERMES_CODEX_TTFB_TIMEOUT_SECONDS": "30",
    "HERMES_CODEX_TTFB_MAX_SECONDS": "0",
    "HERMES_CODEX_EVENT_STALE_TIMEOUT_SECONDS": "-1",
    "HERMES_CODEX_TTFB_STRICT": "yes",
    "HERMES_STREAM_STALE_TIMEOUT": "60.5",
}


def test_the_knobs_of_hermes_agent_reach_the_targets_of_their_wires() -> None:
    text = TARGET.replace('"chat"', '"responses"') + TARGET.replace("main", "b")
    text += TARGET.replace('"chat"', '"anthropic"').replace("main", "c")
    it = loaded(text, environ=HERMES)
    responses, chat, anthropic = (target.patience for target in it.settings.model_targets())
    assert responses == Patience(first_event_s=30, first_event_cap_s=0, gap_s=0, strict=True)
    assert chat == anthropic == Patience(gap_s=60.5)
    path = ("targets", 0, "patience", "strict")
    assert str(it.sources.of(path)) == "HERMES_CODEX_TTFB_STRICT (of hermes-agent)"
    assert it.notes == ()


def test_other_variables_of_hermes_agent_limit_retries_and_local_targets() -> None:
    local = TARGET.replace("main", "near").replace("https://models.example.com", "http://127.0.0.1:1")
    codex = TARGET.replace('"chat"', '"responses"').replace("main", "codex")
    environ = {
        "HERMES_LOCAL_STREAM_STALE_TIMEOUT": "900",
        "HERMES_STREAM_STALE_TIMEOUT": "60",
        "HERMES_STREAM_RETRIES": "4",
        "HERMES_API_TIMEOUT": "1800",
        "HERMES_CODEX_HARD_TIMEOUT_SECONDS": "1500",
        "HERMES_CODEX_TTFB_DISABLE_ABOVE_TOKENS": "0",
        "HERMES_MAX_ITERATIONS": "30",
        "API_SERVER_CORS_ORIGINS": "http://a.example, http://b.example",
        "API_SERVER_MODEL_NAME": "ada",
        "HERMES_HOME": "/home/ann/.hermes",
        "HERMES_YOLO_MODE": "1",
    }
    it = loaded(TARGET + local + codex, environ=environ)
    far, near, last = it.settings.model_targets()
    assert far.patience == Patience(first_event_cap_s=1800, gap_s=60)
    assert near.patience == Patience(first_event_cap_s=1800, gap_s=900)
    assert last.patience == Patience(first_event_cap_s=1500, strict=True)
    assert {one.retry.attempts_per_target_max for one in (far, near, last)} == {5}
    server, agent = it.settings.server, it.settings.agent
    assert (agent.turns_max, server.model_name) == (30, "ada")
    assert server.cors_origins == ("http://a.example", "http://b.example")
    assert it.notes == (
        (
            "HERMES_API_TIMEOUT has no effect on target 3: "
            "HERMES_CODEX_HARD_TIMEOUT_SECONDS sets first_event_cap_s"
        ),
        "HERMES_STREAM_STALE_TIMEOUT has no effect on target 2: HERMES_LOCAL_STREAM_STALE_TIMEOUT sets gap_s",
        "HERMES_YOLO_MODE has no effect: Holdfast has no such setting",
    )


def test_own_settings_beat_the_knobs_of_hermes_agent_and_that_is_noted() -> None:
    text = TARGET + "[targets.patience]\ngap_s = 5\n"
    it = loaded(text, environ={"HERMES_STREAM_STALE_TIMEOUT": "60", "HERMES_CODEX_TTFB_STRICT": "1"})
    assert it.settings.targets[0].patience.gap_s == 5
    assert it.notes == (
        "HERMES_CODEX_TTFB_STRICT has no effect: no target uses the wire responses",
        "HERMES_STREAM_STALE_TIMEOUT has no effect on target 1, which sets gap_s",
    )


@for_each_row("value", ["soon", "nan", "inf"])
def test_a_knob_of_another_program_that_is_no_number_does_not_keep_us_from_starting(value: str) -> None:
    it = loaded(TARGET, environ={"HERMES_STREAM_STALE_TIMEOUT": value, "API_SERVER_PORT": value})
    assert it.settings.targets[0].patience.gap_s is None
    assert [note.partition(":")[0] for note in it.notes] == [
        "API_SERVER_PORT has no effect",
        "HERMES_STREAM_STALE_TIMEOUT has no effect",
    ]


def test_the_server_of_hermes_agent_is_taken_over_where_nothing_of_our_own_is_given() -> None:
    key, host = "a-key-from-the-old-days", "192.168.1.2"
    environ = {"API_SERVER_KEY": key, "API_SERVER_HOST": host, "API_SERVER_PORT": "9000"}
    server = loaded(environ=environ).settings.server
    assert (server.api_keys, server.host, server.port) == ((key,), host, 9000)
    it = loaded("[server]\nport = 1\n", environ=environ)
    assert it.settings.server.port == 1
    assert it.notes == ("API_SERVER_PORT has no effect: port is set by /etc/hf/holdfast.toml, line 2",)


@asynccontextmanager
async def serving(answer: object, *, status: int = 200) -> AsyncGenerator[LocalServer]:
    """A model server on loopback that lists this."""

    async def models(request: web.Request) -> web.Response:
        del request
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        return web.Response(body=body, status=status)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield LocalServer(
            name=f"at-{port}", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", context_window=9
        )
    finally:
        await runner.cleanup()


def knowing(*local: LocalServer) -> KnownTargets:
    """The data file, with these servers on this machine."""
    return msgspec.structs.replace(SHIPPED, local=local)


def listing(*models: str) -> object:
    return {"object": "list", "data": [{"id": model, "object": "model"} for model in models]}


async def test_a_server_on_this_machine_is_found_with_its_first_model_that_chats() -> None:
    async with (
        serving(listing("nomic-embed-text", "qwen", "llama")) as first,
        serving(listing("gpt-oss")) as second,
    ):
        found = await probe_local(knowing(first, second), patience_s=10)
        assert found == (FoundServer(first, "qwen"), FoundServer(second, "gpt-oss"))
        preferred = await probe_local(knowing(first, second), preferred="gpt-oss", patience_s=10)
        assert preferred == (FoundServer(second, "gpt-oss"), FoundServer(first, "qwen"))


@for_each_row("answer", [listing(), listing("text-embed"), [], {"data": 1}, b"<html>", b"\xff", b""])
async def test_what_lists_no_model_for_chat_is_no_server(answer: object) -> None:
    async with serving(answer) as other:
        assert await probe_local(knowing(other), patience_s=10) == ()


async def test_a_server_that_refuses_or_is_not_there_is_no_server() -> None:
    async with serving(listing("m"), status=401) as closed:
        with closed_port() as port:
            nowhere = msgspec.structs.replace(closed, base_url=f"http://127.0.0.1:{port}/v1")
            assert await probe_local(knowing(closed, nowhere), patience_s=10) == ()


async def test_a_server_that_never_answers_is_given_up_on() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with stream_server(silent) as port:
        hung = LocalServer(name="x", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", context_window=9)
        assert await probe_local(knowing(hung), patience_s=0.05) == ()


async def test_without_target_and_key_the_servers_of_this_machine_become_targets() -> None:
    async with serving(listing("a", "b")) as server:
        what = given("", environ={"HOLDFAST_MODEL": "b", "HERMES_STREAM_STALE_TIMEOUT": "7"})
        it = await asyncio.to_thread(load_or_probe, what, known=knowing(server))
        (target,) = it.settings.model_targets()
        assert (target.name, target.model, target.context_window) == (server.name, "b", 9)
        assert target.patience.gap_s == 7
        assert str(it.sources.of(("targets", 0))) == f"found at {server.base_url}"
    assert (await asyncio.to_thread(load_or_probe, given(""), known=knowing())).is_demo
    kept = await asyncio.to_thread(load_or_probe, given(TARGET), known=knowing(server))
    assert kept.settings.targets[0].name == "main"
