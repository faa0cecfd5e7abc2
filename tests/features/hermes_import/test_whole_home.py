"""A whole hermes home: each of its items is in the report, and the imported agent answers as itself."""

import asyncio
import json
from pathlib import Path

import pytest

from features.hermes_import.home import TALK, data_dir, make_database, make_page_session
from holdfast.config.load import load_configuration
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.values import TRIGGER, CronTimes, TriggerSettings
from holdfast.features.delegation.agents import AgentLibrary
from holdfast.features.hermes_import.command import import_hermes
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

CONFIG = """
_config_version: 50
model:
  default: hermes-4
  provider: my-proxy
  context_length: 65536
  streaming: true
providers:
  my-proxy:
    base_url: http://127.0.0.1:4000/v1
    api_key: ${PROXY_KEY}
    stale_timeout_seconds: 300
    models:
      hermes-4: {timeout_seconds: 900}
  spare: {base_url: "http://127.0.0.1:4001/v1"}
timezone: Europe/Berlin
agent:
  max_turns: 60
  reasoning_effort: high
  personalities:
    pirate: Talk like a pirate.
    Old Sage: {description: "Wise: very", system_prompt: Be wise., tone: calm}
approvals: {mode: smart}
command_allowlist: [ls]
display: {skin: mono, streaming: true}
hooks: {pre_tool_call: [{command: check.sh}]}
mcp_servers:
  files: {command: npx, args: [server]}
terminal: {backend: docker}
gateway:
  strict: true
  platforms: {api_server: {extra: {port: 9000, cors_origins: "http://other"}}}
made_up_table: {a: 1}
"""
ENV = """
PROXY_KEY=proxy-key-123456
TAVILY_API_KEY=tvly-abcdef123456
FAL_KEY=fal-abcdef123456
OPENAI_API_KEY=sk-unused-123456
API_SERVER_ENABLED=true
API_SERVER_KEY=the-key-of-the-api-server
API_SERVER_CORS_ORIGINS=http://localhost:3000
API_SERVER_MODEL_NAME=sage
TELEGRAM_BOT_TOKEN=123456:abcdefghijklmnopqrstuvwxyz0123456789
TELEGRAM_ALLOWED_USERS=42
TELEGRAM_HOME_CHANNEL=42
WHATSAPP_ENABLED=true
HERMES_YOLO_MODE=1
MADE_UP=1
"""
CRON = {"kind": "cron", "expr": "0 9 * * *"}
JOBS = [
    {
        "id": "a",
        "name": "digest",
        "prompt": "Summarize.",
        "schedule": CRON,
        "skills": ["notes"],
        "repeat": {"times": 5, "completed": 2},
        "script": "fetch.sh",
        "deliver": "telegram",
    },
    {"id": "b", "name": "hourly", "prompt": "Look.", "schedule": {"kind": "interval", "minutes": 60}},
    {"id": "c", "name": "report", "prompt": "Report.", "schedule": CRON, "script": "report.py"},
]
SKILL = "---\nname: notes\ndescription: Write notes.\n---\n\nLook."
SECRETS = ("proxy-key", "tvly-", "fal-", "sk-unused", "the-key-of", "abcdefghij", "key-of-the-profile")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fill(home: Path) -> None:
    """Two conversations, and everything else that a home can have."""
    make_database(home, {"s1": TALK})
    make_page_session(home, "s2")
    write(home / "config.yaml", CONFIG)
    write(home / ".env", ENV)
    write(home / "SOUL.md", "You are Ada, a careful engineer.")
    write(home / "memories" / "USER.md", "Likes oolong")
    write(home / "memories" / "old.txt", "?")
    write(home / "skills" / "notes" / "SKILL.md", SKILL)
    write(home / "cron" / "jobs.json", json.dumps({"jobs": JOBS}))
    write(home / "cron" / "output" / "a.md", "old")
    write(home / "scripts" / "fetch.sh", "echo fetched")
    write(home / "scripts" / "report.py", "print('report')")
    write(home / "auth.json", json.dumps({"providers": {"openai-codex": {"tokens": {"access_token": "x"}}}}))
    for name in ("logs/agent.log", "plugins/p/plugin.yaml", "webui/settings.json", "webui/projects.json"):
        write(home / name, "{}")
    for name in ("gateway_state.json", "made_up.bin", "state.db-shm"):
        write(home / name, "")
    profile = home / "profiles" / "coder"
    write(
        profile / "config.yaml",
        "model: {default: m, provider: p}\nproviders: {p: {base_url: 'http://h/v1'}}\n",
    )
    write(profile / ".env", "API_SERVER_KEY=key-of-the-profile-coder\n")
    write(profile / "SOUL.md", "You are Coder.")
    make_database(profile, {"s3": TALK})


