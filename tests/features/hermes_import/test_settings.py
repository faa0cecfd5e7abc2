"""Targets and keys of hermes-agent as our own configuration: one that a server starts with."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from features.hermes_import.whole_home import CODEX_HOME
from holdfast.config.load import load_configuration
from holdfast.features.hermes_import.command import import_hermes
from holdfast.features.hermes_import.config_file import plan_of
from holdfast.features.hermes_import.settings import read_settings
from holdfast.features.hermes_import.taken import TakenSettings

from .home import data_dir, make_database

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
    assert (
        "target nous: hermes-4 at https://inference-api.nousresearch.com/v1 (chat), with the sign-in nous"
        in said
    )
    assert "next: run `holdfast auth login nous`" in said
    assert "MCP servers (files)" in said
    loaded = load_configuration({})
    main, proxy, nous = loaded.settings.targets
    assert (nous.name, nous.auth, nous.api_key) == ("nous", "nous", "")
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
    shown = capsys.readouterr().out
    assert 'name = "openrouter"' in shown
    assert {path.name for path in own.parent.iterdir()} == {"holdfast.toml", "keys"}
    tables = shown[shown.index("[[targets]]") : shown.index("0 sessions imported")]
    own.write_text(own.read_text() + tables)  # as the report says
    assert load_configuration({}).settings.targets[0].name == "openrouter"
    own.unlink()
    assert import_hermes(None, {}, how="do") == import_hermes(None, {}, how="do") == 0
    assert "already has them" in capsys.readouterr().out


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


# Each line merges the line before it ten times: a parser that does so never ends.
MERGED_FOR_EVER = "a0: &a0 {k: 1}\n" + "".join(
    f"a{nth}: &a{nth} {{<<: [{', '.join([f'*a{nth - 1}'] * 10)}]}}\n" for nth in range(1, 30)
)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            "model: {default: m, provider: openrouter}\n",
            "nor auth.json has a key for it (OPENROUTER_API_KEY)",
        ),
        ("model: {default: m, provider: nowhere}\n", "doesn't know this provider"),
        ("model: {provider: openrouter}\n", "names no model"),
        ("model: {default: m}\n", "names no provider"),
        ("model: {default: m, provider: custom}\n", "no base_url"),
        ("model: {default: m, provider: custom, base_url: 'http://h', key_cmd: x}\n", "key_cmd"),
        (
            "model: {default: m, base_url: 'http://h', api_key: '${GONE}'}\n",
            "GONE, which .env doesn't contain",
        ),
        ("a: [\n", "can't read the file"),
        (MERGED_FOR_EVER, "uses references"),
    ],
)
def test_what_cannot_be_taken_is_said_in_words_that_help(home: Path, config: str, words: str) -> None:
    """P12: no shape of these files is more than a sentence about it."""
    it = taken(home, config)
    assert not it.targets
    assert words in " ".join(it.problems)


def test_names_in_yaml_that_are_no_texts_are_read_as_they_stand(home: Path) -> None:
    """P12: a provider or a server may be called 1, or on, and a header too."""
    it = taken(
        home,
        "model: {default: m, provider: '1'}\nmcp_servers: {2: {}, on: {}, null: {}}\n"
        "providers: {no: {}, 1: {base_url: 'http://h/v1', extra_headers: {3: three}}}\n",
    )
    (target,) = it.targets
    assert (target.name, target.headers) == ("1", {"3": "three"})
    assert not any(it.secrets)
    assert "MCP servers (2, None, True)" in " ".join(it.steps)


AUTH = {
    "version": 1,
    "active_provider": "openrouter",
    "providers": {"openai-codex": {"tokens": {"access_token": "codex-sign-in", "id_token": "codex-again-1"}}},
    "credential_pool": {
        "openrouter": [
            {"auth_type": "api_key", "priority": 1, "source": "manual", "access_token": "sk-or-second-key"},
            {"auth_type": "api_key", "priority": 0, "source": "manual", "access_token": "sk-or-first-key"},
            {"auth_type": "api_key", "priority": -1, "access_token": "sk-or-dead-key", "last_status": "dead"},
            {"auth_type": "api_key", "priority": -2, "source": "env:OPENROUTER_API_KEY", "last_status": None},
        ],
        "custom:my-proxy": [
            {"access_token": "proxy-key-of-pool", "base_url": "http://elsewhere", "priority": 0},
        ],
        "anthropic": [{"auth_type": "api_key", "access_token": "sk-ant-oat01-of-a-sign-in", "priority": 0}],
        "deepseek": [{"auth_type": "api_key", "access_token": "sk-deep-unused", "priority": 0}],
    },
    "updated_at": "2026-01-01T00:00:00+00:00",
}
POOLED = """
model: {default: m, provider: openrouter}
fallback_providers:
  - {provider: my-proxy, model: small}
  - {provider: anthropic, model: claude}
custom_providers:
  - {name: My Proxy, base_url: "http://127.0.0.1:4000/v1", key_env: PROXY_KEY}
