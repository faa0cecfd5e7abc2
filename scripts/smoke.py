"""Try an installed Holdfast from an empty home folder: `python scripts/smoke.py PATH/TO/holdfast VERSION`.

Needs nothing but Python's own library, so that it runs beside any installation. It tries the version,
doctor, a run with the demo model, the server and its page, and a stop.
"""

import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

PATIENCE_S = 120


def _output(command: Sequence[str], home: Path) -> str:
    done = subprocess.run(
        command,
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _served(command: str, home: Path) -> None:
    server = subprocess.Popen(
        [command, "serve", "--port", "0"],
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        address = next((word for word in server.stdout.readline().split() if word.startswith("http://")), "")
        for path, expected in (("/health", b'"ok"'), ("/", b"<script")):
            with urllib.request.urlopen(f"{address}{path}", timeout=PATIENCE_S) as response:  # noqa: S310
                if expected not in response.read():
                    sys.exit(f"GET {path} doesn't answer as it should")
    finally:
        server.terminate()
        code = server.wait(PATIENCE_S)
    if code:
        sys.exit(f"the server ended with {code}")


def main(command: str, version: str) -> None:
    """Run all checks; exits with what failed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if _output([command, "--version"], home) != f"holdfast {version}":
            sys.exit(f"{command} isn't version {version}")
        if not _output([command, "run", "hello"], home):
            sys.exit("the demo model gave no answer")
        _output([command, "doctor", "--offline"], home)
        _served(command, home)


if __name__ == "__main__":
    main(*sys.argv[1:])
