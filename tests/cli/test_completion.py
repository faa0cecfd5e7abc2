"""Shell completion: the script that is shown and installed really completes, in a real shell."""

import asyncio
import sys
from pathlib import Path

from cli.tmux import terminal

BIN = Path(sys.executable).parent
COMPLETE = """
eval "$(holdfast --show-completion bash)"
complete -p holdfast
COMP_WORDS=({words}) COMP_CWORD={at}
_holdfast_completion holdfast
printf 'found %s\\n' "${{COMPREPLY[@]}}"
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


async def completed(home: Path, *words: str) -> set[str]:
    script = COMPLETE.format(words=" ".join(f"'{word}'" for word in words), at=len(words) - 1)
    out = await bash(script, home)
    assert "complete -o default -F _holdfast_completion holdfast" in out
    return {line.split()[1] for line in out.splitlines() if line.startswith("found ")}


async def test_the_script_that_is_shown_completes_commands_and_options(tmp_path: Path) -> None:
    assert await completed(tmp_path, "holdfast", "ru") == {"run", "runs"}
    assert await completed(tmp_path, "holdfast", "runs", "s") == {"show", "stop"}
    assert await completed(tmp_path, "holdfast", "serve", "--po") == {"--port"}


async def test_the_script_that_is_installed_completes_in_a_terminal(tmp_path: Path) -> None:
    said = await bash("holdfast --install-completion bash; echo \"PS1='ready> '\" >> ~/.bashrc", tmp_path)
    assert "bash completion installed" in said
    shell = ("env", f"PATH={BIN}:/usr/bin:/bin", "bash", "--rcfile", ".bashrc", "-i")
    async with terminal(*shell, folder=tmp_path) as window:
        await window.until("ready>")
        await window.keys("holdfast doc", "Tab")
        await window.until("holdfast doctor")
        await window.keys("C-u")
        await window.keys("holdfast runs re", "Tab")
        await window.until("holdfast runs retry")