"""


def test_keys_that_hermes_auth_stored_are_taken_and_never_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: all keys of a provider that work; sign-ins and the rest are named without a secret."""
    taken(home, POOLED.replace("my-proxy", "my proxy"))
    (home / "auth.json").write_text("\ufeff" + json.dumps(AUTH))
    before = (home / "auth.json").read_bytes()
    assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr()
    main, proxy = load_configuration({}).settings.targets
    assert (main.name, main.api_keys) == ("openrouter", ("sk-or-first-key", "sk-or-second-key"))
    assert (proxy.api_key, proxy.base_url) == ("proxy-key-of-pool", "http://127.0.0.1:4000/v1")
    tokens = ["codex-sign-in", "codex-again-1", "sk-or-", "proxy-key-of-pool", "sk-ant-oat", "sk-deep-unused"]
    assert not [token for token in tokens if token in said.out + said.err]
    for words in (
        "target anthropic: neither .env nor auth.json has a key",
        "keys in auth.json that no target uses: deepseek",
        "sign-ins in auth.json (anthropic, openai-codex)",
    ):
        assert words in said.out
    files = [path for path in (home.parent / ".config" / "holdfast").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (home / "auth.json").read_bytes() == before
    assert set(read_settings(home).secrets) >= {"codex-sign-in", "codex-again-1", "sk-or-dead-key"}


def test_a_profile_uses_the_stored_keys_of_the_home_above_for_what_it_does_not_hold(home: Path) -> None:
    profile = home / "profiles" / "work"
    profile.mkdir(parents=True)
    (home / "auth.json").write_text(json.dumps(AUTH))
    own = {"credential_pool": {"openrouter": [{"access_token": "sk-or-of-the-profile"}]}}
    (profile / "auth.json").write_text(json.dumps(own))
    first, second = taken(profile, POOLED).targets
    assert (first.key, second.key) == ("sk-or-of-the-profile", "proxy-key-of-pool")


@pytest.mark.parametrize("text", ["[]", "{", '{"credential_pool": []}', '{"credential_pool": {"x": [3]}}'])
def test_a_file_of_stored_keys_in_any_other_shape_is_no_more_than_a_sentence(home: Path, text: str) -> None:
    """P12: nothing in it breaks the import."""
    (home / "auth.json").write_text(text)
    assert not taken(home, POOLED).targets


def test_what_is_in_env_comes_before_what_is_stored(home: Path) -> None:
    (home / "auth.json").write_text(json.dumps(AUTH))
    first, _ = taken(home, POOLED, "OPENROUTER_API_KEY=sk-or-of-env-file").targets
    assert first.key == "sk-or-of-env-file"


@pytest.mark.parametrize("name", [".env", "config.yaml", "auth.json"])
def test_settings_that_are_no_file_keep_nobody_waiting(tmp_path: Path, name: str) -> None:
    """P3."""
    os.mkfifo(tmp_path / name)
    taken = read_settings(tmp_path)
    assert f"{tmp_path / name}: can't read the file: it is not a regular file" in taken.problems


def test_a_telegram_bot_becomes_a_channel_and_its_token_is_only_in_its_file(home: Path) -> None:
    env = "TELEGRAM_BOT_TOKEN=12345:the-bots-token\nTELEGRAM_ALLOWED_USERS=42, @ann,43\n"
    found = taken(home, "", env)
    plan = plan_of(found, home.parent / "config")
    settings = tomllib.loads(plan.text)["channels"]
    token = "file:keys/hermes-telegram"  # noqa: S105  # where it is
    assert settings == [{"name": "telegram", "kind": "telegram", "token": token, "allow": ["42", "43"]}]
    assert plan.keys == {"hermes-telegram": "12345:the-bots-token"}
    assert plan.faults({"HOME": str(home.parent)}) == ()
    assert "12345:the-bots-token" in found.secrets
    assert "12345:the-bots-token" not in repr(found) + plan.text
    assert [problem.partition(":")[0] for problem in found.problems] == ["Telegram"]
    assert ["pair telegram" in step for step in found.steps] == [True]
    assert taken(home, "", "TELEGRAM_BOT_TOKEN=changeme\n").channels == []


def test_a_slack_app_becomes_a_channel_and_its_tokens_are_only_in_their_files(home: Path) -> None:
    env = "SLACK_BOT_TOKEN=xoxb-1-bots-token\nSLACK_ALLOWED_USERS=U042ABC, @ann\nGATEWAY_ALLOWED_USERS=42\n"
    assert taken(home, "", env).channels == []
    found = taken(home, "", env + "SLACK_APP_TOKEN=xapp-1-apps-token\n")
    plan = plan_of(found, home.parent / "config")
    (settings,) = tomllib.loads(plan.text)["channels"]
    assert (settings["name"], settings["kind"], settings["allow"]) == ("slack", "slack", ["U042ABC"])
    assert plan.keys == {"hermes-slack": "xoxb-1-bots-token", "hermes-slack-app": "xapp-1-apps-token"}
    assert plan.faults({"HOME": str(home.parent)}) == ()
    for token in plan.keys.values():
        assert token in found.secrets
        assert token not in repr(found) + plan.text
    assert [problem.partition(":")[0] for problem in found.problems] == ["Slack"]


def test_a_discord_bot_becomes_a_channel_and_its_token_is_only_in_its_file(home: Path) -> None:
    env = "DISCORD_BOT_TOKEN=the.discord-token\nDISCORD_ALLOWED_USERS=284102345871466496, ann\n"
    found = taken(home, "", env + "DISCORD_ALLOWED_ROLES=7\n")
    plan = plan_of(found, home.parent / "config")
    (settings,) = tomllib.loads(plan.text)["channels"]
    token = "file:keys/hermes-discord"  # noqa: S105  # where it is
    assert settings == {"name": "discord", "kind": "discord", "token": token, "allow": ["284102345871466496"]}
    assert plan.keys == {"hermes-discord": "the.discord-token"}
    assert plan.faults({"HOME": str(home.parent)}) == ()
    assert "the.discord-token" in found.secrets
    assert "the.discord-token" not in repr(found) + plan.text
    assert [problem.partition(":")[0] for problem in found.problems] == ["Discord"] * 2
    assert taken(home, "", "DISCORD_BOT_TOKEN=changeme\n").channels == []


def test_a_home_with_codex_alone_becomes_a_target_with_its_sign_in(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: the tokens are copied into a file that only its owner reads; hermes-agent's stays as it is."""
    taken(home, "model: {default: gpt-5.4, provider: openai-codex}\n")
    file = home / "auth.json"
    file.write_text(json.dumps(CODEX_HOME))
    before = file.read_bytes()
    assert import_hermes(None, {}, how="try") == 0
    sign_in = data_dir(home) / "sign-ins" / "codex.json"
    assert not sign_in.exists()
    assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr().out
    assert "target openai-codex: gpt-5.4 at https://chatgpt.com/backend-api/codex (responses)" in said
    assert "next: stop hermes-agent, or run `holdfast auth login codex`" in said
    assert "auth.json" in next(line for line in said.splitlines() if line.startswith("moved:"))
    assert "no targets to import" not in said
    assert "-of-codex" not in said
    (target,) = load_configuration({}).settings.targets
    assert (target.auth, target.wire, target.model) == ("codex", "responses", "gpt-5.4")
    assert json.loads(sign_in.read_text())["refresh_token"] == "refresh-token-of-codex"  # noqa: S105  # made up
    assert sign_in.stat().st_mode & 0o777 == 0o600
    assert file.read_bytes() == before
    sign_in.write_text(json.dumps({"refresh_token": "a-newer-one"}))
    assert import_hermes(None, {}, how="do") == 0
    assert "a-newer-one" in sign_in.read_text(), "a sign-in of Holdfast's own stays"


def test_secrets_of_the_configuration_are_neither_shown_nor_taken_along(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: those of headers, addresses, other providers and MCP servers, in the report and in messages."""
    secrets = ("header-secret-1234567", "pass-of-the-url", "sk-of-the-spare-1234", "token-of-mcp-1234")
    header, password, spare, mcp = secrets
    config = f"""
model: {{default: m, provider: main}}
fallback_providers: [{{provider: odd, model: o}}]
providers:
  main:
    base_url: http://127.0.0.1:4000/v1
    extra_headers: {{X-Gateway-Key: {header}, X-Title: mine}}
  odd: {{base_url: "https://me:{password}@example.com/v1"}}
  spare: {{base_url: "http://127.0.0.1:4001/v1", api_key: {spare}}}
mcp_servers: {{files: {{command: npx, env: {{FILES_TOKEN: {mcp}}}}}}}
1: {{2: [3]}}
"""
    jobs = [
        {"id": "a", "name": f"with {spare}", "prompt": mcp, "schedule": {"kind": "interval", "minutes": 5}}
    ]
    (home / "cron").mkdir()
    (home / "cron" / "jobs.json").write_text(json.dumps(jobs))
    make_database(home, {"s": [{"role": "user", "content": " ".join(secrets)}]})
    taken(home, config)
    assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr().out
    assert "target odd: o at https://me:[redacted]@example.com/v1" in said
    assert [secret for secret in secrets if secret in said] == []
    stored = (data_dir(home) / "holdfast.db").read_bytes()
    stored += b"".join(path.read_bytes() for path in data_dir(home).glob("holdfast.db-*"))
    assert [secret for secret in secrets if secret.encode() in stored] == []


def test_a_secret_header_is_in_a_file_of_its_own(home: Path) -> None:
    headers = "{X-Gateway-Key: header-secret-1234567, X-Title: mine}"
    provider = f"{{base_url: 'http://127.0.0.1:4000/v1', extra_headers: {headers}}}"
    taken(home, f"model: {{default: m, provider: main}}\nproviders: {{main: {provider}}}\n")
    assert import_hermes(None, {}, how="do") == 0
    own = home.parent / ".config" / "holdfast"
    assert "header-secret" not in (own / "holdfast.toml").read_text()
    (target,) = load_configuration({}).settings.targets
    assert {name: str(value) for name, value in target.headers.items()} == {
        "X-Gateway-Key": "header-secret-1234567",
        "X-Title": "mine",
    }
