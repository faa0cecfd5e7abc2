"""Targets and keys of hermes-agent as our own configuration: one that a server starts with."""

from pathlib import Path

import pytest

from holdfast.cli.configuration import configure
from holdfast.cli.import_hermes import import_hermes
from holdfast.cli.import_hermes_settings import TakenSettings, read_settings

CONFIG = """
_config_version: 50
model:
  default: anthropic/claude-opus
  provider: openrouter
  base_url: https://openrouter.ai/api/v1
  context_length: 131072
fallback_providers:
  - provider: my-proxy
    model: small
  - provider: nous
    model: hermes-4
custom_providers:
  - name: my-proxy
    base_url: http://127.0.0.1:4000/v1/
    key_env: PROXY_KEY
    api_mode: anthropic_messages
    extra_headers: {X-Team: "${TEAM}"}
mcp_servers:
  files: {command: npx, args: [server]}
"""
ENV = """
# a comment
OPENROUTER_API_KEY="sk-or-1234567890"
export PROXY_KEY=proxy-key-123 # why not
TEAM=blue
API_SERVER_KEY=the-key-of-the-api-server
HERMES_STREAM_STALE_TIMEOUT=60
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".hermes"
    folder.mkdir()
    return folder


def taken(home: Path, config: str, env: str = "") -> TakenSettings:
    (home / "config.yaml").write_text(config)
    (home / ".env").write_text(env)
    return read_settings(home)


def test_a_server_starts_with_what_was_taken(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken(home, CONFIG, ENV)
    assert import_hermes(None, {}, how="try") == 0
    own = home.parent / ".config" / "holdfast"
    assert not own.exists()
    assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr().out
    assert not [secret for secret in ("sk-or-", "proxy-key", "the-key-of", "blue") if secret in said]
    assert "target nous: it signs in through a browser" in said
    assert "MCP servers (files)" in said
    loaded = configure({})
    main, proxy = loaded.settings.targets
    assert (main.name, main.wire, main.model, main.api_key) == (
        "openrouter",
        "chat",
        "anthropic/claude-opus",
        "sk-or-1234567890",
    )
    assert (main.context_window, main.patience.gap_s) == (131072, 60)
    assert (proxy.wire, proxy.base_url, proxy.api_key) == (
        "anthropic",
        "http://127.0.0.1:4000/v1",
        "proxy-key-123",
    )
    assert proxy.headers == {"X-Team": "blue"}
    assert loaded.settings.server.api_keys == ("the-key-of-the-api-server",)
    files = [path for path in own.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert "the-key-of" not in (own / "holdfast.toml").read_text()


def test_a_configuration_that_is_there_stays_and_the_tables_are_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken(home, CONFIG, ENV)
    own = home.parent / ".config" / "holdfast" / "holdfast.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[server]\nport = 1\n")
    assert import_hermes(None, {}, how="do") == 0
    assert own.read_text() == "[server]\nport = 1\n"
    assert 'name = "openrouter"' in capsys.readouterr().out
    assert [path.name for path in own.parent.iterdir()] == ["holdfast.toml"]
    own.unlink()
    assert import_hermes(None, {}, how="do") == import_hermes(None, {}, how="do") == 0
    assert "holds them already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "env", "expected"),
    [
        ("model: gpt-x\nprovider: openai\n", "OPENAI_API_KEY=key1\n", ("openai", "responses", "gpt-x")),
        (
            "model: {default: m, provider: auto}\n",
            "ANTHROPIC_API_KEY=key1\n",
            ("anthropic", "anthropic", "m"),
        ),
        ("model: {default: m, base_url: 'http://10.0.0.1/v1'}\n", "", ("custom", "chat", "m")),
        (
            "model: {default: m, provider: p}\nproviders: {p: {base_url: 'http://h/v1', api_key: '${K}'}}\n",
            "K=1\n",
            ("p", "chat", "m"),
        ),
        (
            (
                "model: {default: m, provider: My-Proxy}\n"
                "custom_providers: [{name: 'My Proxy', base_url: 'http://h/v1', api_mode: Responses}]\n"
            ),
            "",
            ("my-proxy", "responses", "m"),
        ),
        (
            'fallback_providers: \'[{"provider": "zai", "model": "glm"}]\'\n',
            "GLM_API_KEY=your_api_key_here\nZ_AI_API_KEY=key1\n",
            ("zai", "chat", "glm"),
        ),
        (
            "model: {default: m, provider: nvidia, key_env: MINE}\n",
            "MINE=key2\nNVIDIA_API_KEY=key1\n",
            ("nvidia", "chat", "m"),
        ),
    ],
    ids=["plain", "auto", "address", "named", "listed", "as-text", "key-of-its-own"],
)
def test_the_ways_to_name_a_model_are_understood(
    home: Path, config: str, env: str, expected: tuple[str, str, str]
) -> None:
    (target,) = taken(home, config, env).targets
    assert (target.name, target.wire, target.model) == expected


@pytest.mark.parametrize(
    ("provider", "env", "place"),
    [
        ("minimax", "MINIMAX_API_KEY=key1", ("anthropic", "https://api.minimax.io/anthropic")),
        (
            "minimax, base_url: 'https://proxy.example.com/anthropic/v1/'",
            "MINIMAX_API_KEY=key1",
            ("anthropic", "https://proxy.example.com/anthropic"),
        ),
        ("kimi-coding", "KIMI_API_KEY=sk-old-key", ("chat", "https://api.moonshot.ai/v1")),
        ("kimi-coding", "KIMI_API_KEY=sk-kimi-key", ("anthropic", "https://api.kimi.com/coding")),
        (
            "gemini, base_url: 'https://generativelanguage.googleapis.com/v1beta'",
            "GEMINI_API_KEY=key1",
            ("chat", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ),
        ("xai", "XAI_API_KEY=key1", ("responses", "https://api.x.ai/v1")),
        (
            "custom, base_url: 'https://api.openai.com/v1'",
            "OPENAI_API_KEY=key1",
            ("responses", "https://api.openai.com/v1"),
        ),
    ],
)
def test_an_address_tells_what_is_spoken_there(
    home: Path, provider: str, env: str, place: tuple[str, str]
) -> None:
    (target,) = taken(home, f"model: {{default: m, provider: {provider}}}\n", f"{env}\n").targets
    assert (target.wire, target.base_url) == place


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("model: {default: m, provider: openrouter}\n", ".env holds no key for it (OPENROUTER_API_KEY)"),
        ("model: {default: m, provider: nowhere}\n", "not known here"),
        ("model: {provider: openrouter}\n", "names no model"),
        ("model: {default: m}\n", "no provider is named"),
        ("model: {default: m, provider: custom}\n", "no base_url"),
        ("model: {default: m, provider: custom, base_url: 'http://h', key_cmd: x}\n", "key_cmd"),
        ("model: {default: m, base_url: 'http://h', api_key: '${GONE}'}\n", "GONE, which .env does not hold"),
        ("a: [\n", "cannot be read"),
    ],
)
def test_what_cannot_be_taken_is_said_in_words_that_help(home: Path, config: str, words: str) -> None:
    """P12: no shape of these files is more than a sentence about it."""
    it = taken(home, config)
    assert not it.targets
    assert words in " ".join(it.problems)
