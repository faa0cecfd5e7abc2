"""Structured output: validates answers against the run's schema, and asks for a correction."""

import asyncio
from functools import cache
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.entries import Text, ToolCard
from holdfast.folds.run_view import RunView
from holdfast.folds.transcript import output
from holdfast.messages import AssistantMessage, Message, SaidText, UserMessage
from holdfast.values import Failure, OutputFormat

_AGAIN = (
    "(Your answer can't be used: {problem} Answer again with nothing but JSON that fits the schema: "
    "no explanation and no code fence.)"
)
_PROBLEM_CHARS_MAX = 500


class BadSchema(Exception):
    """The given schema is invalid."""


class OutputCheck(Struct, frozen=True):
    """Checks the answers of one run; the model gets one chance to correct itself."""

    view: SharedFold
    log: RunLog

    @property
    def _run(self) -> RunView:
        return self.view.transcript.runs[self.log.run_id]

    async def failure(self) -> Failure | None:
        """Why the run fails with its last answer; None if it fits, or if the model is to correct it."""
        wanted = self.view.run(self.log.run_id).settings.output
        if wanted is None:
            return None
        text = output(self.view.transcript, self.log.run_id)
        problem = await asyncio.to_thread(problem_with, text, wanted)
        if problem and self._run.rejected is None:
            await self._take_back(problem)
            return None
        return _does_not_fit(problem) if problem else None

    def correction(self) -> tuple[Message, ...]:
        """Return the correction prompt after an invalid answer, until the model has answered again."""
        rejected = self._run.rejected
        if rejected is None or any(
            isinstance(entry, Text | ToolCard) and entry.seq > rejected.seq for entry in self._run.entries
        ):
            return ()
        said = AssistantMessage((SaidText(rejected.text),)) if rejected.text.strip() else None
        asked = UserMessage(_AGAIN.format(problem=rejected.problem))
        return (said, asked) if said else (asked,)

    async def _take_back(self, problem: str) -> None:
        """The answer stays on the log, but it is no longer the run's answer."""
        # An answer without a text has no entry, but an attempt.
        last = _last_texts(self._run.entries)
        for attempt_id in dict.fromkeys(entry.attempt_id for entry in last) or (self._run.attempt_id,):
            self.log.emit(
                e.AttemptSuperseded(
                    at_ms=self.log.now_ms(),
                    run_id=self.log.run_id,
                    attempt_id=attempt_id,
                    problem=problem,
                )
            )
        await self.view.flush(self.log)


def _does_not_fit(problem: str) -> Failure:
    text = f"The model's answer doesn't match the output schema, even after one correction: {problem}"
    hint = "Make the schema simpler or the instructions clearer, or use a stronger model."
    return Failure(kind="malformed", text=text, rule="output_schema", hint=hint)


def _last_texts(entries: list[Any]) -> list[Text]:
    """The texts at the end of the run, as far back as the last entry that is something else."""
    texts: list[Text] = []
    for entry in reversed(entries):
        if isinstance(entry, Text):
            texts.append(entry)
        elif texts:
            break
    return texts


def problem_with(text: str, wanted: OutputFormat) -> str:
    """Why the text is no answer in this format, as a sentence; empty if it is one. It may take a while."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"It is not JSON ({error})."
    if not wanted.schema:
        return "" if isinstance(value, dict) else "It is not a JSON object."
    try:
        error = next(iter(_validator(wanted.schema).iter_errors(value)), None)
    except Exception as failed:  # noqa: BLE001 - a schema that refers to nothing, or to itself
        return f"The schema can't be applied ({type(failed).__name__})."
    if error is None:
        return ""
    where = f" at {error.json_path}" if error.json_path != "$" else ""
    return f"It doesn't fit the schema{where}: {str(error.message)[:_PROBLEM_CHARS_MAX]}."


def insist_on_schema(schema: dict[str, object]) -> None:
    """Raise BadSchema if nothing can be checked against it; it may take a while."""
    from jsonschema.exceptions import SchemaError

    try:
        _validator(schema).check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"{error.message[:_PROBLEM_CHARS_MAX]} (at {error.json_path})") from error
    except RecursionError as error:
        raise BadSchema("it is nested too deeply") from error


def _validator(schema: dict[str, object]) -> Any:
    # Nothing is fetched for a reference, and a pattern of the client's can't keep the server busy.
    referencing: Any = import_module("referencing")
    return _checker()(schema, registry=referencing.Registry())


@cache
def _checker() -> Any:
    validators: Any = import_module("jsonschema.validators")
    known: Any = validators.Draft202012Validator
    return validators.extend(known, {"pattern": None, "patternProperties": None})
