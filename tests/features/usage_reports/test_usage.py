"""GET /api/usage, the records of relayed calls, and the budgets of keys."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from features.relay.relaying import PATHS, WIRES, body_for, relaying, target_on
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Hang, Say, Wait
from holdfast.config.server import KeySettings
from holdfast.folds.usage import DAY_MS
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.targets import Wire
from holdfast.values import RELAY
from serving import Served, Setting
from stores import MemoryStore
from tables import for_each_row

LAPTOP, ADMIN = "hf-laptop-key-0123456789", "hf-admin-key-0123456789"
SCRIPTS = [[Say("ok")]] * 6
KEYS = (ApiKey("laptop", LAPTOP), ApiKey("admin", ADMIN))
AS_LAPTOP = {"authorization": f"Bearer {LAPTOP}"}
AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}


def setting(disk: MemoryDisk | None = None, **limits: KeySettings) -> Setting:
    options = ServerOptions(
        keys=KEYS, key_settings={"*" if name == "every" else name: one for name, one in limits.items()}
    )
    return Setting(options=options, store=MemoryStore(disk or MemoryDisk()))


async def usage(server: Served, query: str = "") -> dict[str, Any]:
    answer = await server.call("GET", f"/api/usage{query}", headers=AS_ADMIN)
    assert answer.status == 200, answer.body
    return answer.json


async def ask(
    server: Served, *, stream: bool = False, wire: Wire = "chat", by: Mapping[str, str] = AS_LAPTOP
) -> int:
    body = body_for(wire, stream=stream)
    answer = await server.call("POST", PATHS[wire], body=body, headers=by)
    return answer.status


@for_each_row("wire", WIRES)
async def test_stopped_runs_use_up_the_budget_of_their_key(wire: Wire) -> None:
    """P10, P12: a provider that never reported usage has the request, so stopping each run isn't free."""
    async with (
        ChaosServer(*[[Say("x" * 400), Hang()]] * 9) as chaos,
        relaying(
            target_on(chaos, wire),
            setting=setting(laptop=KeySettings(name="laptop", budget_tokens_per_day=250)),
        ) as server,
    ):
        stopped = 0
        for stopped in range(9):
            started = await server.call("POST", "/v1/runs", body={"input": "hi"}, headers=AS_LAPTOP)
            if started.status == 429:
                break
            assert await chaos.seen.until_request(stopped + 1)
            path = f"/v1/runs/{started.json['run_id']}"
            await server.call("POST", f"{path}/stop", headers=AS_LAPTOP)
            await server.call("GET", f"{path}/events", headers=AS_LAPTOP)
        assert 1 <= stopped <= 6
        assert (await usage(server))["totals"]["input_tokens"] > 0


async def test_runs_and_relayed_calls_are_added_up_for_every_view() -> None:
    async with (
        ChaosServer(*SCRIPTS) as chaos,
        relaying(target_on(chaos, "chat"), setting=setting()) as server,
    ):
        assert await ask(server) == 200
        body = {"model": "holdfast", "messages": [{"role": "user", "content": "hi"}]}
        answer = await server.call("POST", PATHS["chat"], body=body, headers=AS_ADMIN)
        assert answer.status == 200
        by_key = await usage(server, "?by=key")
        rows = {row["key"]: row for row in by_key["rows"]}
        assert (rows["laptop"]["relayed_calls"], rows["laptop"]["runs"]) == (1, 0)
        assert (rows["admin"]["relayed_calls"], rows["admin"]["runs"]) == (0, 1)
        assert rows["laptop"]["input_tokens"] > 0
        assert rows["laptop"]["cost_usd"] is None
        assert rows["laptop"]["unpriced_calls"] == 1
        totals = by_key["totals"]
        assert totals == (await usage(server, "?by=session"))["totals"]
        assert totals["input_tokens"] == sum(row["input_tokens"] for row in rows.values())
        by_target = {row["key"]: row for row in (await usage(server, "?by=target"))["rows"]}
        assert (by_target["main"]["relayed_calls"], by_target["main"]["runs"]) == (1, 1)
        today = datetime.now(UTC).date().isoformat()
        days = await usage(server)
        assert [row["key"] for row in days["rows"]] == [today]
        assert (days["by"], days["to"], days["budgets"]) == ("day", today, [])
        assert (await usage(server, "?from=2020-01-01&to=2020-02-01"))["rows"] == []


async def test_usage_needs_the_scope_admin_and_names_what_is_wrong() -> None:
    async with (
        ChaosServer(*SCRIPTS) as chaos,
        relaying(target_on(chaos, "chat"), setting=setting()) as server,
    ):
        made = await server.call(
            "POST", "/api/keys", body={"name": "chatter", "scopes": ["chat"]}, headers=AS_ADMIN
        )
        chatter = {"authorization": f"Bearer {made.json['key']}"}
        refused = await server.call("GET", "/api/usage", headers=chatter)
        assert (refused.status, refused.code) == (403, "missing_scope")
        person = await server.signed_in(key=ADMIN)
        assert (await server.call("GET", "/api/usage", headers=person)).status == 200
        for query in (
            "by=month",
            "from=yesterday",
            "from=2026-02-01&to=2026-01-01",
            "from=2020-01-01&to=2026-01-01",
        ):
            bad = await server.call("GET", f"/api/usage?{query}", headers=AS_ADMIN)
            assert bad.status == 400, query
            assert bad.json["error"]["param"] in query


