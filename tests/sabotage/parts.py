"""Small wrong implementations of single parts, with the check that must notice each."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Protocol, cast

from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from msgspec.structs import replace

from cli.prompt_bench import check_early_keys_do_not_count
from folds.live_line_states import ROWS
from holdfast import events as e
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.cli.asks import TypeAheadGuard
from holdfast.decisions.deadlines import RequestFacts, effective
from holdfast.decisions.fair_shares import FairShare
from holdfast.decisions.retry import Decision, GiveUp, History, Outage, RetryAfter, Tried, decide, outage_at
from holdfast.features.mcp_client.open_call import OpenCall
from holdfast.features.relay.redacting import FrameFilter
from holdfast.features.relay.requests import decide_relayed
from holdfast.folds.activity import Activity
from holdfast.interfaces.tool import NobodyAnswered, ToolCall, ToolResult
from holdfast.model_events import Finished, ModelEvent
from holdfast.models.chat_completions import ChatParser
from holdfast.models.http import ModelHttp
from holdfast.models.sse import SseFrame
from holdfast.models.target_states import TargetStates
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import StreamParser, WireRequest
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import Policy, judge, rule_for
from holdfast.policy.path_facts import NoSecretFinder, PathFacts, SecretFinder
from holdfast.policy.verdicts import Allow, NeedsApproval, Verdict
from holdfast.redaction import NO_SECRETS, Redactor, StreamFilter
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.access.request_secrets import begin_request, without_secrets
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, run_not_found
from holdfast.server.runs.requests import RunRequest, message_of
from holdfast.server.transport.bodies import parsed
from holdfast.targets import Patience, Target
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.forced_exit import force_exit
from holdfast.tools.shell.marker import foreground, marked
from holdfast.tools.shell.process_table import look
from holdfast.tools.shell.scope import KillPatience, find_marked, kill_leftovers
from holdfast.tools.shell.tool import Shell
from holdfast.values import Action, Failure, GrantRule
from models.calls.calling import TestClock, line_of
from models.calls.silence_campaign import silent_target
from sabotage import Sabotage
from sabotage.exits import leaves_at_once
from stores import MemoryStore
from tools.calls import ENVIRONMENT, Call, shell

# P3: nothing hangs


async def check_silence_ends_by_a_deadline(patience: Patience) -> None:
    """P3: a server that never answers is given up on, by a deadline that was known."""
    async with ChaosServer([Hang()]) as chaos, ModelHttp() as http:
        watchdog = Watchdog(effective(patience, RequestFacts(local=True, input_tokens=10)))
        request = WireRequest(url=f"{chaos.base_url}/chat/completions", headers={}, body=b"{}")
        try:
            async with asyncio.timeout(5), watchdog, http.post(request, watchdog):
                raise AssertionError("nobody answers here")
        except TimeoutError:
            assert watchdog.passed is not None, "it was the test that lost patience"


class WallWaits(TestClock):
    """Counts waits by the clock on the wall, which anybody may set."""

    def steady_s(self) -> float:
        return self.now_ms() / 1000


async def check_a_wait_is_a_length_and_no_time_of_day(kind: type[TestClock]) -> None:
    """P3: a clock that is set back by an hour makes nobody wait for an hour."""
    clock = kind()
    async with line_of("chat", [Say("hello")], clock=clock) as (line, _):
        await line.shared.close_gate(line.targets[0], 1_000, why="busy")
        clock.jumped_ms = -3_600_000
        await line.ask()
        assert sum(clock.slept_s) <= 1


class GuessesFromTheNewestEntry(Activity):
    """Does not notice that a tool starts, since no entry is new then: the answered approval still is."""

    def take(self, event: e.Event) -> None:
        if not isinstance(event, e.ToolStarted):
            super().take(event)


async def check_the_line_says_what_runs(kind: type[Activity]) -> None:
    """P3: after "allow once" people read that the tool runs, not that somebody is waited for."""
    activity, row = kind(), next(row for row in ROWS if row.about == "approved and at work")
    for event in row.events:
        activity.take(event)
    assert activity.name == row.state


# P4: one true ending


class EndOfFileIsTheEnd(ChatParser):
    """Takes the end of the connection for the end of the answer."""

    def end(self) -> list[ModelEvent]:
        self.finished = True
        return [Finished("stop")]


async def check_a_cut_answer_is_not_finished(make: Callable[[], StreamParser]) -> None:
    """P4: text and a clean end of file without the protocol's marker is dropped, not completed."""
    parser = make()
    parser.parse(SseFrame(b"", b'{"choices":[{"index":0,"delta":{"content":"half"}}]}'))
    parser.end()
    assert not parser.finished


