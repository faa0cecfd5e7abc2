"""Health and discovery."""

import asyncio
from pathlib import Path

from holdfast.api.server import SandboxShown
from holdfast.chaos import ChaosServer
from holdfast.interfaces.journal import JournalError, StoreClosed, StoreUnreachable
from holdfast.server.options import ServerOptions
from holdfast.server.page import read_page
from serving import Setting, served, target_of
from stores import MemoryStore


async def test_the_detailed_health_says_how_it_is(tmp_path: Path) -> None:
    sandbox = SandboxShown(backend="none", holds=False, network="off", says="There is no sandbox.")
    options = ServerOptions(data_dir=tmp_path, sandbox=lambda: sandbox)
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(options=options)) as server:
        _, health = await server.get("/health/detailed")
        assert health["status"] == "ok"
        assert health["store"]["writable"] is True
        assert health["disk"]["free_bytes"] > 0
        assert health["sandbox"]["says"] == "There is no sandbox."
        assert (await server.get("/v1/capabilities"))[1]["sandbox"] == health["sandbox"]
        assert health["active_sessions"] == health["open_streams"] == 0
        assert health["targets"] == [
            {
                "name": "main",
                "model": "m",
                "wire": "chat",
                "context_window": 200_000,
                "gated_ms": 0,
                "silent_ms": 0,
            }
        ]


async def test_capabilities_name_only_routes_that_are_there() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, capabilities = await server.get("/v1/capabilities")
        assert capabilities["object"] == "hermes.api_server.capabilities"
        scopes = ["chat", "approve", "admin", "relay"]
        assert capabilities["auth"] == {"type": "bearer", "required": False, "scopes": scopes}
        features = capabilities["features"]
        assert (
            features["run_submission"] is features["approval_identity_v1"] is features["idempotency"] is True
        )
        assert features["skills_api"] is True
        assert features["jobs_api"] is features["model_options"] is True
        assert features["cors"] is False
        for endpoint in capabilities["endpoints"].values():
            path = endpoint["path"].replace("{run_id}", "run_x").replace("{session_id}", "x")
            answer = await server.call(endpoint["method"], path, body=b"{}")
            if answer.status in {404, 405}:
                assert answer.code in {"run_not_found", "session_not_found"}, path


async def test_metrics_are_in_the_form_that_prometheus_reads() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        text = (await server.call("GET", "/metrics")).body.decode()
        assert "# TYPE holdfast_open_streams gauge\nholdfast_open_streams 0.0\n" in text


async def test_the_description_names_every_route_and_the_fields_of_its_body() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, document = await server.get("/openapi.json")
        assert document["openapi"].startswith("3.1")
        started = document["paths"]["/v1/runs"]["post"]
        schema = started["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert "conversation_history" in document["components"]["schemas"][schema]["properties"]
        assert {"get", "patch", "delete"} <= set(document["paths"]["/api/sessions/{session_id}"])
        assert b"/v1/runs" in (await server.call("GET", "/docs")).body


async def test_the_page_is_served_to_everyone_and_its_urls_lead_to_it(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>page")
    (tmp_path / "app.js").write_text("1")
    options = ServerOptions(page=await asyncio.to_thread(read_page, tmp_path), keys=())
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(options=options)) as server:
        for path in ("/", "/s/some-session"):
            answer = await server.call("GET", path)
            assert (answer.status, answer.body) == (200, b"<!doctype html>page")
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        script = await server.call("GET", "/app.js")
        assert script.headers["Content-Type"].startswith("text/javascript")
        assert (await server.call("GET", "/missing.js")).code == "not_found"
        assert (await server.call("GET", "/..%2f..%2fetc/passwd")).status in {200, 404}
        assert (await server.call("GET", "/v1/toolsets")).code == "invalid_api_key"


class Away(MemoryStore):
    """A store whose database comes and goes."""

    away: JournalError | None = None
    bucket_away: JournalError | None = None

    def __init__(self) -> None:
        super().__init__()
        self.helpers: dict[str, str] = {}

    @property
    def trouble(self) -> JournalError | None:
        return self.away

    @property
    def blob_trouble(self) -> JournalError | None:
        return self.bucket_away

    @property
    def failing(self) -> dict[str, str]:
        return self.helpers


async def test_a_server_whose_database_is_away_is_alive_but_not_ready_until_it_is_back() -> None:
    store = Away()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        assert (await server.get("/health/ready"))[0] == 200
        store.away = StoreUnreachable("the database at db.internal is away")
        answer = await server.call("GET", "/health/ready")
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "not_ready", "1")
        assert "db.internal" not in answer.body.decode()
        assert (await server.get("/health"))[0] == 200
        _, health = await server.get("/health/detailed")
        assert (health["status"], health["store"]["writable"], health["store"]["late"]) == (
            "degraded",
            False,
            True,
        )
        assert "db.internal" in health["store"]["error"]
        store.away = StoreClosed("a bug of ours")
        closed = await server.call("GET", "/health")
        assert (closed.status, closed.code) == (503, "store_closed")
        store.away = None
        assert (await server.get("/health/ready"))[0] == 200
        assert (await server.get("/health"))[0] == 200
        assert (await server.get("/health/detailed"))[1]["status"] == "ok"
        store.helpers = {"change listener": "RuntimeError('a bug of ours')"}
        health = (await server.get("/health/detailed"))[1]
        assert (health["status"], [one["name"] for one in health["failing_tasks"]]) == (
            "degraded",
            ["change listener"],
        )
    await store.close()


async def test_a_server_whose_bucket_is_away_works_and_says_so() -> None:
    store = Away()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        store.bucket_away = StoreUnreachable("the object store can't be used")
        assert (await server.get("/health/ready"))[0] == 200
        _, health = await server.get("/health/detailed")
        assert (health["status"], health["store"]["writable"]) == ("degraded", True)
        assert health["store"]["blobs"] == "the object store can't be used"
        store.bucket_away = None
        _, health = await server.get("/health/detailed")
        assert (health["status"], "blobs" in health["store"]) == ("ok", False)
    await store.close()