async def test_each_call_leaves_one_record_before_its_response_ends() -> None:
    disk = MemoryDisk()
    async with ChaosServer(*SCRIPTS) as chaos:
        for wire in WIRES:
            target = target_on(chaos, wire)
            async with relaying(target, setting=setting(disk)) as server:
                for stream in (False, True):
                    assert await ask(server, wire=wire, stream=stream) == 200
    (session,) = [row for row in disk.sessions.values() if row.source == RELAY]
    events = [record.event for record in disk.logs[session.session_id]]
    records = [event for event in events if isinstance(event, e.RelayCalled)]
    assert [record.wire for record in records] == [
        "chat",
        "chat",
        "responses",
        "responses",
        "anthropic",
        "anthropic",
    ]
    assert {(record.key, record.target, record.outcome, record.attempts) for record in records} == {
        ("laptop", "main", "completed", 1)
    }
    assert all(record.input_tokens and record.output_tokens for record in records)
    # A chat stream reports its usage only to clients that ask for it.
    assert [record.estimated for record in records] == [False, True, False, False, False, False]


async def test_with_keep_none_nothing_is_stored() -> None:
    disk = MemoryDisk()
    async with (
        ChaosServer(*SCRIPTS) as chaos,
        relaying(target_on(chaos, "chat"), setting=setting(disk), keep="none") as server,
    ):
        assert await ask(server) == 200
    assert not disk.sessions
    assert not disk.usage


async def test_records_can_be_read_exported_and_deleted_and_new_ones_follow() -> None:
    disk = MemoryDisk()
    async with (
        ChaosServer(*SCRIPTS) as chaos,
        relaying(target_on(chaos, "chat"), setting=setting(disk)) as server,
    ):
        assert await ask(server) == 200
        (row,) = (await usage(server, "?by=session"))["rows"]
        assert row["label"].startswith("Calls relayed for laptop on ")
        path = f"/api/sessions/{row['key']}"
        exported = await server.call("GET", f"{path}/export", headers=AS_ADMIN)
        assert [event["type"] for event in exported.json["events"]] == ["session.created", "relay.called"]
        listed = await server.call("GET", "/api/sessions", headers=AS_ADMIN)
        assert listed.json["data"] == []
        assert (await server.call("DELETE", path, headers=AS_ADMIN)).status == 200
        assert await ask(server) == 200
        rows = (await usage(server, "?by=session"))["rows"]
        assert [one["key"] for one in rows] == [f"{row['key']}_2"]
        assert (await usage(server))["totals"]["relayed_calls"] == 2


async def test_a_key_over_its_budget_is_told_when_it_resets_also_after_a_restart() -> None:
    disk, limits = MemoryDisk(), KeySettings(name="laptop", budget_tokens_per_day=5)
    async with ChaosServer(*SCRIPTS) as chaos:
        async with relaying(target_on(chaos, "anthropic"), setting=setting(disk, laptop=limits)) as server:
            assert await ask(server, wire="anthropic") == 200
        async with relaying(target_on(chaos, "anthropic"), setting=setting(disk, laptop=limits)) as server:
            refused = await server.call(
                "POST", PATHS["anthropic"], body=body_for("anthropic"), headers=AS_LAPTOP
            )
            assert refused.status == 429
            assert refused.json["type"] == "error"
            assert refused.json["error"]["type"] == "rate_limit_error"
            assert "It resets at 00:00 UTC" in refused.json["error"]["message"]
            assert 0 < int(refused.headers["Retry-After"]) <= 86_400
            run = await server.call("POST", "/v1/runs", body={"input": "hi"}, headers=AS_LAPTOP)
            assert (run.status, run.code) == (429, "budget_exhausted")
            assert await ask(server, wire="anthropic", by=AS_ADMIN) == 200
            (budget,) = (await usage(server))["budgets"]
            assert (budget["key"], budget["limit_tokens"], budget["limit_usd"]) == ("laptop", 5, None)
            assert budget["used_tokens"] > 5
            assert budget["resets_at"] % 86_400 == 0
        assert len(chaos.record.requests) == 2


