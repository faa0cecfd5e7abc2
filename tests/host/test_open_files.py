"""As many files may be open as clients may ask for."""

import asyncio
import sys

import pytest

_ASKS = """
import resource
from holdfast.cli.doctor.machine import open_files
from holdfast.host.open_files import allow_open_files, files_wanted
from holdfast.config.settings import Settings

resource.setrlimit(resource.RLIMIT_NOFILE, (300, files_wanted(Settings()) - {missing}))
print(open_files(Settings()).state)
allow_open_files(Settings())
print(files_wanted(Settings()) - resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("missing", "state"), [(0, "ok"), (1000, "note")])
async def test_the_server_asks_for_as_many_as_it_may_need(missing: int, state: str) -> None:
    """P10: systems allow 1024 at first, and past them nobody is answered, nor told why."""
    asking = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASKS.format(missing=missing), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asking.communicate()
    assert said.decode().split() == [state, str(missing)]
