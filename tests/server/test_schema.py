"""The description of the API and the API: every answer to whatever fits the description is as described."""

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis.configuration import storage_directory

from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.chaos.steps import Finish
from holdfast.server.options import ApiKey, Limits, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of
from stores import SqliteStore

SECRET = "a-key-for-the-fuzzer"  # noqa: S105  # the key of a server that lives for a test
KEY = {"Authorization": f"Bearer {SECRET}"}
SEED = 20_240_602
HOOKS = Path(__file__).with_name("schema_hooks.py")
_NO_BRACES = str.maketrans("", "", "{}")
OPTIONS = ServerOptions(keys=(ApiKey("fuzzer", SECRET),), limits=Limits(heartbeat_s=0.2))


# Streams without an end; and, to save time, other names and forms of routes that are tried anyway.
LEFT_OUT = (
    r"^/api/events$|^/api/sessions/\{session_id\}/(events|chat|chat/stream)$|/(cancel|steer)$|^/v1/health$"
    r"|^/hooks/"  # whoever can't sign gets one answer only
)


# A schema can't describe the language of schedules: cron, durations, and instants that must lie ahead.
BEYOND_A_SCHEMA = ("POST /api/jobs", "POST /api/triggers", "POST /api/triggers/preview")


async def known_ids(server: Served) -> str:
    """Ids of things that are there, as the fuzzer's configuration, so that requests get further than 404."""
    _, ended = await server.post("/v1/runs", {"input": "hi", "session_id": "quiet"}, **KEY)
    await server.call("GET", f"/v1/runs/{ended['run_id']}/events", headers=KEY)
    _, waiting = await server.post("/v1/runs", {"input": "ask", "session_id": "busy"}, **KEY)
    approval_id = await asked_for(server, waiting["run_id"])
    _, queued = await server.post("/v1/runs", {"input": "later", "session_id": "busy"}, **KEY)
    _, key = await server.post("/api/keys", {"name": "spare"}, **KEY)
    _, blob = await server.post("/api/blobs", b"some bytes", **KEY)
    everywhere = {
        "path.run_id": ended["run_id"],
        "path.session_id": "quiet",
        "path.response_id": ended["run_id"].replace("run_", "resp_"),
        "path.blob": blob["blob"],
        "path.name": key["name"],
    }
    asked = {"path.run_id": waiting["run_id"], "path.approval_id": approval_id}
    busy = {"path.session_id": "busy", "path.message_id": queued["message_id"]}
    doomed = {"path.session_id": "doomed"}
    await server.post("/v1/runs", {"input": "hi", "session_id": "doomed"}, **KEY)
    parts = ["[parameters]", *_lines(everywhere)]
    for where, ids in (
        ('include-path-regex = "/(approval|question|messages|gate)"', asked),
        ('include-path-regex = "/queue"', busy),
        ('include-name = "DELETE /api/sessions/{session_id}"', doomed),
    ):
        parts += ["[[operations]]", where, "[operations.parameters]", *_lines(ids)]
    return "\n".join(parts)


async def asked_for(server: Served, run_id: str) -> str:
    """The id of the approval that the run asks for."""
    async with aclosing(server.follow(f"/v1/runs/{run_id}/events", headers=KEY)) as frames:
        async for frame in frames:
            if frame.data["event"] == "approval.request":
                return frame.data["approval_id"]
    raise AssertionError("the run ended without asking")


def _lines(ids: dict[str, str]) -> list[str]:
    return [f"{json.dumps(name)} = {json.dumps(known)}" for name, known in ids.items()]


async def schemathesis(server: Served, folder: Path, part: str) -> tuple[int, str]:
    """Its exit code and what it printed."""
    config = folder / "schemathesis.toml"
    (folder / HOOKS.name).symlink_to(HOOKS)
    known = await known_ids(server)
    await asyncio.to_thread(config.write_text, CONFIGS[part].format(known=known), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
        *(f"{server.url}/openapi.json", "--header", f"Authorization: Bearer {SECRET}"),
        *("--generation-database", "none", "--request-timeout", "10", "--no-color", "--warnings", "off"),
        *("--seed", str(SEED), *PARTS[part]),
        cwd=folder,
        # Its tables of characters take a second to compute, and are kept there.
        env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(storage_directory().path.resolve())},  # noqa: TID251
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:  # the test was too slow, and the next one needs the CPU
            process.kill()
            await process.wait()
    return process.returncode or 0, printed.decode()


