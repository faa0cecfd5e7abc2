"""`holdfast import hermes`: imports targets, keys and conversations; hermes-agent's files stay unchanged."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.environment import CONFIG, PROFILE
from holdfast.config.files import FILE_NAME, PROFILES, config_home, scoped
from holdfast.config.load import BadConfiguration, ConfigInputs, load, read_environment
from holdfast.config.settings import Settings
from holdfast.features.hermes_import.config_file import FileOutcome, ImportPlan, plan_of, write_private
from holdfast.features.hermes_import.inventory import Inventory
from holdfast.features.hermes_import.jobs import HermesJob, local_zone, read_jobs, store_jobs
from holdfast.features.hermes_import.learned import HermesLearned, copy_skills, read_learned, store_memories
from holdfast.features.hermes_import.sessions import HermesSessions
from holdfast.features.hermes_import.settings import PAIR, read_settings
from holdfast.features.hermes_import.taken import TakenSettings
from holdfast.features.memory.memories import MemoryScope, chat_scope, user_scope
from holdfast.features.profiles.scope import MAIN, NAME, environ_of
from holdfast.features.sign_ins.actions import keep
from holdfast.features.sign_ins.issuer import TokenUnavailable
from holdfast.features.sign_ins.sign_ins import vault_of
from holdfast.features.transcripts.storing import own_workspace, preview_conversations, store_conversations
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import Redactor
from holdfast.safe_text import safe_line

OK, FAILED = 0, 1
PROBLEMS_TOLD_MAX = 50
PROBLEM_CHARS_MAX = 4_000
BOTS = {
    "telegram": "Telegram bot, with its token",
    "slack": "Slack app, with its tokens",
    "discord": "Discord bot, with its token",
}
OTHER = "{} exists, so it wasn't changed; add the settings you need:"
# Their contents are moved as far as possible, and reported item by item.
MOVED_FILES = frozenset(
    (
        *("config.yaml", ".env", "SOUL.md", "USER.md", "MEMORY.md", "state.db"),
        *("skills", "scripts", "memories/USER.md", "memories/MEMORY.md", "cron/jobs.json"),
        "webui/sessions",
    )
)


def import_hermes(home: str | None, flags: Mapping[str, object], *, how: Literal["try", "do"]) -> int:
    """Import everything, or only report what would be imported; returns the exit code."""
    return _import(home, flags, how=how, bots={})


def _import(
    home: str | None, flags: Mapping[str, object], *, how: Literal["try", "do"], bots: dict[str, str]
) -> int:
    """Import a home or a profile; `bots` has whose bot each token is."""
    try:
        inputs = read_environment(flags)
        settings = load(inputs).settings
    except BadConfiguration as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    folder = hermes_home(home, inputs)
    if wrong := _unusable(folder, settings):
        echo_error(f"holdfast: {wrong}")
        return FAILED
    taken = read_settings(folder)
    _leave_bots(taken, bots, inputs.environ.get(PROFILE, ""))
    hidden = Redactor(taken.secrets)
    inventory = inventory_of(folder, taken)
    plan = plan_of(taken, config_home(inputs.environ))
    sessions = HermesSessions(folder, page=_page_of(inputs))
    jobs = read_jobs(folder, now_ms=SystemClock().now_ms(), zone=taken.zone or local_zone())
    channels = {one.kind for one in taken.channels} | {one.name for one in settings.channels}
    jobs.jobs = [job.noting_absent(channels) for job in jobs.jobs]
    learned = read_learned(folder)
    copied = len(learned.skills)
    try:
        if how == "do":
            counts = store_conversations(
                sessions.read(), settings.data_dir, hidden=hidden, workspace_of=own_workspace
            )
            outcome = plan.carry_out(inputs.environ)
            owner = _owner(load(read_environment(flags)).settings)
            shown = _store_jobs(jobs.jobs, settings.data_dir, owner=owner, hidden=hidden)
            _store_learned(learned, settings.data_dir, scopes=_scopes(taken, owner), hidden=hidden)
            copied = copy_skills(learned, config_home(inputs.environ) / "skills")
            _sign_in(taken, settings)
        else:
            counts = preview_conversations(sessions.read(), settings.data_dir)
            shown = jobs.jobs
            outcome = plan.outcome(inputs.environ)
    except (DirectoryBusy, JournalError, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    faults = plan.faults(inputs.environ) if outcome == "wrong" else ()
    problems = [*faults, *taken.problems, *sessions.problems, *jobs.problems, *learned.problems]
    learnt = f"{counted(copied, 'skill')} and {counted(len(learned.memories), 'memory', 'memories')}"
    report = [
        *_settings_lines(taken, plan, outcome=outcome, how=how),
        *(job.line for job in shown),
        *counts.lines(),
        f"{learnt} (unless already imported)",
        *inventory.lines(),
        *_problem_lines(problems),
        *_step_lines(taken, has_jobs=bool(shown)),
    ]
    _print(report, plan, hidden)
    codes = [_import_profile(name, folder, settings, how=how, bots=bots) for name in _profiles(folder)]
    if how == "try" and not inputs.environ.get(PROFILE):
        echo("Dry run: nothing was written.")
    return max(codes, default=OK)


def _print(report: Sequence[str], plan: ImportPlan, hidden: Redactor) -> None:
    for line in report:
        echo(hidden.redact_text(safe_line(line, PROBLEM_CHARS_MAX)))
        if line == OTHER.format(plan.path):
            echo(f"\n{plan.text}")


def _unusable(home: Path, settings: Settings) -> str:
    """Return why nothing can be imported, or empty. Blocks."""
    if not os.path.isdir(home):  # noqa: PTH112  # never raises, not even for unreadable paths
        return f"directory not found: {home}; pass the home directory of hermes-agent"
    if settings.server.store:
        return (
            "can only import into an SQLite store. Import with --data-dir and without server.store, then run "
            "`holdfast store copy`"
        )
    return ""


def _leave_bots(taken: TakenSettings, bots: dict[str, str], profile: str) -> None:
    """Leave the bots that the main configuration or another profile has: a bot answers for one of them."""
    for channel in list(taken.channels):
        kind, owner = channel.kind, bots.setdefault(channel.token, profile)
        if owner != profile:
            taken.channels.remove(channel)
            taken.environ.used -= {name for name in taken.environ if name.startswith(f"{kind.upper()}_")}
            whose = f"the profile {owner}" if owner else "the main configuration"
            taken.problems.append(
                f"{kind}: {whose} has the same bot, and a bot answers for one of them; make another bot"
            )
            taken.steps = [step for step in taken.steps if step != PAIR.format(kind)]


def _profiles(home: Path) -> list[str]:
    """The profiles in the home that can have the same name here. Blocks."""
    try:
        with os.scandir(home / PROFILES) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [name for name in names if NAME.fullmatch(name) and name != MAIN]


def _import_profile(
    name: str, home: Path, settings: Settings, *, how: Literal["try", "do"], bots: dict[str, str]
) -> int:
    """Import a profile as a profile of Holdfast; returns the exit code."""
    echo(f"\nprofile {name}:")
    environ = environ_of(name, settings.data_dir)
    del environ[CONFIG]  # the file may not exist yet
    with scoped(environ):
        code = _import(str(home / PROFILES / name), {}, how=how, bots=bots)
        file = config_home(environ) / FILE_NAME
        if how == "do" and code == OK and not file.exists():
            write_private(file, f"# The profile {name}, imported from hermes-agent.\n")
    return code


def inventory_of(home: Path, taken: TakenSettings) -> Inventory:
    """List what is in the home, and what happens to it. Blocks."""
    inventory = Inventory()
    moved = [f"{PROFILES}/{name}" for name in _profiles(home)]
    moved += ["auth.json"] if taken.has_stored_keys else []
    inventory.files(home, MOVED_FILES | frozenset(moved))
    inventory.config(taken.config, taken.keys)
    inventory.variables(taken.environ, frozenset(taken.environ.used))
    return inventory


def hermes_home(home: str | None, inputs: ConfigInputs) -> Path:
    """The named directory, or the one that hermes-agent itself would use."""
    named = home or inputs.environ.get("HERMES_HOME") or f"{inputs.environ.get('HOME', '')}/.hermes"
    return Path(named).expanduser()


def _page_of(inputs: ConfigInputs) -> Path | None:
    """Where the web UI keeps its files, if that's configured."""
    named = inputs.environ.get("HERMES_WEBUI_STATE_DIR", "")
    return Path(named).expanduser() if named else None


