"""The key that a first start makes, and how the server is reached and greets."""

from pathlib import Path

import pytest

from holdfast.cli.serve import serve
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.host.listening import url_of
from holdfast.host.server_keys import first_key, key_for_clients


def settings_at(folder: Path) -> Settings:
    return Settings(server=ServerSettings(data_dir=str(folder)))


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """P11: its file is whole or not there."""
    settings = settings_at(tmp_path)
    assert key_for_clients(settings) == ""
    key = first_key(settings)
    assert key is not None
    assert key.startswith("hf-")
    assert (first_key(settings), key_for_clients(settings)) == (key, key)
    assert [path.name for path in tmp_path.iterdir()] == ["api-key"]
    assert (tmp_path / "api-key").stat().st_mode & 0o777 == 0o600


def test_a_key_file_that_is_empty_is_made_anew(tmp_path: Path) -> None:
    """P11: it would let everyone in."""
    (tmp_path / "api-key").write_text("\n")
    made = first_key(settings_at(tmp_path))
    assert made is not None
    assert made.startswith("hf-")


@pytest.mark.parametrize("content", [b"\xc3\xa9\n", b"two long enough words\n", b"hf-a\n"])
def test_a_key_file_that_holds_no_key_or_half_of_one_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "api-key").write_bytes(content)
    with pytest.raises(
        OSError, match="api-key contains no valid key; delete it, and the next start generates a new one"
    ):
        first_key(settings_at(tmp_path))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
    ],
)
def test_the_address_that_is_announced_can_be_called(host: str, url: str) -> None:
    assert url_of(host, 80) == url


@pytest.mark.parametrize("name", ["none", "n" * 300])
def test_a_workspace_that_is_not_there_or_cannot_be_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "h.toml").write_text(f"[agent]\nworkspace = '{tmp_path}/{name}'\n")
    assert serve({"config": str(tmp_path / "h.toml"), "port": 0}) == 1
    expected = f"holdfast: {tmp_path}/h.toml, line 2: agent.workspace isn't a folder: {tmp_path}/{name}\n"
    assert capsys.readouterr().err == expected
