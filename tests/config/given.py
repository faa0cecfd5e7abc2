"""Configurations as tests write them down: a text, an environment, flags; no file and no variable is real."""

from collections.abc import Mapping
from pathlib import Path

from holdfast.config.load import BadConfiguration, ConfigFile, ConfigInputs, Loaded, load
from holdfast.config.secret_values import TextFile

FILE = Path("/etc/hf/holdfast.toml")
LONG_KEY = "a-key-that-is-long-enough"
TARGET = """
[[targets]]
name = "main"
wire = "chat"
base_url = "https://models.example.com/v1"
model = "m"
api_key = "sk-of-main-target"
"""


def given(
    text: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    files: Mapping[str, TextFile] | None = None,
) -> ConfigInputs:
    """What load is given."""
    there = files or {}

    def read(path: Path) -> TextFile:
        if str(path) in there:
            return there[str(path)]
        raise FileNotFoundError(2, "No such file or directory", str(path))

    file = None if text is None else ConfigFile(FILE, text)
    return ConfigInputs(
        flags=flags or {}, environ={"HOME": "/home/u"} | dict(environ or {}), file=file, read=read
    )


def loaded(
    text: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    files: Mapping[str, TextFile] | None = None,
) -> Loaded:
    """The settings of a text and an environment."""
    return load(given(text, environ=environ, files=files))


def refused(what: ConfigInputs) -> str:
    """What a person is told who starts with this."""
    try:
        load(what)
    except BadConfiguration as error:
        return str(error)
    raise AssertionError("nothing was wrong")