def _owner(settings: Settings) -> str:
    """The name of the key that the page and the terminal use: memories and jobs become its own."""
    keys = settings.server.api_keys
    return "first" if keys is None else "key 1" if keys else ""


def _scopes(taken: TakenSettings, owner: str) -> list[MemoryScope]:
    """Whose memory it becomes: that of the key, and of the person's own chat."""
    # The chat with a person has that person's id; a group has another.
    chats = [one.home for one in taken.channels if one.kind == "telegram" and one.home in one.allow]
    return [user_scope(owner), *(chat_scope(f"telegram/{chat}") for chat in chats)]


def _store_learned(
    learned: HermesLearned, data_dir: Path, *, scopes: Sequence[MemoryScope], hidden: Redactor
) -> None:
    async def work() -> None:
        store = await SqliteStore.open(data_dir / "holdfast.db", hidden)
        try:
            await store_memories(learned, store, scopes=scopes, hidden=hidden)
        finally:
            await store.close()

    if learned.memories:
        with DirectoryLock(data_dir):
            asyncio.run(work())


def _store_jobs(
    jobs: Sequence[HermesJob], data_dir: Path, *, owner: str, hidden: Redactor
) -> Sequence[HermesJob]:
    """Store the jobs as paused triggers; return the new ones."""

    async def store_all() -> Sequence[HermesJob]:
        store = await SqliteStore.open(data_dir / "holdfast.db", hidden)
        try:
            return await store_jobs(store, jobs, owner=owner, hidden=hidden, now_ms=SystemClock().now_ms())
        finally:
            await store.close()

    if not jobs:
        return ()
    with DirectoryLock(data_dir):
        return asyncio.run(store_all())


