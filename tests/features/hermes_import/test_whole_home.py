"""A whole hermes home: each of its items is in the report, and the imported agent answers as itself."""

import asyncio
from pathlib import Path

import pytest

from features.hermes_import.home import data_dir
from features.hermes_import.whole_home import ENV, SECRETS, fill
from holdfast.config.load import load_configuration
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.values import TRIGGER, CronTimes, TriggerSettings
from holdfast.features.delegation.agents import AgentLibrary
from holdfast.features.hermes_import.command import import_hermes
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS


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
