"""`holdfast service` writes a unit that systemd accepts, and touches nothing that it didn't write."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.demo.server import clean_environment
from holdfast.features.service.commands import MARK, Unit

pytestmark = pytest.mark.long

# There is no systemd in most places where tests run: this one only writes down what it's asked for.
SYSTEMCTL = '#!/bin/sh\necho "$*" >> "{log}"\nexit {code}\n'


class Machine:
    """A home folder, and a systemctl that works or fails."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.log = folder / "asked"
        self.unit = self.home / ".config/systemd/user/holdfast.service"

    def has_systemd(self, code: int = 0) -> None:
        systemctl = self.programs / "systemctl"
        systemctl.write_text(SYSTEMCTL.format(log=self.log, code=code))
        systemctl.chmod(0o755)

    def service(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**clean_environment(), "HOME": str(self.home), "PATH": str(self.programs)}
        return subprocess.run(
            [sys.executable, "-m", "holdfast", "service", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't installed")
def test_systemd_accepts_the_unit_whatever_is_in_its_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c"
    folder.mkdir()
    program = folder / "python"
    shutil.copy("/bin/true", program)
    for name, user in (("own", ""), ("machine", "daemon")):
        unit = Unit(
            program=str(program),
            arguments=("-m", "a b%c$d\"e\\f'g"),
            workspace=str(folder),
            environment_file=str(folder / "env"),
            user=user,
        )
        file = tmp_path / f"{name}.service"
        file.write_text(unit.text())
        mode = ["--user"] if not user else []
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *mode, str(file)],
            env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert str(file.name) not in done.stderr, done.stderr


def test_install_starts_the_server_and_uninstall_removes_it(machine: Machine) -> None:
    machine.has_systemd()
    done = machine.service("install", "--port", "9000")
    assert done.returncode == 0, done.stderr
    text = machine.unit.read_text()
    assert f'ExecStart="{sys.executable}" "-P" "-m" "holdfast" "serve" "--port" "9000"' in text
    assert machine.asked() == [
        "--user daemon-reload",
        "--user daemon-reload",
        "--user enable holdfast.service",
        "--user restart holdfast.service",
    ]
    assert machine.service("install").returncode == 0  # its own unit is replaced
    assert "9000" not in machine.unit.read_text()
    assert machine.service("status").returncode == 0
    done = machine.service("uninstall")
    assert done.returncode == 0, done.stderr
    assert not machine.unit.exists()
    assert machine.asked()[-2:] == ["--user disable --now holdfast.service", "--user daemon-reload"]
    assert machine.service("uninstall").returncode == 1


def test_a_unit_of_somebody_else_is_left_alone(machine: Machine) -> None:
    machine.has_systemd()
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("[Unit]\nDescription=mine\n")
    for command in ("install", "uninstall"):
        done = machine.service(command)
        assert done.returncode == 1
        assert "move it away first" in done.stderr
    assert machine.asked() == []
    assert "mine" in machine.unit.read_text()


def test_without_systemd_nothing_is_written_and_the_unit_can_be_printed(machine: Machine) -> None:
    done = machine.service("install")
    assert done.returncode == 1
    assert "--print" in done.stderr
    machine.has_systemd(code=1)
    assert machine.service("install").returncode == 1
    assert machine.service("status").returncode == 1
    assert not machine.unit.exists()
    printed = machine.service("install", "--print")
    assert printed.returncode == 0
    assert printed.stdout.startswith(MARK)


def test_the_service_of_the_machine_runs_as_an_account_other_than_root(machine: Machine) -> None:
    for words in ((), ("--user", "root"), ("--user", "no-such-account")):
        done = machine.service("install", "--system", *words, "--print")
        assert done.returncode == 1
        assert "--user" in done.stderr or "useradd" in done.stderr
    printed = machine.service("install", "--system", "--user", "nobody", "--print").stdout
    assert "User=nobody" in printed
    assert "WantedBy=multi-user.target" in printed
    assert machine.service("install", "--user", "nobody", "--print").returncode == 1
