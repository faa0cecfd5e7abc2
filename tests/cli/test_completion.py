"""Shell completion: the script that is shown and installed really completes, in a real shell."""

import asyncio
import sys
from pathlib import Path

from cli.tmux import terminal

BIN = Path(sys.executable).parent
SHOWN = 'eval "$(holdfast --show-completion bash)"; complete -p holdfast'
COMPLETE = """
COMP_WORDS=({words}) COMP_CWORD={at}
_holdfast_completion holdfast
echo "${{COMPREPLY[@]}}"
"""


async def bash(script: str, home: Path) -> str:
    shell = await asyncio.create_subprocess_exec(
        *("env", f"HOME={home}", f"PATH={BIN}:/usr/bin:/bin", "bash", "--norc", "-c", script),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await shell.communicate()
    assert shell.returncode == 0, out.decode()
    return out.decode()


async def test_the_script_that_is_shown_completes_commands_and_options(tmp_path: Path) -> None:
    lines = ("holdfast ru", "holdfast runs s", "holdfast serve --po")
    asked = [COMPLETE.format(words=line, at=line.count(" ")) for line in lines]
    said, *found = (await bash("".join([SHOWN, *asked]), tmp_path)).splitlines()
    assert said == "complete -o default -F _holdfast_completion holdfast"
    assert [set(line.split()) for line in found] == [{"run", "runs"}, {"show", "stop"}, {"--port"}]


async def test_the_script_that_is_installed_completes_in_a_terminal(tmp_path: Path) -> None:
    said = await bash("holdfast --install-completion bash; echo \"PS1='ready> '\" >> ~/.bashrc", tmp_path)
    assert "bash completion installed" in said
    shell = ("env", f"PATH={BIN}:/usr/bin:/bin", "bash", "--rcfile", ".bashrc", "-i")
    async with terminal(*shell, folder=tmp_path) as window:
        await window.until("ready>")
        await window.keys("holdfast doct", "Tab")
        await window.until("holdfast doctor")
        await window.keys("C-u")
        await window.keys("holdfast runs re", "Tab")
        await window.until("holdfast runs retry")
