"""Validates a trigger's settings in a request."""

import asyncio
from datetime import tzinfo
from typing import Any

from msgspec.structs import replace

from holdfast.agent.capabilities import names_in
from holdfast.features.automations.bodies import TriggerRequest
from holdfast.features.automations.owner import schedule_for
from holdfast.features.automations.prompts import unknown_names
from holdfast.features.automations.schedules import (
    BadSchedule,
    Schedule,
    WhenFields,
    next_instants,
    when_of,
    zone_named,
)
from holdfast.features.automations.values import (
    SKILL_NAME,
    AfterRun,
    AtTime,
    CronTimes,
    TriggerSettings,
    When,
)
from holdfast.features.channels.http.places import checked_places
from holdfast.policy.tool_names import SKILL
from holdfast.safe_text import safe_line
from holdfast.server.access.request_secrets import request_redactor
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.requests import budget_of
from holdfast.server.transport.bodies import checked_session_id

NAME_CHARS_MAX = 200
PROMPT_CHARS_MAX = 100_000
SCRIPT_CHARS_MAX = 10_000
TOOLS_MAX, SKILLS_MAX = 200, 20
SECRET_CHARS_MIN, SECRET_CHARS_MAX = 16, 500
_WHEN_FIELDS = ("cron", "every", "at", "after", "webhook", "zone")
_PLAIN = (
    "session_id",
    "network",
    "missed",
    "overlap",
    "grace_s",
    "failures_max",
    "times",
)


async def new_settings(wanted: TriggerRequest, deps: RouteDeps) -> TriggerSettings:
    """The settings of a new trigger; raises a Problem."""
    if not (wanted.name or "").strip():
        raise bad_request("'name' is missing", param="name")
    if not (wanted.prompt or "").strip():
        raise bad_request("'prompt' is missing", param="prompt")
    settings = TriggerSettings(name="", prompt="", when=asked_when(wanted))
    return await _with(settings, wanted, deps)


async def edited_settings(
    settings: TriggerSettings, wanted: TriggerRequest, deps: RouteDeps
) -> TriggerSettings:
    """The settings after an edit; raises a Problem."""
    if any(getattr(wanted, name) is not None for name in _WHEN_FIELDS):
        if wanted.zone is not None and wanted.cron is None and isinstance(settings.when, CronTimes):
            wanted.cron = settings.when.expression
        settings = replace(settings, when=asked_when(wanted))
    return await _with(settings, wanted, deps)


def asked_when(wanted: TriggerRequest) -> When:
    """When it fires; raises a Problem."""
    fields = WhenFields(
        cron=wanted.cron or "",
        every=_text(wanted.every),
        at=_text(wanted.at),
        after=wanted.after or "",
        webhook=wanted.webhook,
        zone=wanted.zone or "",
    )
    try:
        when = when_of(fields)
    except BadSchedule as error:
        raise bad_schedule(error) from error
    if isinstance(when, AfterRun):
        checked_session_id(when.session_id, param="after")
    return when


async def checked_schedule(when: When, *, now_ms: int) -> Schedule | None:
    """The instants of a trigger, of which there is at least one; raises a Problem."""
    try:
        schedule = await schedule_for(when, anchor_ms=now_ms)
        if schedule is not None and schedule.after(now_ms) is None:
            passed = "that time has passed" if isinstance(when, AtTime) else "that time never occurs"
            raise BadSchedule(passed)
    except BadSchedule as error:
        raise bad_schedule(error) from error
    return schedule


async def upcoming(when: When, *, anchor_ms: int, after_ms: int) -> list[int]:
    """Return the next five scheduled times; none for a trigger without a schedule."""
    try:
        schedule = await schedule_for(when, anchor_ms=anchor_ms)
    except BadSchedule:  # of another version
        return []
    return [] if schedule is None else await asyncio.to_thread(next_instants, schedule, after_ms)


async def zone_of(when: When) -> tzinfo:
    """The time zone in which people think of its instants."""
    return await asyncio.to_thread(zone_named, when.zone if isinstance(when, CronTimes) else "UTC")


def bad_schedule(error: BadSchedule) -> Problem:
    """The response to a time that can't be understood."""
    text = str(error)
    return bad_request(text[:1].upper() + text[1:], param="when", code="bad_schedule")


def checked_secret(secret: str) -> str:
    """A hook's secret that the caller brings; raises a Problem."""
    fits = SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX and secret.isascii() and secret.isprintable()
    if not fits or " " in secret:
        raise bad_request(
            f"'secret' must be {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} ASCII characters without spaces",
            param="secret",
        )
    return secret


