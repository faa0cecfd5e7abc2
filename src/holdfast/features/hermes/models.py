"""Routes of hermes about toolsets and models, and to choose the model of a session."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.features.hermes.bodies import (
    ModelOptionsShown,
    ProviderShown,
    RequestedModel,
    SessionModelRequest,
    SessionModelShown,
    SessionRuntime,
    ToolsetList,
    ToolsetShown,
)
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import bad_request, session_not_found
from holdfast.server.runs.requests import target_named
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import decoded, json_response
from holdfast.targets import Target


class ModelRoutes:
    """The routes about toolsets and models."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def toolsets(self, request: Request) -> Response:
        """GET /v1/toolsets."""
        del request
        await self._deps.agent.until_opened()
        groups = self._deps.agent.tools_now().groups()
        shown = [
            ToolsetShown(
                name=name,
                label=name.replace("_", " ").capitalize(),
                description=", ".join(sorted(tools)),
                enabled=True,
                configured=True,
                tools=tuple(sorted(tools)),
            )
            for name, tools in groups.items()
        ]
        return json_response(ToolsetList(platform="api_server", data=tuple(shown)))

    async def options(self, request: Request) -> Response:
        """GET /api/model/options."""
        del request
        targets = self._deps.options.targets
        providers = tuple(_provider(target, is_current=nth == 0) for nth, target in enumerate(targets))
        first = targets[0] if targets else None
        return json_response(
            ModelOptionsShown(
                providers=providers,
                model=first.model if first else "",
                provider=first.name if first else "",
            )
        )

    async def choose(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/model."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, SessionModelRequest)
        session_id = (await session_of(deps, request)).row.session_id
        options = wanted.model_options
        if options is not None and options.fast:
            raise bad_request("'model_options.fast' isn't supported", param="model_options.fast")
        named = (wanted.provider or "", wanted.model or "")
        target = target_named(*named, deps.options.targets) if any(named) else None
        known = (await deps.inbox.state(session_id)).defaults
        chosen = e.SessionDefaultsSet(
            at_ms=deps.clock.now_ms(),
            model=target.name if target else "",
            instructions=known.instructions if known else "",
            reasoning_effort=options.effort if options else "",
            by=request.scope[KEY_NAME],
        )
        if not await deps.inbox.put(session_id, chosen):
            raise session_not_found(session_id)
        return json_response(
            SessionModelShown(
                session_id=session_id, runtime=_runtime(target, named), automatic=target is None
            )
        )


def _provider(target: Target, *, is_current: bool) -> ProviderShown:
    return ProviderShown(
        slug=target.name,
        name=target.name,
        models=(target.model,),
        total_models=1,
        is_current=is_current,
        authenticated=True,
    )


def _runtime(target: Target | None, named: tuple[str, str]) -> SessionRuntime:
    if target is None:
        return SessionRuntime()
    return SessionRuntime(
        provider=target.name,
        model=target.model,
        route_source="raw_request",
        requested=RequestedModel(provider=named[0], model=named[1]),
        model_lock="accepted",
    )