def paused_triggers(folder: Path) -> dict[str, TriggerSettings]:
    async def read() -> list[Trigger]:
        store = await SqliteStore.open(folder / "holdfast.db", NO_SECRETS)
        try:
            return [await trigger_state(store, row.session_id) for row in await store.logs(TRIGGER)]
        finally:
            await store.close()

    states = asyncio.run(read())
    return {state.settings.name: state.settings for state in states if state.settings and state.is_paused}


def test_every_item_of_a_whole_home_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P11, P12: by name, never by value, and nothing unfinished is called skipped."""
    fill(home)
    assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr().out
    assert not [secret for secret in SECRETS if secret in said]
    lines = {line.partition(": ")[0]: "" for line in said.splitlines()}
    for line in said.splitlines():
        fate, _, rest = line.partition(": ")
        lines[fate] += rest + "\n"
    names = [path.name for path in home.iterdir()]
    variables = [line.partition("=")[0] for line in ENV.split()]
    keys = [
        "approvals",
        "command_allowlist",
        "display",
        "hooks",
        "terminal",
        "model.streaming",
        "timezone",
        "gateway.strict",
    ]
    keys += ["agent.max_turns", "agent.reasoning_effort", "agent.personalities", "providers.spare"]
    reported = lines["moved"] + lines["left"] + lines["unknown"]
    missing = [name for name in (*names, *variables, *keys) if name not in reported]
    # Folders some of whose files are moved are listed file by file.
    assert missing == []
    for name in (
        "SOUL.md",
        "scripts",
        "cron/jobs.json",
        "webui/sessions",
        "API_SERVER_MODEL_NAME",
        "timezone",
    ):
        assert name in lines["moved"], name
    for name in ("webui/projects.json", "cron/output", "OPENAI_API_KEY", "WHATSAPP_ENABLED", "terminal"):
        assert name in lines["left"], name
    for name in ("made_up.bin", "made_up_table", "MADE_UP", "memories/old.txt"):
        assert name in lines["unknown"], name
    for step in ("holdfast channels pair telegram", "the MCP servers (files)", "holdfast triggers resume"):
        assert step in lines["next"], step
    assert lines["skipped"] == "1 attached file, sound or stray message\n" * 2


def test_the_imported_agent_is_itself_with_its_limits_jobs_and_profiles(home: Path) -> None:
    fill(home)
    assert import_hermes(None, {}, how="do") == 0
    settings = load_configuration({}).settings
    assert settings.agent.identity.strip() == "You are Ada, a careful engineer."
    assert settings.agent.turns_max == 60
    (target,) = settings.targets
    assert (target.patience.gap_s, target.patience.first_event_cap_s) == (300, 900)
    assert (settings.server.model_name, settings.server.cors_origins) == ("sage", ("http://localhost:3000",))
    assert (settings.server.port, settings.agent.workspace) == (9000, ".")
    assert (settings.web_search.service, settings.web_search.api_key) == ("tavily", "tvly-abcdef123456")
    (telegram,) = settings.channels
    assert (telegram.allow, telegram.home) == (("42",), "42")
    own = home.parent / ".config" / "holdfast"
    agents = AgentLibrary(own).usable(None)
    assert agents["pirate"].instructions == "Talk like a pirate."
    sage = agents["old-sage"]
    assert (sage.description, sage.instructions) == ("Wise: very", "Be wise.\n\nTone: calm")

    found = paused_triggers(data_dir(home))
    digest = found["digest"]
    assert digest.when == CronTimes(expression="0 9 * * *", zone="Europe/Berlin")
    assert (digest.skills, digest.times, digest.script) == (("notes",), 3, "echo fetched")
    assert digest.deliver == ("telegram",)
    assert "print('report')" in found["report"].script
    assert set(found) == {"digest", "hourly", "report"}

    profile = own / "profiles" / "coder"
    coder = load_configuration({"config": profile / "holdfast.toml"}).settings
    assert coder.agent.identity.strip() == "You are Coder."
    assert coder.server.api_keys == ("key-of-the-profile-coder",)
    assert (data_dir(home) / "profiles" / "coder" / "holdfast.db").exists()
    files = [path for path in own.rglob("*") if path.is_file() and "skills" not in path.parts]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