# P5: stop means stopped


class Abandons:
    """Forgets its process when it is stopped."""

    child: subprocess.Popen[bytes]

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        environment = marked(ENVIRONMENT, foreground(call.run_id, call.tool_call_id))
        self.child = await asyncio.to_thread(subprocess.Popen, ["sleep", "30"], env=environment)
        await call.say("ready")
        await asyncio.get_running_loop().create_future()
        raise AssertionError(args)


async def check_a_stop_leaves_no_process(make: Callable[[], Any]) -> None:
    """P5: when a stopped tool has ended, nothing that it started is alive."""
    call = Call(workspace=Path.cwd())
    tool = make()
    running = asyncio.create_task(tool.run({"command": "echo ready; sleep 30"}, call))
    await call.hears("ready")
    running.cancel()
    await asyncio.wait([running])
    left = await call.left()
    await kill_leftovers(call.run_id)
    if isinstance(tool, Abandons):
        await asyncio.to_thread(tool.child.wait)
    assert not left


def right_shell() -> Shell:
    return shell(Background(Path("nowhere"), now_ms=lambda: 0))


# What a program does with a deaf command under way, and a daemon of it that kept no environment, when it is
# told to end: the last argument names the function that ends it.
ENDS_WITH_A_TOOL = """
import asyncio, importlib, sys
from pathlib import Path
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.reaper import become_subreaper
from sabotage import Sabotage
from sabotage.exits import leaves_at_once
from tools.calls import Call, shell

DAEMON = "env -i setsid -f bash -c 'echo $$ > pid.new; mv pid.new daemon; exec sleep 600' >/dev/null 2>&1"

async def main(run_id, module, name):
    become_subreaper()
    call = Call(workspace=Path.cwd(), run_id=run_id)
    command = f"trap '' TERM; {DAEMON}; until test -s daemon; do sleep 0.01; done; echo ready; sleep 600"
    tool = shell(Background(Path("jobs"), now_ms=lambda: 0))
    running = asyncio.create_task(tool.run({"command": command}, call))
    await call.hears("ready")
    getattr(importlib.import_module(module), name)(15)

asyncio.run(main(*sys.argv[1:]))
"""


async def check_a_second_signal_leaves_no_process(end: Callable[[int], None]) -> None:
    """P5: when the program is gone, so is what its tools ran in the foreground."""
    run_id = f"run-{token_hex(8)}"
    with TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ENDS_WITH_A_TOOL, run_id, end.__module__, end.__name__),
            cwd=folder,
            env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ENVIRONMENT["PATH"]},
        )
        assert await process.wait() == 128 + 15
        daemon = await asyncio.to_thread(lambda: look(int((Path(folder) / "daemon").read_text())))
        left = await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
        await kill_leftovers(run_id, tool_call_ids=["call:1 \0"], patience=KillPatience(term_s=0.0))
    assert left == []
    assert daemon is None or daemon.is_dead


# P6: a crash is a pause


def counts_outages(failure: Failure, history: History) -> Decision:
    """Takes an address at which nobody is for one more failed attempt."""
    tried = tuple(Tried(one.target, replace(one.failure, kind="dropped")) for one in history.tried)
    return decide(replace(failure, kind="dropped"), replace(history, tried=tried))


async def check_an_outage_uses_up_no_attempts(judge: Callable[[Failure, History], Decision]) -> None:
    """P6: a model that comes back half a minute later than we do has lost nothing."""
    target = Target(name="main", wire="chat", base_url="http://127.0.0.1:1", model="m")
    refused = Failure(kind="connect_failed", text="")
    tried: tuple[Tried, ...] = ()
    for away_s in range(30):
        outage = Outage(ms=1000 * away_s, known_ms=1000 * away_s, tries=len(tried) + 1)
        history = History(
            targets=(target,),
            current="main",
            tried=tried,
            now_ms=1000 * away_s,
            last_progress_ms=0,
            random=0.5,
            outages={outage_at(target, refused): outage},
        )
        assert not isinstance(judge(refused, history), GiveUp), f"given up after {away_s} s"
        tried = (*tried, Tried("main", refused))


# P10: no cross-talk


class FirstComeFirstServed(FairShare):
    """Gives places to whoever asks first, until there are none."""

    def has_room(self, key: str, most: int) -> bool:
        del key
        return self.used < most


