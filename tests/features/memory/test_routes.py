"""Memory over HTTP: each key has its own, and everything about it can be seen, changed and taken back."""

from typing import Any

from features.memory.world import opened
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.memory.memories import Memories, MemoryEdit, chat_scope, skills_scope
from holdfast.features.memory.run import Remember
from holdfast.features.skills.folders import skill_file
from holdfast.interfaces.system_clock import SystemClock
from holdfast.server.options import ApiKey, ServerOptions
from serving import PATIENT, Setting, served, target_of
from stores import MemoryStore

USER = {"scope": "user"}
SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test


async def test_a_memory_is_proposed_accepted_edited_rolled_back_and_forgotten() -> None:
    """P11, P12."""
    remember = CallTool("remember", {"about": "user", "text": "likes tea", "reason": "breakfast"})
    setting = Setting(tools=(Remember(),))
    async with (
        ChaosServer([remember], [Say("you like tea, noted")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):

        async def user() -> dict[str, Any]:
            _, listed = await server.get("/v1/memory")
            return next(one for one in listed["data"] if one["scope"] == "user")

        run_id = await server.start("I like tea", origin="page")
        shown = await server.ended(run_id)
        (proposal,) = (await user())["proposals"]
        assert (proposal["after"], proposal["origin"]["session_id"]) == ("likes tea", shown["session_id"])
        unknown = await server.call("POST", "/v1/memory/decide", body={**USER, "accept": ["chg_x"]})
        assert (unknown.status, unknown.code) == (409, "not_remembered")
        decided = {**USER, "accept": [proposal["change_id"]]}
        assert (await server.post("/v1/memory/decide", decided))[1]["document"] == "likes tea"
        long = await server.call("PUT", "/v1/memory", body={**USER, "text": "x" * 2_001})
        assert (long.status, long.code) == (409, "not_remembered")
        edited = await server.call("PUT", "/v1/memory", body={**USER, "text": "likes green tea"})
        assert edited.json["document"] == "likes green tea"
        _, history = await server.get("/v1/memory/history?scope=user")
        assert [one["how"] for one in history["data"]] == ["edited", "accepted"]
        back = {**USER, "to_seq": history["data"][1]["seq"]}
        assert (await server.post("/v1/memory/rollback", back))[1]["document"] == "likes tea"
        never = await server.call("POST", "/v1/memory/rollback", body={**USER, "to_seq": 99})
        assert (never.status, never.code) == (409, "not_remembered")
        _, gone = await server.post("/v1/memory/forget", {**USER, "text": "tea"})
        assert [one["session_id"] for one in gone["sessions"]] == [shown["session_id"]]
        assert "document" not in await user()
        # It is no conversation: no list and no route of sessions has it.
        assert len((await server.get("/api/sessions?all=true"))[1]["data"]) == 1
        assert (await server.get("/api/sessions?q=tea"))[1]["data"][0]["id"] == shown["session_id"]
        wrong = await server.call("GET", "/v1/memory/history?scope=moon")
        assert (wrong.status, wrong.json["error"]["param"]) == (400, "scope")


LOCKED = ServerOptions(keys=(ApiKey("owner", SECRET),))
OWNER = {"Authorization": f"Bearer {SECRET}"}


async def test_what_someone_types_is_proposed_once_per_key_unless_memory_is_off() -> None:
    """P2, P8."""
    body, once = {**USER, "text": " likes tea "}, {"Idempotency-Key": "k1"}
    store = MemoryStore()
    setting = Setting(store=store, features=opened(store, "ask"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        first = await server.post("/v1/memory/propose", body | {"session_id": "s"}, **once)
        _, shown = again = await server.post("/v1/memory/propose", body | {"session_id": "s"}, **once)
        assert again == first
        (proposal,) = shown["proposals"]
        assert (proposal["after"], proposal["origin"]["session_id"]) == ("likes tea", "s")
        assert not shown.get("document")
        for wrong in ({"text": " "}, {"scope": "skills"}):
            assert (await server.post("/v1/memory/propose", body | wrong))[0] in {400, 409}
    setting = Setting(store=store, features=opened(store, "off"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        assert (await server.post("/v1/memory/propose", body))[0] == 409


async def test_one_change_is_taken_back_alone_and_nobody_overwrites_what_they_havent_seen() -> None:
    """P13, P2."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for text in ("tea", "tea\ncats", "tea\ncats\nRome"):
            shown = await server.call("PUT", "/v1/memory", body={**USER, "text": text})
        seen = shown.json["last_seq"]
        _, history = await server.get("/v1/memory/history?scope=user")
        cats = {**USER, "change_id": history["data"][1]["change_id"]}
        assert (await server.post("/v1/memory/rollback", cats))[1]["document"] == "tea\nRome"
        again = await server.call("POST", "/v1/memory/rollback", body=cats)
        assert (again.status, again.code) == (409, "not_remembered")
        for late in ({"text": "mine"}, {"to_seq": 0}):
            how = ("PUT", "/v1/memory") if "text" in late else ("POST", "/v1/memory/rollback")
            refused = await server.call(*how, body={**USER, **late, "seen_seq": seen})
            assert (refused.status, refused.code) == (409, "not_remembered")
        blank = await server.call("POST", "/v1/memory/forget", body={**USER, "text": " "})
        assert (blank.status, blank.json["error"]["param"]) == (400, "text")


async def test_forgetting_names_only_the_chats_that_the_text_came_from() -> None:
    """P11: with --purge-sessions the others would be lost."""
    texts = ("likes tea", "has a cat")
    scripts = [
        script
        for text in texts
        for script in ([CallTool("remember", {"about": "user", "text": text, "reason": "r"})], [Say("ok")])
    ]
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(Remember(),))) as server,
    ):
        runs = [await server.ended(await server.start("hello", origin="page")) for _ in texts]
        _, listed = await server.get("/v1/memory")
        ids = [one["change_id"] for memory in listed["data"] for one in memory.get("proposals", [])]
        await server.post("/v1/memory/decide", {**USER, "accept": ids})
        _, gone = await server.post("/v1/memory/forget", {**USER, "text": "cat"})
        assert [one["session_id"] for one in gone["sessions"]] == [runs[1]["session_id"]]


async def test_words_that_a_memory_does_not_have_cost_it_nothing() -> None:
    """P14: a word that was mistyped takes no history away, and the answer says that nothing was forgotten."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for text in ("likes tea", 'likes "green" tea'):
            await server.call("PUT", "/v1/memory", body={**USER, "text": text})
        _, gone = await server.post("/v1/memory/forget", {**USER, "text": "coffee"})
        _, history = await server.get("/v1/memory/history")
        assert (gone["forgotten"], len(history["data"])) == (False, 2)
        _, gone = await server.post("/v1/memory/forget", {**USER, "text": '"green"'})
        _, history = await server.get("/v1/memory/history")
        assert (gone["forgotten"], history["data"]) == (True, [])


async def test_the_memory_of_a_chat_is_for_keys_that_administer_the_server() -> None:
    """P11, P12."""
    store = MemoryStore()
    memories = Memories(store, SystemClock())
    await memories.put(chat_scope("tg/-5"), "document", "the word is pear", by="")
    edit = MemoryEdit(change_id="c1", document="deploy", new=skill_file("deploy", "d", "b"), reason="r")
    await memories.propose(skills_scope("", "tg/-5"), edit, because=("someone else wrote",))
    setting = Setting(options=LOCKED, store=store)
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        _, listed = await server.get("/v1/memory", **OWNER)
        found = {(one["scope"], one.get("chat", "")): one for one in listed["data"]}
        assert found["chat", "tg/-5"]["document"] == "the word is pear"
        accept = {"scope": "skills", "chat": "tg/-5", "accept": ["c1"]}
        _, accepted = await server.post("/v1/memory/decide", accept, **OWNER)
        assert list(accepted["notes"]) == ["deploy"]
        _, made = await server.post("/api/keys", {"name": "small", "scopes": ["chat", "approve"]}, **OWNER)
        small = {"Authorization": f"Bearer {made['key']}"}
        _, listed = await server.get("/v1/memory", **small)
        assert {one["scope"] for one in listed["data"]} == {"user", "workspace"}
        for scope in ("chat", "skills"):
            path = f"/v1/memory/history?scope={scope}&chat=tg/-5"
            assert (await server.call("GET", path, headers=small)).code == "missing_scope"
            body = {"scope": scope, "chat": "tg/-5", "text": ""}
            forgets = await server.call("POST", "/v1/memory/forget", body=body, headers=small)
            assert forgets.code == "missing_scope"
        nameless = await server.call("GET", "/v1/memory/history?scope=chat", headers=OWNER)
        assert (nameless.status, nameless.json["error"]["param"]) == (400, "chat")


async def test_what_is_no_skill_is_not_put_over_one() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for document, text, param in (
            ("deploy", "no fields", "text"),
            ("deploy", skill_file("other", "d", "b"), "document"),
            ("../up", "", "document"),
            ("", skill_file("deploy", "d", "b"), "document"),
        ):
            body = {"scope": "skills", "document": document, "text": text}
            refused = await server.call("PUT", "/v1/memory", body=body)
            assert (refused.status, refused.json["error"]["param"]) == (400, param), document
        body = {"scope": "skills", "document": "document", "text": skill_file("document", "d", "b")}
        shown = await server.call("PUT", "/v1/memory", body=body)
        assert list(shown.json["notes"]) == ["document"]