async def test_a_run_counts_for_the_key_that_starts_it_in_whatever_way() -> None:
    """P10: so nobody uses up another key's budget, or starts runs past its own."""
    limits = KeySettings(name="laptop", budget_tokens_per_day=5)
    async with (
        ChaosServer(*SCRIPTS) as chaos,
        relaying(target_on(chaos, "chat"), setting=setting(laptop=limits)) as server,
    ):
        body = {"input": "hi"}
        assert (await server.call("POST", "/api/sessions/s/chat", body=body, headers=AS_ADMIN)).status == 200
        _, runs = await server.get("/v1/runs", **AS_ADMIN)
        run = f"/v1/runs/{runs['data'][0]['run_id']}"
        retried = await server.call("POST", f"{run}/retry", headers=AS_LAPTOP)
        assert retried.status == 202
        events = f"{server.url}/v1/runs/{retried.json['run_id']}/events"
        async with server.http.get(events, headers=AS_ADMIN) as stream:
            await stream.read()
        rows = {row["key"]: row["runs"] for row in (await usage(server, "?by=key"))["rows"]}
        assert rows == {"admin": 1, "laptop": 1}
        for path, sent in (
            (f"{run}/retry", None),
            (f"{run}/steer", {"message": "more", "mode": "queue"}),
            ("/api/sessions/s/compact", None),
            ("/api/sessions/s/chat", body),
        ):
            refused = await server.call("POST", path, body=sent, headers=AS_LAPTOP)
            assert (refused.status, refused.code) == (429, "budget_exhausted"), path


async def test_calls_at_once_use_no_more_than_a_budget_and_the_next_follow_when_they_have_ended() -> None:
    gate, limits = Gate(), KeySettings(name="laptop", budget_tokens_per_day=1100)
    async with (
        ChaosServer([Wait(gate), Say("ok")], after_last="repeat") as chaos,
        relaying(target_on(chaos, "chat"), setting=setting(laptop=limits)) as server,
    ):
        first = asyncio.create_task(ask(server))
        await gate.reached()
        second = asyncio.create_task(ask(server, wire="anthropic"))  # translated
        await chaos.seen.until_request(2)
        refused = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=AS_LAPTOP)
        assert (refused.status, refused.code) == (429, "budget_in_use")
        assert refused.headers["Retry-After"] == "5"
        gate.open()
        assert [await first, await second, await ask(server)] == [200, 200, 200]
        assert (await usage(server))["totals"]["relayed_calls"] == 3


async def test_a_budget_is_of_one_day() -> None:
    disk, clock = MemoryDisk(), Tomorrow()
    async with ChaosServer(*SCRIPTS) as chaos:
        limited = setting(
            disk, laptop=KeySettings(name="laptop", budget_usd_per_day=0.01, budget_tokens_per_day=5)
        )
        async with relaying(target_on(chaos, "chat"), setting=replace(limited, clock=clock)) as server:
            assert await ask(server) == 200
            assert await ask(server) == 429
            clock.days = 1
            assert await ask(server) == 200


async def test_a_key_stores_only_so_many_bytes_of_attachments_in_a_day() -> None:
    """P10: uploaded or inside a message, and at no other key's cost."""
    clock = Tomorrow()
    limited = replace(setting(), clock=clock)
    limited = replace(limited, options=replace(limited.options, limits=Limits(upload_bytes_per_day=10)))
    inline = [
        {
            "role": "user",
            "content": [{"type": "file", "file": {"file_data": "data:text/plain;base64,aGVsbG8="}}],
        }
    ]

    async with ChaosServer(*SCRIPTS) as chaos, relaying(target_on(chaos, "chat"), setting=limited) as server:

        async def upload(by: Mapping[str, str]) -> int:
            return (await server.call("POST", "/api/blobs", body=b"123456", headers=by)).status

        assert [await upload(AS_LAPTOP), await upload(AS_LAPTOP), await upload(AS_ADMIN)] == [201, 429, 201]
        refused = await server.call("POST", "/v1/runs", body={"input": inline}, headers=AS_LAPTOP)
        assert (refused.status, refused.code) == (429, "upload_quota_reached")
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400
        clock.days = 1
        assert await upload(AS_LAPTOP) == 201


async def test_limits_for_a_name_that_no_key_has_are_reported_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = KeySettings(name="laptop", budget_tokens_per_day=5)
    async with relaying(setting=setting(laptop=limits, lapto=limits, every=limits)):
        pass
    told = [record.getMessage() for record in caplog.records if "[[keys]]" in record.getMessage()]
    assert len(told) == 1
    assert "'lapto'" in told[0]


async def test_a_key_may_make_so_many_requests_a_minute() -> None:
    limited = setting(every=KeySettings(name="laptop", requests_per_minute=2))
    async with ChaosServer(*SCRIPTS) as chaos, relaying(target_on(chaos, "chat"), setting=limited) as server:
        assert [await ask(server) for _ in range(3)] == [200, 200, 429]
        refused = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=AS_LAPTOP)
        assert refused.code == "too_many_requests"
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert await ask(server, by=AS_ADMIN) == 200


class Tomorrow(SystemClock):
    """The system's clock, some days later."""

    days = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.days * DAY_MS
