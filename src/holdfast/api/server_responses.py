"""Further answers of the API as types: files, keys, what plain OpenAI clients get, and the server itself."""

from typing import Any, Literal, NotRequired, TypedDict

from holdfast.api.scopes import Scope


class Blob(TypedDict):
    """The name under which parts of messages refer to the bytes."""

    blob: str
    bytes: int
    media_type: str


class SignedIn(TypedDict):
    """The cookie is in the header; `page` is to be sent beside it as `X-Holdfast-Page`."""

    signed_in: Literal[True]
    name: str
    page: str
    scopes: list[Scope]


class SignInLink(TypedDict):
    """What stands behind `/#token=` in a link that signs in once."""

    token: str
    expires_in_s: int


class Ticket(TypedDict):
    """What goes into the query as `ticket`."""

    ticket: str
    expires_in_s: int


class SignedOut(TypedDict):
    """The cookie opens nothing any more."""

    signed_in: Literal[False]


class ListedKey(TypedDict):
    """A key without its secret."""

    name: str
    source: Literal["configured", "made", "added"]
    created_at: float | None
    scopes: list[Scope]


class MadeKey(ListedKey):
    """A new key; its secret is shown here and never again."""

    key: str


class KeyList(TypedDict):
    """All keys."""

    object: Literal["list"]
    data: list[ListedKey]


class Revoked(TypedDict):
    """The key opens nothing any more."""

    name: str
    deleted: Literal[True]


class ChatCompletion(TypedDict):
    """A chat completion, as the OpenAI API describes it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class Response(TypedDict):
    """A response, as the OpenAI API describes it."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    output: list[dict[str, Any]]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    previous_response_id: str | None
    metadata: dict[str, Any]
    usage: dict[str, Any] | None


class InputItems(TypedDict):
    """What a response was asked with, as the OpenAI API lists it."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedResponse(TypedDict):
    """The response is not shown any more."""

    id: str
    object: Literal["response.deleted"]
    deleted: Literal[True]


class Model(TypedDict):
    """A name that `model` may hold."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """The models, as the OpenAI API lists them."""

    object: Literal["list"]
    data: list[Model]


class TargetList(TypedDict):
    """The targets with their health, never with their keys."""

    object: Literal["list"]
    data: list[dict[str, Any]]


class Capabilities(TypedDict):
    """What this server can do, in the form that hermes clients ask for."""

    object: Literal["hermes.api_server.capabilities"]
    platform: str
    implementation: Literal["holdfast"]
    version: str
    model: str
    auth: dict[str, Any]
    runtime: dict[str, Any]
    features: dict[str, Any]
    endpoints: dict[str, dict[str, str]]


class Health(TypedDict):
    """It is alive."""

    status: Literal["ok"]
    version: str
    warning: NotRequired[str]


class DetailedHealth(TypedDict):
    """How it is."""

    status: Literal["ok", "degraded"]
    version: str
    store: dict[str, Any]
    active_sessions: int
    waiting_sessions: int
    open_streams: int
    event_loop_lag_ms: float
    event_loop_lag_worst_ms: float
    draining: bool
    targets: list[dict[str, Any]]
    open_files: dict[str, int]
    warning: NotRequired[str]
    disk: NotRequired[dict[str, int]]
