"""The self-test of the sandbox, which a command can begin before it imports everything else."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from holdfast.config.settings import Settings
from holdfast.tools.shell.environment import child_environment

if TYPE_CHECKING:
    from holdfast.sandbox.sandbox import Sandbox


def tested_sandbox(settings: Settings, environment: Mapping[str, str]) -> "Sandbox":
    """Test the sandbox of these settings; raises SandboxRefused. Starts a few programs, so it blocks."""
    from holdfast.sandbox.git_identity import git_identity
    from holdfast.sandbox.sandbox import open_sandbox

    return open_sandbox(
        settings.sandbox.mode,
        settings.data_dir / "sandbox",
        search=environment.get("PATH", os.defpath),
        git_config=git_identity(environment),
    )


def begin_sandbox_test(settings: Settings) -> "Callable[[], Sandbox]":
    """Begin the test in a thread. The returned function waits for its result."""
    environment = child_environment(os.environ)  # noqa: TID251  # this is the edge
    with_one_thread = ThreadPoolExecutor(1, "sandbox test")
    tested = with_one_thread.submit(tested_sandbox, settings, environment)
    with_one_thread.shutdown(wait=False)
    return tested.result
