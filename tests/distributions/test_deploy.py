"""The files in `deploy/` agree with each other and with the program; no container engine is needed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from holdfast.cli.demo.server import clean_environment

DEPLOY = Path(__file__).parents[2] / "deploy"


def compose(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def settings_of(environment: dict[str, str]) -> dict[str, str]:
    """The variables as the server sees them, with a text for each one that you choose."""
    chosen = {name: re.sub(r"\$\{[^}]*\}", "chosen", value) for name, value in environment.items()}
    return {**chosen, "HOLDFAST_CONFIG": str(DEPLOY / "cluster.toml")}


def test_the_files_and_volumes_that_compose_names_exist() -> None:
    for name in ("compose.yaml", "compose.cluster.yaml"):
        document = compose(name)
        for service in document["services"].values():
            assert (
                "image" in service or (DEPLOY / service["build"]["context"] / "deploy/Dockerfile").is_file()
            )
            for volume in service.get("volumes", ()):
                source = volume.partition(":")[0]
                known = (
                    (DEPLOY / source).is_file() if source.startswith(".") else source in document["volumes"]
                )
                assert known, volume


def test_the_servers_of_the_cluster_start_with_settings_that_the_program_takes(tmp_path: Path) -> None:
    services = compose("compose.cluster.yaml")["services"]
    servers = [name for name in services if name.startswith("web-")]
    for name in servers:
        environment = {
            **clean_environment(),
            "HOME": str(tmp_path),
            **settings_of(services[name]["environment"]),
        }
        shown = subprocess.run(
            [sys.executable, "-m", "holdfast", "config", "check"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.returncode == 0, shown.stderr
        assert f'node_url = "http://{name}:8642"' in shown.stdout
        assert all(f'"{other}"' in shown.stdout for other in servers)
    proxied = re.findall(r"[\w-]+(?=:8642 )", (DEPLOY / "Caddyfile").read_text("utf-8"))
    assert proxied == servers


def test_the_image_runs_without_root_and_copies_the_wheel_that_may_be_copied() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER holdfast"]
    copied = [line.split()[1] for line in lines if line.startswith("COPY dist")]
    assert [f"!{path}" for path in copied] == (DEPLOY.parent / ".dockerignore").read_text().split()[1:]


def test_the_user_of_the_image_can_write_to_each_folder_that_compose_mounts_as_a_tmpfs() -> None:
    """A tmpfs belongs to root and has the mode of its mount point; that of /tmp is 1777 in the base image."""
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    for text in ((DEPLOY / name).read_text("utf-8") for name in ("compose.yaml", "compose.cluster.yaml")):
        (folders,) = re.findall(r"tmpfs: \[(.*)\]", text)
        for folder in folders.split(", "):
            assert folder == "/tmp" or f"chmod 1777 {folder} " in dockerfile  # noqa: S108
