"""A whole home of hermes-agent: settings, keys, memories, jobs, skills and a profile."""

import json
from pathlib import Path

from features.hermes_import.home import TALK, make_database, make_page_session

CODEX_HOME = {
    "version": 1,
    "providers": {
        "openai-codex": {
            "tokens": {"access_token": "access-token-of-codex", "refresh_token": "refresh-token-of-codex"},
            "last_refresh": "2026-11-01T00:00:00Z",
            "auth_mode": "chatgpt",
        }
    },
}
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
