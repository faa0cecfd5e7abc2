"""Forms that an MCP server wants filled in: their fields, how each is asked, and whether an answer fits.

Everything here comes from an untrusted server.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.mcp_client.tool_specs import plain

FIELDS_MAX = 20
OPTIONS_MAX = 200
DECLINE = "Decline"
SKIP = "Skip"
YES, NO = "Yes", "No"
ANSWER_CHARS_MAX = 20_000
_CHOICES_MAX = 18  # a question has at most 20, and two are ours
_LABEL_CHARS = 200
_TEXT_CHARS = 1_000
_FIELD_NAME_CHARS = 100
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SECRET = re.compile(
    r"\b(?:pass(?:word|phrase|code|wd)s?|pwd|secrets?|credentials?|pins?|otp|cvv|cvc"
    r"|(?:private|secret) ?keys?|api[ -]?keys?|(?:access|auth|bearer|refresh|security)? ?tokens?"
    r"|(?:credit )?card numbers?|recovery codes?|seed phrases?)\b",
    re.IGNORECASE,
)
_TRUE, _FALSE = frozenset({"yes", "y", "true"}), frozenset({"no", "n", "false"})

FormValue: TypeAlias = str | int | float | bool | list[str]
FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "one", "many"]


class BadForm(Exception):
    """A form that cannot be shown; the text says why."""


class FieldMismatch(Exception):
    """An answer that does not fit its field; the text says what would."""


class FormField(Struct, frozen=True, kw_only=True):
    """One field; `options` are pairs of value and label."""

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    required: bool = False
    default: FormValue | None = None
    options: tuple[tuple[str, str], ...] = ()
    format: str = ""
    low: float | None = None  # of a number, of a text's length, or of how many options
    high: float | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from."""
        match self.kind:
            case "boolean":
                return (YES, NO)
            case "one" if len(self.options) <= _CHOICES_MAX:
                return tuple(dict.fromkeys(label for _, label in self.options))
            case _:
                return ()

    @property
    def is_optional(self) -> bool:
        """Whether the form is complete without an answer to it."""
        return not self.required or self.default is not None

    @property
    def wants_secret(self) -> bool:
        """Whether it seems to ask for a password, a key or the like."""
        asked = (self.name, self.title, self.description, self.format)
        return any(_SECRET.search(_CAMEL.sub(" ", text).replace("_", " ")) for text in asked)

    def shown(self) -> str:
        """Return the question's text."""
        name = self.title or plain(self.name, chars_max=_FIELD_NAME_CHARS)
        text = f"{name} ({self._wanted()}{'' if self.required else ', optional'})"
        if self.description:
            text = f"{text}: {self.description}"
        if self.kind in {"one", "many"} and not self.choices:
            text += "\n" + "\n".join(f"- {label}" for _, label in self.options)
        if self.default is not None:
            text = f"{text}\nIf you skip it: {self._named(self.default)}"
        return text

    def value_of(self, answer: str) -> FormValue:
        """The answer as the form wants it; raises FieldMismatch."""
        text = answer.strip()
        match self.kind:
            case "boolean":
                return self._truth(text)
            case "number" | "integer":
                return self.checked(self._number(text))
            case "one":
                return self._option(text)
            case "many":
                return self.checked(self._several(text))
            case "text":
                return self.checked(text)

    def checked(self, value: object) -> FormValue:
        """The value if it fits; raises FieldMismatch."""
        match self.kind, value:
            case "boolean", bool():
                return value
            case "number", int() | float() if not isinstance(value, bool):
                return self._in_range(value, value)
            case "integer", int() if not isinstance(value, bool):
                return self._in_range(value, value)
            case "integer", float() if value.is_integer():
                return self._in_range(int(value), value)
            case "text", str():
                return self._text(value)
            case "one", str() if value in dict(self.options):
                return value
            case "many", list():
                return self._chosen(cast("list[object]", value))
            case _:
                raise FieldMismatch(f"{self._name()} must be {self._wanted()}.")

    def _chosen(self, values: Sequence[object]) -> list[str]:
        known = dict(self.options)
        chosen = [one for one in values if isinstance(one, str) and one in known]
        if len(chosen) < len(values):
            raise FieldMismatch(f"{self._name()} must be {self._wanted()}.")
        self._in_range(0, len(chosen))
        return chosen

    def _text(self, text: str) -> str:
        if len(text) > ANSWER_CHARS_MAX:
            raise FieldMismatch(f"{self._name()} must be shorter.")
        self._in_range(0, len(text))
        if not _has_format(text, self.format):
            raise FieldMismatch(f"{self._name()} must be {self._wanted()}.")
        return text

    def _in_range(self, value: float, size: float) -> int | float:
        fits = (self.low is None or size >= self.low) and (self.high is None or size <= self.high)
        if not fits or not math.isfinite(size):
            raise FieldMismatch(f"{self._name()} must be {self._wanted()}.")
        return value

    def _truth(self, text: str) -> bool:
        word = text.lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise FieldMismatch(f"{self._name()} must be yes or no.")

    def _number(self, text: str) -> int | float:
        try:
            return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else float(text)
        except ValueError as error:
            raise FieldMismatch(f"{self._name()} must be {self._wanted()}.") from error

    def _option(self, text: str) -> str:
        for value, label in self.options:
            if text in {value, label}:
                return value
        folded = [value for value, label in self.options if text.casefold() == label.casefold()]
        if len(folded) == 1:
            return folded[0]
        raise FieldMismatch(
            f"{self._name()} must be one of: {', '.join(label for _, label in self.options)}."
        )

    def _several(self, text: str) -> list[str]:
        if text.startswith("["):
            try:
                listed = msgspec.json.decode(text, type=list[str])
            except msgspec.DecodeError as error:
                raise FieldMismatch(f"{self._name()} must be {self._wanted()}.") from error
        else:
            listed = [one.strip() for one in text.split(",") if one.strip()]
        return list(dict.fromkeys(self._option(one) for one in listed))

    def _name(self) -> str:
        return self.title or plain(self.name, chars_max=_FIELD_NAME_CHARS)

    def _named(self, value: FormValue) -> str:
        if isinstance(value, bool):
            return YES if value else NO
        labels = dict(self.options)
        if isinstance(value, list):
            return ", ".join(labels.get(one, one) for one in value) or "nothing"
        return plain(labels.get(str(value), str(value)), chars_max=_LABEL_CHARS)

    def _wanted(self) -> str:
        between = _between(self.low, self.high)
        match self.kind:
            case "boolean":
                return "yes or no"
            case "number":
                return f"a number{between}"
            case "integer":
                return f"a whole number{between}"
            case "one":
                return "one of the options"
            case "many":
                return f"some of the options, separated by commas{between and f' ({between.strip()})'}"
            case "text":
                kind = {"email": "an email address", "uri": "a URL", "date": "a date such as 2026-01-31"}
                kind["date-time"] = "a time such as 2026-01-31T12:00:00Z"
                return kind.get(self.format, "text") + (between and f",{between} characters")


