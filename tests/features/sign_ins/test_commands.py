"""`holdfast auth`, and a server that uses the sign-in: as processes, at a fake issuer and backend."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from fakes.exchanges import Hold
from fakes.issuer import ACCOUNT, CodexBackend, FakeIssuer, Refusal
from forked import fork
from holdfast.chaos import ChaosServer, Gate, Say
from holdfast.features.sign_ins.tokens import FOLDER, Tokens
from holdfast.interfaces.system_clock import SystemClock
from runner.program import program
from tables import for_each_row

from .world import PATH, RENEW, keep, tokens_of, vault_in

CONFIG = """
[server]
data_dir = "{folder}/data"
api_keys = []
port = 0
[agent]
title_target = "off"
[sandbox]
mode = "off"
{targets}
[[sign_ins]]
name = "{name}"
issuer = "{issuer}"
"""
TARGET = """
[[targets]]
name = "main"
wire = "{wire}"
base_url = "{base_url}"
model = "m"
auth = "{name}"
"""


def configure(folder: Path, issuer: FakeIssuer, *, name: str = "codex", targets: str = "") -> None:
    text = CONFIG.format(folder=folder, issuer=issuer.url, name=name, targets=targets)
    (folder / "holdfast.toml").write_text(text)


def codex_target(server: ChaosServer) -> str:
    return TARGET.format(wire="responses", base_url=f"{server.url}{PATH}", name="codex")


async def auth(folder: Path, *words: str) -> tuple[int, str]:
    """Run `holdfast auth`: its exit code, and all that it printed."""
    command = await fork("auth", *words, "--config", "holdfast.toml", cwd=folder)
    printed, errors = await command.communicate()
    return await command.wait(), (printed + errors).decode()


def token_file(folder: Path, name: str = "codex") -> Path:
    return folder / "data" / FOLDER / f"{name}.json"


DIALECTS = [
    ("codex", "/codex/device", "responses", PATH),
    ("copilot", "/device", "chat", ""),
    ("nous", "/device", "chat", "/v1"),
]


@for_each_row("name, page, wire, path", DIALECTS)
async def test_a_person_signs_in_with_a_code_uses_the_sign_in_and_signs_out(
    name: str, page: str, wire: str, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """P11: the tokens are in one file that only its owner can read, and in nothing that is printed."""
    folder = tmp_path_factory.mktemp(name)
    async with FakeIssuer() as issuer, ChaosServer([Say("hello")]) as server:
        configure(folder, issuer, name=name)
        command = await fork("auth", "login", name, "--config", "holdfast.toml", cwd=folder)
        assert command.stdout is not None
        line = (await command.stdout.readline()).decode()
        assert line == f"Open {issuer.url}{page} and enter the code ABCD-EFGH\n"
        issuer.approved = True
        printed, errors = await command.communicate()
        assert await command.wait() == 0, errors.decode()
        assert f'auth = "{name}"' in printed.decode(), "what to add to the configuration"
        file = token_file(folder, name)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        base_url = issuer.url if name == "copilot" else f"{server.url}{path}"
        configure(folder, issuer, name=name, targets=TARGET.format(wire=wire, base_url=base_url, name=name))
        status, said = await auth(folder, "status")
        assert status == 0
        assert any(row.split()[:3] == [name, "signed", "in;"] for row in said.splitlines()), said
        secrets = [*issuer.sessions[0].access, issuer.sessions[0].refresh_token]
        assert not [secret for secret in secrets if secret in said + printed.decode() + errors.decode()]
        assert (await auth(folder, "logout", name))[0] == 0
        assert not file.exists()
        assert issuer.sessions[0].is_revoked == (name == "codex"), "if the issuer can revoke it"


async def test_copilot_exchanges_its_token_and_sends_what_its_api_requires(tmp_path: Path) -> None:
    async with ChaosServer([Say("hello")]) as server, FakeIssuer(life_s=1500) as issuer:
        target = TARGET.format(wire="chat", base_url=server.url, name="copilot")
        configure(tmp_path, issuer, name="copilot", targets=target)
        session = issuer.sign_in()
        session.access.clear()
        await keep(tmp_path / "data", Tokens(refresh_token=session.refresh_token), name="copilot")
        async with program(tmp_path) as running:
            run_id = await running.start("hi")
            assert (await running.until(run_id, "run.ended")).data["outcome"] == "completed"
    (request,) = server.seen.requests
    assert request.path == "/chat/completions"
    assert {
        name: request.headers.get(name)
        for name in ("authorization", "copilot-integration-id", "x-initiator", "openai-intent")
    } == {
        "authorization": f"Bearer {session.access[0]}",
        "copilot-integration-id": "vscode-chat",
        "x-initiator": "agent",
        "openai-intent": "conversation-edits",
    }
    assert request.headers["editor-version"].startswith("holdfast/")


async def test_nous_takes_the_refresh_token_in_a_header(tmp_path: Path) -> None:
    async with FakeIssuer(life_s=900) as issuer, ChaosServer([Say("hello")]) as server:
        target = TARGET.format(wire="chat", base_url=f"{server.url}/v1", name="nous")
        configure(tmp_path, issuer, name="nous", targets=target)
        session = issuer.sign_in()
        await keep(tmp_path / "data", Tokens(refresh_token=session.refresh_token), name="nous")
        async with program(tmp_path) as running:
            run_id = await running.start("hi")
            assert (await running.until(run_id, "run.ended")).data["outcome"] == "completed"
        assert issuer.asked("/api/oauth/token") == [
            {"grant_type": "refresh_token", "client_id": "hermes-cli"}
        ]
        assert server.seen.requests[0].headers["authorization"] == f"Bearer {session.access[1]}"


async def test_a_sign_in_that_cannot_begin_or_is_refused_says_why(tmp_path: Path) -> None:
    """P12."""
    async with FakeIssuer() as issuer:
        configure(tmp_path, issuer)
        status, said = await auth(tmp_path, "login", "claude")
        assert status == 1
        assert "its terms reserve it for Anthropic's own apps" in said
        status, said = await auth(tmp_path, "login", "gemini")
        assert (status, "choose one of codex, copilot, nous" in said) == (1, True)
        issuer.scripts["/api/accounts/deviceauth/token"] = [[_Denied()]]
        status, said = await auth(tmp_path, "login", "codex")
        assert status == 1
        assert "refused the sign-in: 400: because of access_denied" in said
        assert not token_file(tmp_path).exists()
        status, said = await auth(tmp_path, "logout", "codex")
        assert (status, "You weren't signed in" in said) == (1, True)


class _Denied:
    """The person has refused."""

    async def perform(self, exchange: object) -> None:
        del exchange
        raise Refusal(400, {"error": "access_denied", "error_description": "because of access_denied"})


async def test_the_sign_in_of_the_codex_cli_is_copied_and_never_written(tmp_path: Path) -> None:
    async with FakeIssuer() as issuer, ChaosServer(choose=CodexBackend(issuer)) as server:
        configure(tmp_path, issuer, targets=codex_target(server))
        session = issuer.sign_in()
        tokens = {
            "access_token": session.access[0],
            "refresh_token": session.refresh_token,
            "account_id": ACCOUNT,
        }
        file = tmp_path / "auth.json"
        file.write_text(
            json.dumps({"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2026-11-01T00:00:00Z"})
        )
        before = file.read_bytes()
        status, said = await auth(tmp_path, "import", str(file))
        assert status == 0, said
        assert "signs the other out" in said
        async with program(tmp_path) as running:
            run_id = await running.start("hi")
            assert (await running.until(run_id, "run.ended")).data["outcome"] == "completed"
        assert file.read_bytes() == before
        file.write_text(json.dumps({"OPENAI_API_KEY": "sk-of-the-platform", "tokens": None}))
        status, said = await auth(tmp_path, "import", str(file))
        assert (status, "an API key isn't a sign-in" in said) == (1, True)


async def test_a_token_in_an_answer_reaches_neither_the_log_nor_anybody(tmp_path: Path) -> None:
    """P11: also one that the server has only just been given."""
    async with FakeIssuer() as issuer:
        session = issuer.sign_in()
        stale = tokens_of(issuer, SystemClock(), left_s=-1)
        backend = CodexBackend(issuer)
        async with ChaosServer(
            choose=lambda request: [Say(session.access[-1])] if backend(request) else []
        ) as server:
            configure(tmp_path, issuer, targets=codex_target(server))
            await keep(tmp_path / "data", stale)
            async with program(tmp_path) as running:
                run_id = await running.start("hi")
                await running.until(run_id, "run.ended")
                _, shown = await running.call("GET", f"/v1/runs/{run_id}")
                assert shown["output"] == "[redacted]"
        assert len(session.access) == 2
        database = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("holdfast.*"))
        assert b"credential.refreshed" in database
        assert not [one for one in (*session.access, session.refresh_token) if one.encode() in database]


async def test_kill_9_between_renewal_and_store_keeps_the_newer_token(tmp_path: Path) -> None:
    """P6: a run that comes after it isn't signed out."""
    gate = Gate()
    async with FakeIssuer() as issuer, ChaosServer(choose=CodexBackend(issuer)) as server:
        configure(tmp_path, issuer, targets=codex_target(server))
        session = issuer.sign_in()
        await keep(tmp_path / "data", tokens_of(issuer, SystemClock(), left_s=-1))
        issuer.scripts[RENEW] = [[Hold(gate)]]
        file = token_file(tmp_path)
        async with program(tmp_path) as running:
            run_id = await running.start("hi")
            await gate.reached()
            kept = await asyncio.to_thread(file.rename, file.with_suffix(".kept"))
            await asyncio.to_thread(file.mkdir)  # so that nothing can be stored there
            gate.open()
            assert (await running.until(run_id, "run.ended")).data["outcome"] == "completed"
            running.process.kill()
            await running.process.wait()
        await asyncio.to_thread(file.rmdir)
        await asyncio.to_thread(kept.rename, file)
        async with program(tmp_path) as running:
            run_id = await running.start("hi")
            assert (await running.until(run_id, "run.ended")).data["outcome"] == "completed"
        assert len(issuer.asked(RENEW)) == 1
        assert not session.is_revoked
        stored = await vault_in(tmp_path / "data").read()
        assert stored is not None
        assert stored.refresh_token == session.refresh_token


async def test_doctor_and_status_tell_a_sign_in_that_works_from_one_that_does_not(tmp_path: Path) -> None:
    async with FakeIssuer() as issuer, ChaosServer(choose=CodexBackend(issuer)) as server:
        configure(tmp_path, issuer, targets=codex_target(server))

        async def doctor() -> str:
            command = await fork("doctor", "--config", "holdfast.toml", cwd=tmp_path)
            printed, _ = await command.communicate()
            return printed.decode()

        said = await doctor()
        assert (
            "fault target main: you aren't signed in to codex\n      run `holdfast auth login codex`" in said
        )
        issuer.sign_in()
        await keep(tmp_path / "data", tokens_of(issuer, SystemClock(), left_s=-1))
        assert "ok    target main: m answered" in await doctor()
        issuer.sessions[0].is_revoked = True
        await keep(tmp_path / "data", tokens_of(issuer, SystemClock(), left_s=-1))
        said = await doctor()
        assert "no longer accepts the sign-in (401: revoked); run `holdfast auth login codex`" in said
