"""Paths that settings give to commands: wherever they are, and by whatever links they are named."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from config.given import loaded
from holdfast.config.load import BadConfiguration
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.sandbox import open_sandbox
from holdfast.tools.arguments import BadArguments
from holdfast.tools.shell.needs import ShellNeeds, lift_for
from sandbox.confined_world import HAS_BUBBLEWRAP, one_sandbox

pytestmark = pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="bubblewrap is not installed")
PATH = "/usr/bin:/bin"
RUN_S = 20.0


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder in /var/tmp, which is a link in the sandbox."""
    with TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


def run(options: SandboxOptions, work: Path, command: str) -> str:
    """What a command in the sandbox prints."""
    profile = Profiles(options).profile(work)
    argv = ("/bin/bash", "-c", command)
    with one_sandbox().launch(profile, argv, {"PATH": PATH}) as launch:
        return subprocess.run(
            launch.argv,
            env=dict(launch.environment),
            cwd=launch.cwd,
            pass_fds=launch.pass_fds,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
        ).stdout


def _made(tmp_path: Path) -> Path:
    for folder in ("home/notes", "work", "real/sub"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("home/file", "real/sub/file", "real/alone"):
        (tmp_path / file).write_text("as it was\n")
    (tmp_path / "named").symlink_to("real")
    (tmp_path / "twice").symlink_to(tmp_path / "named" / "alone")
    return tmp_path / "work"


def test_what_settings_name_can_be_read_and_written_wherever_it_is(tmp_path: Path, elsewhere: Path) -> None:
    """P13: a path in /etc, /var/tmp or the home folder, or one behind links, doesn't break the sandbox."""
    work = _made(tmp_path)
    (elsewhere / "file").write_text("as it was\n")
    read = ("/etc/hostname", "/etc/apt", "/etc/mtab", str(elsewhere), str(tmp_path / "missing"))
    read = tuple(path for path in read if path != "/etc/apt" or Path(path).is_dir())
    write = (tmp_path / "home" / "file", tmp_path / "named" / "sub", tmp_path / "twice")
    options = SandboxOptions(
        home=tmp_path / "home", environment={"PATH": PATH}, read=read, write=tuple(map(str, write))
    )
    paths = shlex.join([str(elsewhere / "file"), str(write[0]), str(write[1] / "file"), str(write[2])])
    output = run(
        options,
        work,
        f"cat /etc/hostname; cat {paths}; for each in {paths}; do echo changed >> $each; done\n"
        "echo x >> /etc/hostname; echo x > /etc/new; echo x > /etc/ssl/new; cat /etc/shadow\n"
        "ls /etc/ssl/certs | head -1; id -un; ls /proc | grep -c '^[0-9]'; echo x > $TMPDIR/own && echo end",
    )
    lines = output.splitlines()
    assert lines[0] == Path("/etc/hostname").read_text().strip()
    assert lines[1:5] == ["as it was"] * 4
    assert lines[-1] == "end", output
    assert int(lines[-2]) < 10
    assert (elsewhere / "file").read_text() == "as it was\n"
    assert output.count("Read-only file system") == 4
    assert "root:" not in output
    for path in (tmp_path / "home" / "file", tmp_path / "real" / "sub" / "file", tmp_path / "real" / "alone"):
        assert path.read_text() == "as it was\nchanged\n", path


def test_the_sandbox_works_from_a_relative_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: commands start in another folder than the server."""
    monkeypatch.chdir(tmp_path)
    assert open_sandbox("auto", Path("data/sandbox"), search=os.defpath).backend == "bubblewrap"


def test_a_command_is_not_given_the_processes_or_devices_of_the_machine(tmp_path: Path) -> None:
    """P13: the configuration says so at the start, and the agent is told when it asks."""
    options = SandboxOptions(home=tmp_path, environment={"PATH": PATH})
    confiner = Confiner(one_sandbox(), Profiles(options))
    for path in ("/", "/proc", "/proc/1/environ", "/dev", "/dev/kvm", "/usr/../proc"):
        with pytest.raises(BadConfiguration, match=r"list the folders|can't expose"):
            assert not loaded(f'[sandbox]\nread = ["{path}"]\n'), path
        with pytest.raises(BadArguments, match=r"list the folders|can't expose"):
            assert not lift_for(ShellNeeds(read=(path,)), tmp_path, confiner), path


def test_a_command_is_not_given_what_belongs_to_holdfast(tmp_path: Path) -> None:
    """P13: it would stay out of reach, so nobody is asked about it."""
    own = tmp_path / "data"
    own.mkdir()
    options = SandboxOptions(home=tmp_path, environment={"PATH": PATH}, own=(str(own),))
    confiner = Confiner(one_sandbox(), Profiles(options))
    with pytest.raises(BadArguments, match="belongs to Holdfast"):
        lift_for(ShellNeeds(read=(f"{own}/api-key",)), tmp_path, confiner)