def fields_of(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """The fields of a form in its order; raises BadForm."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        raise BadForm("it has no fields")
    listed = cast("dict[str, object]", properties)
    if len(listed) > FIELDS_MAX:
        raise BadForm(f"it has more than {FIELDS_MAX} fields")
    wanted = schema.get("required")
    required = cast("list[object]", wanted) if isinstance(wanted, list) else []
    return tuple(
        _field(name, cast("Mapping[str, object]", one), required=name in required)
        for name, one in listed.items()
        if isinstance(one, dict)
    )


def from_object(fields: Sequence[FormField], answer: str) -> dict[str, FormValue] | None:
    """The whole form from an answer that is a JSON object; None if it is none; raises FieldMismatch."""
    if not answer.lstrip().startswith("{"):
        return None
    try:
        given = msgspec.json.decode(answer, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    unknown = given.keys() - {field.name for field in fields}
    if unknown:
        raise FieldMismatch(f"There is no field {plain(min(unknown), chars_max=_FIELD_NAME_CHARS)!r}.")
    filled: dict[str, FormValue] = {}
    for field in fields:
        if (value := given.get(field.name)) is not None:
            filled[field.name] = field.checked(value)
        elif field.default is not None:
            filled[field.name] = field.default
        elif field.required:
            raise FieldMismatch(f"The field {field.name!r} is missing.")
    return filled


def _field(name: str, schema: Mapping[str, object], *, required: bool) -> FormField:
    kind, options = _kind_of(name, schema)
    low, high = {
        "text": ("minLength", "maxLength"),
        "many": ("minItems", "maxItems"),
    }.get(kind, ("minimum", "maximum"))
    made = FormField(
        name=name,
        kind=kind,
        title=plain(str(schema.get("title") or ""), chars_max=_FIELD_NAME_CHARS),
        description=plain(str(schema.get("description") or ""), chars_max=_TEXT_CHARS),
        required=required,
        options=options,
        format=str(schema.get("format") or ""),
        low=_bound(schema.get(low)),
        high=_bound(schema.get(high)),
    )
    default = schema.get("default")
    try:
        return made if default is None else replace(made, default=made.checked(default))
    except FieldMismatch:
        return made  # a default that does not fit its own field is none


def _kind_of(name: str, schema: Mapping[str, object]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    options = _options(schema)
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            of = _options(cast("Mapping[str, object]", items)) if isinstance(items, dict) else ()
            if of:
                return "many", of
        case "string" | None if options:
            return "one", options
        case "string":
            return "text", ()
        case "boolean":
            return "boolean", ()
        case "integer":
            return "integer", ()
        case "number":
            return "number", ()
        case _:
            pass
    raise BadForm(f"its field {plain(name, chars_max=_FIELD_NAME_CHARS)!r} has an unsupported type")


def _options(schema: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        of = [cast("dict[str, object]", one) for one in cast("list[object]", titled) if isinstance(one, dict)]
        pairs = [
            (str(one.get("const")), str(one.get("title") or one.get("const"))) for one in of if "const" in one
        ]
    else:
        values = schema.get("enum")
        if not isinstance(values, list):
            return ()
        names = schema.get("enumNames")
        texts = [str(one) for one in cast("list[object]", values)]
        labels = [str(one) for one in cast("list[object]", names)] if isinstance(names, list) else texts
        pairs = list(zip(texts, labels if len(labels) == len(texts) else texts, strict=True))
    if len(pairs) > OPTIONS_MAX:
        raise BadForm(f"one of its fields has more than {OPTIONS_MAX} options")
    return tuple((value, plain(label, chars_max=_LABEL_CHARS) or "(empty)") for value, label in pairs)


def _bound(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _between(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if low is not None:
        return f" of at least {low:g}"
    return f" of at most {high:g}" if high is not None else ""


def _has_format(text: str, kind: str) -> bool:
    try:
        match kind:
            case "email":
                return _EMAIL.fullmatch(text) is not None
            case "uri":
                return bool(urlsplit(text).scheme)
            case "date":
                date.fromisoformat(text)
            case "date-time":
                datetime.fromisoformat(text)
            case _:
                pass
    except ValueError:
        return False
    return True
