"""The base prompt and the environment of a server, as its settings say."""

from pathlib import Path
from typing import Any

from holdfast.chaos import ChaosServer, Say
from runner.program import configure, program


async def test_the_models_of_a_server_get_the_configured_prompt_and_the_machine(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Be a pirate.", encoding="utf-8")
    async with ChaosServer([Say("ok")]) as chaos:
        configure(tmp_path, chaos.base_url)
        settings = tmp_path / "holdfast.toml"
        settings.write_text(
            settings.read_text(encoding="utf-8").replace("[agent]\n", '[agent]\nprompt = "file:prompt.md"\n'),
            encoding="utf-8",
        )
        async with program(tmp_path) as server:
            await server.events(await server.start("hi"))
        sent: Any = chaos.seen.request(1).body
    system = sent["messages"][0]["content"]
    assert system.startswith("Be a pirate.\n\nEnvironment\n- Workspace: ")
    for fact in (
        str(tmp_path / "work"),
        "commands run in bash",
        "- Sandbox: ",
        "- Date: ",
        "workspace. Changes",
    ):
        assert fact in system