async def _with(settings: TriggerSettings, wanted: TriggerRequest, deps: RouteDeps) -> TriggerSettings:
    redactor = request_redactor(deps.agent.secrets)
    if wanted.secret:
        redactor = redactor.also((checked_secret(wanted.secret),))
    changes: dict[str, Any] = {name: value for name in _PLAIN if (value := getattr(wanted, name)) is not None}
    if wanted.name is not None:
        changes["name"] = redactor.redact_text(safe_line(wanted.name))[:NAME_CHARS_MAX]
    if wanted.prompt is not None:
        changes["prompt"] = redactor.redact_text(_checked_prompt(wanted.prompt))
    if wanted.workspace is not None:
        changes["workspace"] = await deps.workspaces.existing(wanted.workspace)
    if wanted.model is not None:
        changes["model"] = await _known_model(wanted.model, deps)
    if wanted.budget is not None:
        changes["budget"] = budget_of(wanted.budget)
    if wanted.script is not None:
        changes["script"] = redactor.redact_text(_checked_script(wanted.script))
    if wanted.deliver is not None:
        changes["deliver"] = await checked_places(deps, wanted.deliver)
    if wanted.approvals is not None:
        changes["approvals"] = _checked_approvals(wanted.approvals)
    changes |= await _tools_and_skills(wanted, deps)
    changed = replace(settings, **changes)
    _check(changed)
    return changed


async def _tools_and_skills(wanted: TriggerRequest, deps: RouteDeps) -> dict[str, Any]:
    if wanted.tools is None and wanted.skills is None:
        return {}
    await deps.agent.until_opened()
    tools = {} if wanted.tools is None else {"tools": _checked_tools(wanted.tools, deps)}
    return tools if wanted.skills is None else tools | {"skills": _checked_skills(wanted.skills, deps)}


def _checked_prompt(prompt: str) -> str:
    if not prompt.strip():
        raise bad_request("'prompt' is empty", param="prompt")
    if len(prompt) > PROMPT_CHARS_MAX:
        raise bad_request(f"'prompt' is longer than {PROMPT_CHARS_MAX} characters", param="prompt")
    if unknown := unknown_names(prompt):
        raise bad_request(
            f"'prompt' has the unknown placeholder {unknown[0]!r}. Available: name, due, missed, event and "
            "payload",
            param="prompt",
        )
    return prompt


async def models_of(deps: RouteDeps) -> tuple[list[str], frozenset[str]]:
    """The names of this server's targets, and all names that a target of any server has or goes by."""
    targets = deps.options.targets
    known = {"", *(one.name for one in targets), *(one.model for one in targets)}
    offers = names_in(offer for node in await deps.store.nodes() for offer in node.offers)
    known |= {name.partition(":")[2] for name in offers if name.startswith(("target:", "model:"))}
    return [one.name for one in targets], frozenset(known)


async def _known_model(model: str, deps: RouteDeps) -> str:
    names, known = await models_of(deps)
    if names and model not in {"", *known}:
        text = f"Unknown target {model[:100]!r}. Available targets: {', '.join(names)}"
        raise bad_request(text, param="model", code="unknown_target")
    return model


def _checked_approvals(mode: str) -> str:
    if mode not in {"", "ask", "unattended"}:
        raise bad_request("'approvals' must be ask or unattended", param="approvals")
    return mode


def _checked_tools(tools: list[str], deps: RouteDeps) -> tuple[str, ...]:
    if len(tools) > TOOLS_MAX:
        raise bad_request(f"'tools' can have up to {TOOLS_MAX} names", param="tools")
    registry = deps.agent.tools_now()
    for name in tools:
        # A tool of an MCP server may be away just now.
        if registry.get(name) is None and not name.startswith("mcp_"):
            raise bad_request(registry.unknown(name), param="tools")
    return tuple(dict.fromkeys(tools))


def _checked_skills(skills: list[str], deps: RouteDeps) -> tuple[str, ...]:
    """Check the names. Which skills there are depends on the workspace at that time."""
    if len(skills) > SKILLS_MAX:
        raise bad_request(f"'skills' can have up to {SKILLS_MAX} names", param="skills")
    for name in skills:
        if not SKILL_NAME.fullmatch(name):
            raise bad_request(f"{name[:100]!r} isn't the name of a skill", param="skills")
    if skills and deps.agent.tools_now().get(SKILL) is None:
        raise bad_request("Skills are turned off on this server", param="skills")
    return tuple(dict.fromkeys(skills))


def _checked_script(script: str) -> str:
    if len(script) > SCRIPT_CHARS_MAX or "\0" in script:
        text = f"'script' can have up to {SCRIPT_CHARS_MAX} characters, and no NUL"
        raise bad_request(text, param="script")
    return script.strip()


def _check(settings: TriggerSettings) -> None:
    if settings.session_id:
        checked_session_id(settings.session_id)
    if isinstance(settings.when, AfterRun) and settings.when.session_id == settings.session_id:
        raise bad_request("A session can't trigger itself: 'after' would loop forever", param="after")
    if not 0 <= settings.grace_s <= 86_400:  # noqa: PLR2004  # a day
        raise bad_request("'grace_s' must be between 0 and 86400", param="grace_s")
    if settings.times < 0:
        raise bad_request("'times' must be 0 or more", param="times")
    if settings.failures_max < 0:
        raise bad_request("'failures_max' must be 0 or more", param="failures_max")


def _text(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:f}".rstrip("0").rstrip(".")
