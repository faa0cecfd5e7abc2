"""Servers that share a store, over HTTP: who they are, and what becomes of a session whose own is gone."""

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from runner.memory_nodes import Cluster, homed_elsewhere
from serving import Setting, served, target_of


async def test_the_servers_that_share_a_store_are_listed() -> None:
    cluster = Cluster()
    store = cluster.join("a", "shared")
    cluster.join("b")
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(store=store)) as server:
        status, listed = await server.get("/api/nodes")
    assert status == 200
    assert [(one["name"], one["is_this"]) for one in listed["data"]] == [("a", True), ("b", False)]
    assert listed["data"][0]["homes"] == ["node:a", "volume:shared"]


async def test_a_server_that_has_the_store_to_itself_is_listed_without_a_name() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        status, listed = await server.get("/api/nodes")
    (one,) = listed["data"]
    assert (status, one["name"], one["is_this"], one["lease_left_s"]) == (200, "", True, None)


async def test_a_session_whose_server_is_gone_says_so_and_goes_on_once_it_is_moved() -> None:
    """P6: nobody continues it by guess, and nothing about it is a secret."""
    store = await homed_elsewhere("s")
    async with (
        ChaosServer([Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(store=store)) as server,
    ):
        _, shown = await server.get("/v1/runs/r1")
        assert "Waiting for server a, which has been gone since 2023-11-14" in shown["mark"]
        _, page = await server.get("/api/sessions/s/messages")
        assert "server a" in page["marks"]["r1"]
        assert page["is_away"]
        status, _ = await server.post("/api/sessions/s/move")
        assert status == 200
        async for records in store.follow("s"):
            ends = [one.event for one in records if isinstance(one.event, e.RunEnded)]
            if ends:
                assert ends[0].outcome == "completed"
                break
        status, refused = await server.post("/api/sessions/s/move")
        assert (status, refused["error"]["code"]) == (409, "session_not_away")


async def test_a_run_that_no_server_can_continue_says_what_is_missing_and_can_be_stopped() -> None:
    """P3, P5: nobody has to guess why nothing happens."""
    store = await homed_elsewhere("s", tool="mcp__jira__search", home="")
    store.is_away, store.offers = False, ("target:main=1", "tool:shell", "mcp:wiki=2")
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(store=store)) as server:
        said = "Waiting for a server that has the MCP server jira: no running server does"
        _, shown = await server.get("/v1/runs/r1")
        assert shown["mark"].startswith(said)
        _, page = await server.get("/api/sessions/s/messages")
        assert page["marks"]["r1"].startswith(said)
        await server.post("/v1/runs/r1/stop")
        assert (await server.ended("r1"))["status"] == "cancelled"


async def test_what_servers_have_set_up_differently_is_listed() -> None:
    cluster = Cluster()
    store, other = cluster.join("a"), cluster.join("b")
    store.offers, other.offers = (
        ("target:main=1", "tool:shell"),
        ("target:main=2", "tool:shell", "mcp:wiki=3"),
    )
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(store=store)) as server:
        _, listed = await server.get("/api/nodes")
    assert [one.get("lacks", []) for one in listed["data"]] == [["mcp:wiki", "target:main"], ["target:main"]]