def _sign_in(taken: TakenSettings, settings: Settings) -> None:
    """Copy the sign-ins, except where there is one already."""

    async def keep_all() -> None:
        for name, tokens in taken.sign_ins.items():
            if await vault_of(settings, name, None).read() is None:
                await keep(settings, name, tokens)

    try:
        asyncio.run(keep_all())
    except TokenUnavailable as error:
        taken.problems.append(f"sign-in: {error}")


def _settings_lines(
    taken: TakenSettings, plan: ImportPlan, *, outcome: FileOutcome, how: Literal["try", "do"]
) -> Iterator[str]:
    for target in taken.targets:
        with_key = (
            ", with its key" if target.key else f", with the sign-in {target.auth}" if target.auth else ""
        )
        yield f"target {target.name}: {target.model} at {target.base_url} ({target.wire}){with_key}"
    if taken.server_key:
        yield "its API server's key, so its clients keep working"
    for channel in taken.channels:
        yield f"its {BOTS[channel.kind]}, for {counted(len(channel.allow), 'person', 'people')}"
    saved = "saved" if how == "do" else "to be saved"
    words: Mapping[FileOutcome, str] = {
        "nothing": "no targets to import",
        "written": f"{saved} to {plan.path}, with the keys in files beside it",
        "same": f"{plan.path} already has them",
        "other": OTHER.format(plan.path),
        "wrong": f"{plan.path} wasn't written, because the server wouldn't start with it",
    }
    yield words[outcome]


def _step_lines(taken: TakenSettings, *, has_jobs: bool) -> Iterator[str]:
    steps = list(taken.steps)
    if not taken.targets:
        steps.insert(0, "add a model as [[targets]], because none was imported")
    if has_jobs:
        steps.append("look at `holdfast triggers list`, then start each with `holdfast triggers resume`")
    return (f"next: {step}" for step in steps)


def _problem_lines(problems: Sequence[str]) -> Iterator[str]:
    for problem in problems[:PROBLEMS_TOLD_MAX]:
        yield f"left: {problem}"
    if len(problems) > PROBLEMS_TOLD_MAX:
        yield f"left: and {len(problems) - PROBLEMS_TOLD_MAX} more"