async def check_a_greedy_key_leaves_room_for_others(kind: type[FairShare]) -> None:
    """P10: one key's runs, streams or processes refuse nobody else's."""
    shares = kind()
    while shares.has_room("greedy", 8):
        shares.acquire("greedy")
    assert shares.held("greedy") == 8
    assert shares.has_room("other", 8)


# P8: an approval is one exact action


def covers_whatever_follows(action: Action, policy: Policy) -> Verdict:
    """Looks at the words that the rule names, and at no others."""
    (rule,) = policy.rules
    return judge(replace(action, argv=action.argv[: len(rule.argv)]), policy)


async def check_a_rule_covers_no_word_that_writes(decide: Callable[[Action, Policy], Verdict]) -> None:
    """P8: whoever allows `git log` has not allowed it to write a file elsewhere."""
    facts = PathFacts("/home/u/work", "/home/u", (), normpath)
    policy = Policy(facts, rules=(ApprovalRule("allow", "shell", argv=("git", "log")),))
    action = Action(tool="shell", summary="", argv=("git", "log", "--output=/home/u/.bashrc"))
    assert isinstance(decide(action, policy), NeedsApproval)


def covers_whole_folders(action: Action, policy: Policy) -> Verdict:
    """Takes a rule for a folder for one that names each file in it."""
    rules = tuple(replace(rule, paths=(*rule.paths, *action.paths)) for rule in policy.rules)
    return judge(action, replace(policy, rules=rules))


async def check_a_rule_for_a_folder_covers_no_file_that_acts_later(
    decide: Callable[[Action, Policy], Verdict],
) -> None:
    """P13: whoever allows writes to a folder has not allowed hooks, instructions or secrets in it."""
    facts = PathFacts("/home/u/work", "/home/u", (), normpath)
    policy = Policy(facts, rules=(ApprovalRule("allow", "write_file", paths=("/home/u/work",)),))
    for name in (".git/hooks/pre-commit", "AGENTS.md", ".env"):
        action = Action(tool="write_file", summary="", paths=(f"/home/u/work/{name}",))
        assert isinstance(decide(action, policy), NeedsApproval), name


def similar_by_name(action: Action, policy: Policy, *, grants: Sequence[GrantRule]) -> Verdict:
    """Looks at the program and subcommand that a grant names, and at no further word."""
    (grant,) = grants
    return judge(replace(action, argv=action.argv[: len(grant.argv)]), policy, grants=grants)


class _Granted(Protocol):
    def __call__(self, action: Action, policy: Policy, *, grants: Sequence[GrantRule]) -> Verdict: ...


async def check_a_grant_for_similar_commands_covers_no_other_place(decide: _Granted) -> None:
    """P8: whoever allows similar `cp` commands has not allowed it to write a hook, or outside."""
    facts = PathFacts("/home/u/work", "/home/u", (), normpath)
    grant = GrantRule(tool="shell", argv=("cp",), paths=("/home/u/work",), width="similar")
    for target in (".git/hooks/pre-commit", "/home/u/.bashrc", "AGENTS.md"):
        action = Action(tool="shell", summary="", argv=("cp", "a", target), paths=("/home/u/work",))
        assert isinstance(decide(action, Policy(facts), grants=(grant,)), NeedsApproval), target


def known_by_name(action: Action, policy: Policy, *, grants: Sequence[GrantRule]) -> Verdict:
    """Looks at the name of a tool, and not at what its server says of it."""
    (grant,) = grants
    return judge(replace(action, definition=grant.definition), policy, grants=grants)


async def check_a_grant_does_not_cover_a_tool_that_changed(decide: _Granted) -> None:
    """P8: whoever allows a server's tool has not allowed what the server later puts under its name."""
    policy = Policy(PathFacts("/home/u/work", "/home/u", (), normpath))
    allowed = Action(tool="mcp__a__b", summary="", definition="as it was")
    grant = rule_for(allowed, policy)
    assert grant is not None
    assert isinstance(decide(allowed, policy, grants=(grant,)), Allow)
    changed = replace(allowed, definition="as it is now")
    assert isinstance(decide(changed, policy, grants=(grant,)), NeedsApproval)
    assert isinstance(decide(changed, policy, grants=(GrantRule(tool="mcp__a__b"),)), NeedsApproval)


class NobodyThere:
    """A call with nobody to answer."""

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        raise NobodyAnswered(f"{text} {choices}")


class TakesSilenceForYes(OpenCall):
    """Accepts a form that nobody filled in."""

    async def elicit(self, wanted: ElicitRequestParams) -> ElicitResult:
        given = await super().elicit(wanted)
        return given if given.action == "accept" else ElicitResult(action="accept", content={})


