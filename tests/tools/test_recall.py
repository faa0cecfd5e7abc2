"""Recall: an agent finds what its own user said before, and nothing of anyone else's."""

from itertools import count
from pathlib import Path

from holdfast import events as e
from holdfast.interfaces.journal import IfSessionNew
from holdfast.tools.recall import QUOTED, WINDOW_CHARS_MAX, SearchSessions
from stores import MemoryStore
from tools.calls import Call

_ids = count(1)


async def conversation(
    store: MemoryStore, session_id: str, *said: str, key: str = "me", source: str = "page"
) -> str:
    """A conversation in which each text begins a run; the last run's id."""
    created = e.SessionCreated(at_ms=1, epoch="e", source=source, title="About soup")
    await store.append(session_id, [created], when=[IfSessionNew()])
    run_id = ""
    for text in said:
        nth = next(_ids)
        run_id, message_id = f"run{nth}", f"m{nth}"
        accepted = e.MessageAccepted(at_ms=1, message_id=message_id, text=text)
        queued = e.RunQueued(at_ms=1, run_id=run_id, message_id=message_id, key=key)
        await store.append(session_id, [accepted, queued])
    return run_id


def asking(run_id: str, session_id: str) -> Call:
    return Call(workspace=Path("/nowhere"), run_id=run_id, session_id=session_id)


async def test_words_are_found_in_own_conversations_and_quoted_with_their_place() -> None:
    """P11: what another key asked is never found, nor what two keys share, nor the conversation itself."""
    store = MemoryStore()
    await conversation(store, "mine", "the soup needs saffron and patience")
    await conversation(store, "theirs", "my soup needs saffron too", key="other")
    await conversation(store, "shared", "saffron in every soup")
    await conversation(store, "shared", "more saffron soup", key="other")
    await conversation(store, "relayed", "saffron soup by a program", source="openai")
    run_id = await conversation(store, "now", "what did I say about saffron soup?")
    tool = SearchSessions(store)
    found = await tool.run({"query": "saffron soup"}, asking(run_id, "now"))
    assert found.ok
    assert found.text.startswith(QUOTED)
    assert found.text.count("[session ") == 1
    assert "[session mine · 1970-01-01 · About soup · seq 2]" in found.text
    near = await tool.run({"query": "saffron marmalade tutorial"}, asking(run_id, "now"))
    assert "session mine" in near.text
    nothing = await tool.run({"query": "saxophone"}, asking(run_id, "now"))
    assert not nothing.ok
    for other in ("theirs", "shared", "relayed", "unknown"):
        closed = await tool.run({"session_id": other, "seq": 2}, asking(run_id, "now"))
        assert (closed.ok, closed.text) == (False, "This user has no such conversation.")


async def test_a_window_shows_what_was_said_around_a_passage_and_stays_small() -> None:
    store = MemoryStore()
    await conversation(store, "mine", *[f"{nth} " + "word " * 200 for nth in range(30)])
    run_id = await conversation(store, "now", "and?")
    seq = 2 + 2 * 20
    window = await SearchSessions(store).run({"session_id": "mine", "seq": seq}, asking(run_id, "now"))
    assert window.text.startswith(QUOTED)
    assert f"seq {seq}, user: “20 word" in window.text
    assert "“0 word" not in window.text
    assert len(window.text) < WINDOW_CHARS_MAX + 1_000
