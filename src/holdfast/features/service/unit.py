"""The text of a systemd unit. Pure."""

from collections.abc import Sequence

from msgspec import Struct

MARK = "# Written by `holdfast service install`. Run it again to change it."
# systemd takes these for escapes, specifiers and variables.
_SPECIAL = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n"})


class Unit(Struct, frozen=True, kw_only=True):
    """The variable parts of the unit. Without `user`, it's a unit of one user's own systemd."""

    program: str
    arguments: Sequence[str]
    workspace: str
    environment_file: str
    user: str = ""

    def text(self) -> str:
        """Return the unit file."""
        network = "Wants=network-online.target\nAfter=network-online.target\n" if self.user else ""
        user = f"User={self.user}\n" if self.user else ""
        target = "multi-user.target" if self.user else "default.target"
        return f"""{MARK}
[Unit]
Description=Holdfast
{network}
[Service]
{user}ExecStart="{_path(self.program)}" {" ".join(_quoted(word) for word in self.arguments)}
WorkingDirectory={_path(self.workspace)}
# Keys of models, as NAME=VALUE lines. The file doesn't have to exist.
EnvironmentFile=-{_path(self.environment_file)}
Restart=always
RestartSec=2
TimeoutStopSec=30
LimitNOFILE=8192
# Background processes survive a restart of the server, which then adopts them.
KillMode=process

[Install]
WantedBy={target}
"""


def _quoted(word: str) -> str:
    return f'"{word.translate(_SPECIAL)}"'


def _path(path: str) -> str:
    return path.replace("%", "%%")