async def check_silence_accepts_no_form(kind: type[OpenCall]) -> None:
    """P8: a server's form that nobody answers is cancelled."""
    opened = kind("a", cast("ToolCall", NobodyThere()))
    form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
    assert (await opened.elicit(form)).action == "cancel"


# P11: no secret gets out


async def check_a_search_from_above_shows_no_secret(make: Callable[[], SecretFinder]) -> None:
    """P11: `grep -r` does not run unasked where it would read a secret file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        await asyncio.to_thread((folder / ".env").write_text, "KEY=secret")
        configured = ConfiguredJudge(home=folder / "home", secret_finder=make)
        action = Action(tool="shell", summary="", argv=("bash", "-c", "grep -r KEY ."), paths=(name,))
        found = await asyncio.to_thread(configured.verdict, action, (), workspace=folder)
    assert not isinstance(found, Allow)


class ForgetsTheCut(StreamFilter):
    """Looks at each piece alone."""

    def feed(self, text: str) -> str:
        return Redactor(["sk-test-of-a-key"]).redact_text(text)


async def check_a_key_in_two_pieces_is_caught(kind: type[StreamFilter]) -> None:
    """P11: a key that is split over two deltas does not get out."""
    stream = kind(Redactor(["sk-test-of-a-key"]))
    shown = stream.feed("it is sk-test-") + stream.feed("of-a-key.") + stream.flush()
    assert "sk-test-of-a-key" not in shown


class KeepsSecrets(MemoryStore):
    """Stores inputs and blobs as they come."""

    def __init__(self, *, redactor: Redactor) -> None:
        del redactor
        super().__init__()


async def check_a_key_in_an_input_is_not_stored(kind: Callable[..., MemoryStore]) -> None:
    """P11: a key that a person sends is in no stored event and in no search result."""
    store = kind(redactor=Redactor(["sk-test-of-a-key"]))
    created = e.SessionCreated(at_ms=1, epoch="x", title="about sk-test-of-a-key")
    said = e.MessageAccepted(at_ms=1, message_id="m", text="keep sk-test-of-a-key safe", mode="send")
    await store.append("s", [created, said])
    kept = [record.body for record in await store.read("s")] + [repr(await store.search("keep")).encode()]
    await store.close()
    assert not any(b"sk-test-of-a-key" in data for data in kept)


async def check_a_key_in_a_blob_is_not_stored(kind: Callable[..., MemoryStore]) -> None:
    """P11: whole outputs can be fetched by name, so they hold no key."""
    store = kind(redactor=Redactor(["sk-test-of-a-key"]))
    name = await store.put_blob(b"KEY=sk-test-of-a-key")
    kept = await store.blob(name)
    await store.close()
    assert kept == b"KEY=[redacted]"


async def check_an_error_echoes_no_key(clean: Callable[[Problem], Problem]) -> None:
    """P11: a client that puts its key into a path doesn't find it in an error, or in whatever logs errors."""
    begin_request(NO_SECRETS, "the-callers-own-key")
    for secret in ("the-callers-own-key", "sk-proj-a1B2c3D4e5F6g7H8i9"):
        assert secret not in clean(run_not_found(secret)).message


def echoed(problem: Problem) -> Problem:
    """Sends errors as they come."""
    return problem


# P8: a key that was typed ahead is no consent


def counts_every_key(clock: Callable[[], float]) -> TypeAheadGuard:
    """A guard that takes each key for an answer."""
    return TypeAheadGuard(clock, guard_s=0.0)


# P12: bad input gets a clear error


def takes_anything(body: RunRequest, limits: Limits) -> IncomingMessage:
    """Starts a run whatever it was asked for."""
    del limits
    return IncomingMessage(text=str(body.input))


async def check_bad_input_is_refused(read: Callable[[RunRequest, Limits], IncomingMessage]) -> None:
    """P12: a request without an input is refused, and the error names what is missing."""
    refused: Problem | None = None
    try:
        read(await parsed(b"{}", Limits(), RunRequest), Limits())
    except Problem as problem:
        refused = problem
    assert refused is not None, "a run would start with nothing to do"
    assert (refused.status, refused.param) == (400, "input")


def replaces_what_was_seen(
    failure: Failure, history: History, *, has_content: bool, wait_ms_max: int
) -> Decision:
    """Asks again although the client has a part of the answer: it would get two answers in one."""
    del has_content
    return decide_relayed(failure, history, has_content=False, wait_ms_max=wait_ms_max)


