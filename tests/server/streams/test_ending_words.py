"""Why a run did not complete, as whoever asks over HTTP reads it: a sentence that says what to do."""

from agent.world import Effect
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.folds.session import fold
from holdfast.server.runs.run_report import error_of
from holdfast.values import OutcomeKind
from scene import begun
from serving import Setting, served, target_of
from tables import for_each_row


async def test_a_used_up_budget_is_said_in_a_sentence_and_what_was_done_is_kept() -> None:
    """P4, P12: the same in the stream and in the run."""
    setting = Setting(tools=(Effect("one", []),))
    script = [Say("I begin"), CallTool("one")]
    async with (
        ChaosServer(script, after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        run_id = await server.start(budget={"turns": 1})
        last = (await server.all_frames(run_id))[-1].data
        shown = await server.ended(run_id)
        assert (shown["status"], shown["outcome"], shown["code"]) == ("failed", "budget", "budget")
        assert shown["error"] == last["error"]
        assert shown["error"].startswith("The run reached its budget of 1 model answer. ")
        assert "set a larger budget.turns with the request" in shown["error"]
        assert shown["output"] == last["output"] == "I begin"


async def test_a_budget_with_an_unknown_part_is_refused() -> None:
    """P12: a misspelt limit would be none."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for wrong in ({"minuts": 5}, {"tokens": 5, "dollars": 1}):
            answer = await server.call("POST", "/v1/runs", body={"input": "x", "budget": wrong})
            assert (answer.status, answer.json["error"]["param"]) == (400, "budget"), answer.json
            assert list(wrong)[-1] in answer.json["error"]["message"]
        assert not (await server.get("/v1/runs"))[1]["data"]
        assert not chaos.seen.requests


@for_each_row(
    ("outcome", "cause", "words"),
    [
        ("interrupted", "restart", "on_restart"),
        ("interrupted", "crash_loop", "restarted three times without progress"),
        ("interrupted", "moved", "Interrupted: moved."),
        ("truncated", "length", "Cut off at the length limit."),
        ("budget", "tokens", "Budget used up: tokens."),
        ("cancelled", "user_stop", "Stopped."),
    ],
)
def test_every_ending_is_a_sentence(outcome: OutcomeKind, cause: str, words: str) -> None:
    scene = begun()
    scene.ends(outcome, cause=cause)
    said = error_of(fold(scene.log).runs["r1"])
    assert words in said
    assert said.endswith(".")
