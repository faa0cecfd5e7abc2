"""A program that uses the package passes mypy, too."""

import asyncio
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.mark.release
@pytest.mark.long
async def test_mypy_knows_the_type_of_a_result(tmp_path: Path) -> None:
    """The types are in the file; the gate checks it with basedpyright."""
    pytest.importorskip("mypy")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)),
        str(PROGRAM),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