# Bodies of twenty fields have thousands of systematic cases; some that are drawn are enough. Everything else
# has all of its systematic cases, right and wrong, and so needs none that are drawn.
DRAWN = [
    "POST /v1/runs",
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /v1/responses/input_tokens",
    "POST /api/triggers/preview",
]
ANY = f"""
{{known}}
[[operations]]
include-name = {json.dumps(DRAWN)}
phases.coverage.enabled = false
generation.max-examples = 4
[[operations]]
exclude-name = {json.dumps(DRAWN)}
phases.fuzzing.enabled = false
"""
ANY_CHECKS = (
    *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
    *("--phases", "coverage,fuzzing", "--exclude-path-regex"),
)
CONFIGS = {"any of v1": ANY, "any other": ANY, "valid": f'hooks = "{HOOKS.stem}"\n{{known}}'}
# The fuzzer takes many seconds of CPU, so a part is as small as a busy machine needs it.
PARTS = {
    "any of v1": (*ANY_CHECKS, rf"{LEFT_OUT}|^/(?!v1/)"),
    "any other": (*ANY_CHECKS, rf"{LEFT_OUT}|^/v1/"),
    # What fits the description isn't refused for its shape.
    "valid": (
        *("--mode", "positive", "--checks", "all", "--phases", "fuzzing", "--max-examples", "2"),
        *("--exclude-path-regex", LEFT_OUT),
        *(word for name in BEYOND_A_SCHEMA for word in ("--exclude-name", name)),
    ),
}


@pytest.mark.long
@pytest.mark.timeout(300)  # two processes take turns a thousand times, which is slow at ten programs per core
@pytest.mark.parametrize("part", PARTS)
async def test_answers_are_as_described_whatever_is_asked(part: str, tmp_path: Path) -> None:
    """P12, P11: no failure of ours, no undescribed status, type or shape, no way in without the key."""
    store = await SqliteStore.open(tmp_path / "holdfast.db")

    def answer(seen: Any) -> Any:
        asks = any(message.get("content") == "ask" for message in seen.body["messages"])
        return [CallTool("touch", {})] if asks else [Say("## Task\nx"), Finish()]

    # The fuzzer may allow the tool for good, and no other server is to know of that.
    judge = AsksAbout(frozenset({"touch"}))
    async with (
        ChaosServer(choose=answer) as chaos,
        served(
            target_of(chaos),
            store=store,
            setting=Setting(options=OPTIONS, tools=(Counted(),), judge=judge),
        ) as server,
    ):
        code, printed = await schemathesis(server, tmp_path, part)
        assert code == 0, printed
        assert "❌" not in printed
    await store.close()


async def test_every_route_is_described_and_shown_to_people() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, document = await server.get("/openapi.json")
        page = (await server.call("GET", "/docs")).body.decode()
        assert document["components"]["securitySchemes"].keys() == {"key", "cookie", "page"}
        for path, methods in document["paths"].items():
            assert f"<code>{path}</code>" in page
            for method, operation in methods.items():
                assert operation["summary"], path
                good = [status for status in operation["responses"] if status.startswith("2")]
                assert good, (method, path)
                for status, answer in operation["responses"].items():
                    is_empty = status == "204" or (path, status) == ("/mcp", "202")
                    assert is_empty or answer["content"], (method, path, status)
                if method in {"put", "patch"}:
                    assert operation["requestBody"], path
        names = {name for name in document["components"]["schemas"] if f'id="{name.lower()}"' not in page}
        assert not names
        for outside in ("<script", "http://", "https://", "src="):
            assert outside not in page


async def test_the_codes_of_what_is_no_body_are_described_for_every_route_that_takes_one() -> None:
    """P12: a client that switches on codes meets none that it was not told of."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, document = await server.get("/openapi.json")
        tried = 0
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if "application/json" not in operation.get("requestBody", {}).get("content", {}):
                    continue
                if path == "/mcp":
                    continue  # its errors are those of JSON-RPC
                for body in (b"{", b"[" * 100, b"[" + b"0," * 100_001):
                    answer = await server.call(method.upper(), path.translate(_NO_BRACES), body=body)
                    described = operation["responses"][str(answer.status)]["description"]
                    assert answer.code in described.split(", "), (method, path)
                    tried += 1
        assert tried > 30