async def check_a_relay_replaces_nothing_that_was_seen(
    decide_next: Callable[..., Decision],
) -> None:
    target = Target(name="a", wire="chat", base_url="http://a.test/v1", model="m")
    history = History(targets=(target,), current="a", now_ms=0, last_progress_ms=0, random=0.5)
    failure = Failure(kind="dropped", text="")
    assert isinstance(decide_next(failure, history, has_content=False, wait_ms_max=1000), RetryAfter)
    assert isinstance(decide_next(failure, history, has_content=True, wait_ms_max=1000), GiveUp)


class PassesPiecesAlone(FrameFilter):
    """Looks at each piece by itself, so a key that is split over two gets through."""

    def feed(self, piece: bytes) -> bytes:
        return super().feed(piece) + super().flush()


async def check_a_relayed_key_in_two_pieces_is_caught(kind: type[FrameFilter]) -> None:
    passing = kind(Redactor(["sk-a-long-secret"]))
    passed = passing.feed(b"data: sk-a-lo") + passing.feed(b"ng-secret\n\n") + passing.flush()
    assert b"sk-a-long-secret" not in passed
    assert passed == b"data: [redacted]\n\n"


class WakesNobody(TargetStates):
    """Lets calls wait for the whole pause, though their target has answered."""

    def _resume(self, key: str) -> None:
        del key


class ProbesBesideAMessage(TargetStates):
    """Lets a probe that is due pass while a message's early one is under way."""

    def may_pass(self, target: Target) -> bool:
        under_way, self._probes = self._probes, {}
        try:
            return super().may_pass(target)
        finally:
            self._probes = under_way


async def check_a_recovery_frees_all_calls(kind: type[TargetStates]) -> None:
    """P3: a target falls silent and recovers."""
    await silent_target(kind, seed=1, rounds=4)


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P3", check_a_recovery_frees_all_calls, TargetStates, WakesNobody),
    Sabotage("P3", check_a_recovery_frees_all_calls, TargetStates, ProbesBesideAMessage),
    Sabotage(
        "P3",
        check_silence_ends_by_a_deadline,
        Patience(first_event_s=0.1),
        Patience(first_event_s=0, first_progress_s=0, upload_s=0, connect_s=0),
    ),
    Sabotage("P3", check_a_wait_is_a_length_and_no_time_of_day, TestClock, WallWaits),
    Sabotage("P3", check_the_line_says_what_runs, Activity, GuessesFromTheNewestEntry),
    Sabotage("P4", check_a_cut_answer_is_not_finished, ChatParser, EndOfFileIsTheEnd),
    Sabotage("P4", check_a_relay_replaces_nothing_that_was_seen, decide_relayed, replaces_what_was_seen),
    Sabotage("P11", check_a_relayed_key_in_two_pieces_is_caught, FrameFilter, PassesPiecesAlone),
    Sabotage("P5", check_a_stop_leaves_no_process, right_shell, Abandons),
    Sabotage("P6", check_an_outage_uses_up_no_attempts, decide, counts_outages),
    Sabotage("P5", check_a_second_signal_leaves_no_process, force_exit, leaves_at_once),
    Sabotage("P8", check_a_rule_covers_no_word_that_writes, judge, covers_whatever_follows),
    Sabotage("P13", check_a_rule_for_a_folder_covers_no_file_that_acts_later, judge, covers_whole_folders),
    Sabotage("P8", check_a_grant_for_similar_commands_covers_no_other_place, judge, similar_by_name),
    Sabotage("P8", check_a_grant_does_not_cover_a_tool_that_changed, judge, known_by_name),
    Sabotage("P8", check_silence_accepts_no_form, OpenCall, TakesSilenceForYes),
    Sabotage("P8", check_early_keys_do_not_count, TypeAheadGuard, counts_every_key),
    Sabotage("P10", check_a_greedy_key_leaves_room_for_others, FairShare, FirstComeFirstServed),
    Sabotage("P11", check_a_search_from_above_shows_no_secret, SecretFiles, NoSecretFinder),
    Sabotage("P11", check_a_key_in_two_pieces_is_caught, StreamFilter, ForgetsTheCut),
    Sabotage("P11", check_a_key_in_an_input_is_not_stored, MemoryStore, KeepsSecrets),
    Sabotage("P11", check_a_key_in_a_blob_is_not_stored, MemoryStore, KeepsSecrets),
    Sabotage("P11", check_an_error_echoes_no_key, without_secrets, echoed),
    Sabotage("P12", check_bad_input_is_refused, message_of, takes_anything),
)
