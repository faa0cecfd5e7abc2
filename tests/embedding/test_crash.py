"""A process that is killed in the middle of a run, and what the next one finds."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from holdfast import Agent, ApprovalNeeded, Target
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Script, SeenRequest, Wait
from holdfast.events import RunResumed, ToolEnded
from holdfast.testing import Call as ModelCall
from holdfast.testing import Say as ModelSay
from holdfast.testing import ScriptedModel

# What a newcomer writes: no main guard, and a tool that a child process imports from the script.
PROGRAM = '''
import asyncio, json, sys
from dataclasses import dataclass
from holdfast import Agent, Target, tool

@dataclass
class Sum:
    total: int

def note(text: str) -> str:
    """Write something down."""
    with open(FILE, "a") as file:
        file.write(text + "\\n")
    return "noted"

FILE, URL, STORE, *REST = ARGS = json.loads(sys.argv[1] if len(sys.argv) > 1 else open("args.json").read())
target = Target(name="main", wire="chat", base_url=URL, model="m")
agent = Agent(target, tools=[note], store=STORE)

async def attached() -> None:
    async with agent:
        (left,) = await agent.open_runs()
        run = await agent.attach(left.id, output_type=Sum)
        print(run.id, (await run.result()).output.total)

if REST:
    asyncio.run(attached())
else:
    print(agent.run_sync("Note it, then add.", output_type=Sum).output.total)
'''


async def start(folder: Path, *args: str) -> asyncio.subprocess.Process:
    await asyncio.to_thread((folder / "program.py").write_text, PROGRAM)
    await asyncio.to_thread((folder / "args.json").write_text, json.dumps(args))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "program.py",
        json.dumps(args),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.timeout(240)  # two programs that start from nothing
async def test_a_killed_run_goes_on_where_it_was_and_still_owes_its_output(tmp_path: Path) -> None:
    """P6: the note is written once, and the answer has the type that the dead process asked for."""
    noted, store, gate = tmp_path / "notes.txt", str(tmp_path / "talk.db"), Gate()
    requests: list[SeenRequest] = []

    def choose(request: SeenRequest) -> Script:
        requests.append(request)
        scripts: list[Script] = [
            [CallTool("note", {"text": "once"})],
            [Say('{"tot'), Wait(gate), Hang()],
            [Say("I forgot the form")],
            [Say('{"total": 5}')],
        ]
        return scripts[len(requests) - 1]

    async with ChaosServer(choose=choose) as chaos:
        first = await start(tmp_path, str(noted), chaos.base_url, store)
        await gate.reached()
        first.kill()
        await first.communicate()
        second = await start(tmp_path, str(noted), chaos.base_url, store, "again")
        out, err = await second.communicate()
        assert second.returncode == 0, err.decode()
        run_id, total = out.decode().split()
        assert total == "5"
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        assert await asyncio.to_thread(noted.read_text) == "once\n"
        async with Agent(target, store=store) as agent:
            events = (await (await agent.attach(run_id)).result()).events
    assert len([event for event in events if isinstance(event, ToolEnded)]) == 1
    assert any(isinstance(event, RunResumed) for event in events)
    assert all("Sum" in str(request.body) for request in requests)


SCRIPT = '''
import sys
from holdfast import Agent, ApprovalNeeded, Target

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

target = Target(name="main", wire="chat", base_url="URL", model="m")
print(Agent(target, tools=[add]).run_sync("What is 2 + 3?").output)
'''


async def test_a_script_without_a_main_guard_runs_its_agent_once(tmp_path: Path) -> None:
    """P6: the process of a tool imports the script, and must not start the agent again."""
    async with ChaosServer([CallTool("add", {"a": 2, "b": 3})], [Say("5")]) as chaos:
        script = tmp_path / "script.py"
        await asyncio.to_thread(script.write_text, SCRIPT.replace("URL", chaos.base_url))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(script)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        assert out.decode() == "5\n", err.decode()
        assert len(chaos.seen.requests) == 2
        result = (chaos.seen.request(2).body or {})["messages"]
    assert "'content': '5'" in str(result)


async def test_a_program_is_asked_before_an_unknown_effect_is_repeated(tmp_path: Path) -> None:
    """P6, P8: the error says why and what to do; with an approval, the same call runs."""
    begun, paid = asyncio.Event(), list[int]()

    async def pay(cents: int) -> str:
        """Pay somebody."""
        if not begun.is_set():
            begun.set()
            await asyncio.get_running_loop().create_future()
        paid.append(cents)
        return "paid"

    model = ScriptedModel([ModelCall("pay", cents=5), ModelCall("pay", cents=5), ModelSay("Done.")])
    agent = Agent(model, tools=[pay], store=tmp_path / "runs.db")
    async with agent:
        run_id = (await agent.start("Pay 5 cents")).id
        await begun.wait()
    async with agent:
        run = await agent.attach(run_id)
        with pytest.raises(
            ApprovalNeeded, match=r"unknown whether it took effect\) Answer with run.approve"
        ) as needed:
            await run.result()
        assert not paid
        await run.approve(needed.value.approval_id)
        assert (await run.result()).output == "Done."
        assert paid == [5]
