"""Handles the requests below `/v1/`: admission, then one endpoint."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from skerry.features.openai_api import (
    agent_names,
    api_runs,
    api_sessions,
    chat_body,
    responses_body,
    turns,
)
from skerry.features.openai_api.answer import AnsweredRun, AnswerForm, RunAnswer
from skerry.features.openai_api.api_errors import ApiError, json_response
from skerry.features.openai_api.chat_answer import ChatForm
from skerry.features.openai_api.config import EndpointConfig, HttpConfig
from skerry.features.openai_api.entrance import Entrance, only, read_json
from skerry.features.openai_api.follower import RunFollower
from skerry.features.openai_api.responses_answer import ResponsesForm
from skerry.gateway.context import GatewayContext
from skerry.gateway.run_listeners import listening
from skerry.model.ids import AgentId, RunId

CHAT: Final = "chat/completions"
RESPONSES: Final = "responses"
MODELS: Final = "models"
MakeForm = Callable[[str, int], AnswerForm]
"""Returns the form of an answer for the id of its run and the time in seconds since 1970."""


class OpenAiApi:
    """Serves the API of one gateway."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._entrance = Entrance(context)
        self._runs = api_runs.ApiRuns(context)

    async def serve(self, request: Request) -> Response:
        """Returns the response of the endpoint, or the error."""
        try:
            return await self._serve(request)
        except ApiError as error:
            return error.response(request)

    async def _serve(self, request: Request) -> Response:
        path = request.path_params["path"]
        config = self._context.config().gateway.section(HttpConfig)
        if not config.is_open:
            message = "This API is off; set gateway.http.endpoints.chatCompletions.enabled to true."
            raise ApiError(404, message, code="unknown_url")
        await self._entrance.admit(request)
        if path == CHAT:
            only("POST", request)
            return await self._chat(request, config)
        if path == RESPONSES:
            only("POST", request)
            return await self._responses(request, config)
        if path == MODELS or path.startswith(f"{MODELS}/"):
            only("GET", request)
            return self._models(path)
        raise ApiError(404, f"There is no {request.method} /v1/{path[:100]}.", code="unknown_url")

    def _models(self, path: str) -> Response:
        config, created = self._context.config(), self._context.started_ms
        names = agent_names.model_names(config)
        if path == MODELS:
            rows = [agent_names.as_model(name, created) for name in names]
            return json_response({"object": "list", "data": rows})
        name = path.removeprefix(f"{MODELS}/")
        agent_names.chosen_agent(config, name)
        return json_response(agent_names.as_model(name, created))

    async def _chat(self, request: Request, config: HttpConfig) -> Response:
        with ExitStack() as held:
            held.enter_context(self._entrance.place(config.max_open_requests))
            value, body = await _body(request, config.endpoints.chat_completions)
            chat = chat_body.parsed(value)
            system, spoken = chat_body.system_and_turns(chat.messages)
            asked = api_runs.ApiRequest(
                identity=api_runs.identity(request.headers, CHAT, body),
                agent=self._agent(request.headers, chat.model),
                session=api_sessions.header(request.headers, api_sessions.KEY_HEADERS),
                user=chat.user,
                system=system,
                prompt=turns.prompt(spoken),
                thinking=chat.reasoning_effort,
            )
            del value, body, spoken
            options = chat.stream_options
            with_usage = bool(options and options.include_usage)

            def form(run_id: str, created: int) -> AnswerForm:
                return ChatForm(f"chatcmpl-{run_id}", chat.model, created, with_usage=with_usage)

            return await self._answer(asked, form, held, streams=bool(chat.stream))

    async def _responses(self, request: Request, config: HttpConfig) -> Response:
        with ExitStack() as held:
            held.enter_context(self._entrance.place(config.max_open_requests))
            value, body = await _body(request, config.endpoints.responses)
            asked_body = responses_body.parsed(value)
            system, spoken = responses_body.system_and_turns(asked_body)
            reasoning = asked_body.reasoning
            asked = api_runs.ApiRequest(
                identity=api_runs.identity(request.headers, RESPONSES, body),
                agent=self._agent(request.headers, asked_body.model),
                session=await self._session(request.headers, asked_body.previous_run),
                user=asked_body.user,
                system=system,
                prompt=turns.prompt(spoken),
                thinking=reasoning.effort if reasoning else None,
            )
            del value, body, spoken
            previous = asked_body.previous_response_id

            def form(run_id: str, created: int) -> AnswerForm:
                instructions = asked_body.instructions
                return ResponsesForm(run_id, asked_body.model, created, instructions, previous)

            return await self._answer(asked, form, held, streams=bool(asked_body.stream))

    async def _session(self, headers: Mapping[str, str], previous: RunId | None) -> str:
        """Returns the session key that a header names, or that of the previous response."""
        named = api_sessions.header(headers, api_sessions.KEY_HEADERS)
        if named or previous is None:
            return named
        return await self._runs.session_of(previous)

    async def _answer(
        self, asked: api_runs.ApiRequest, form: MakeForm, held: ExitStack, *, streams: bool
    ) -> Response:
        """Starts the run of a request; the response holds the place among the open requests."""
        run = self._runs.request(asked)
        follower = RunFollower(self._context, run.run_id)
        listeners = self._context.broadcast.listeners
        held.enter_context(listening(listeners, run.run_id, follower.hear))
        admission = await self._runs.submit(asked, run)
        if admission.result is not None:
            follower.end(admission.result)
        answered = AnsweredRun(
            follower,
            run.key,
            continues=bool(asked.identity.key),
            headers=api_runs.headers(run, admission),
        )
        made = form(run.run_id, admission.accepted_at // 1000)
        return RunAnswer(answered, made, held.pop_all().close, streams=streams)

    def _agent(self, headers: Mapping[str, str], model: str) -> AgentId | None:
        """Returns the agent that a header or the model's name chooses."""
        config = self._context.config()
        if name := api_sessions.header(headers, api_sessions.AGENT_HEADERS):
            return agent_names.known_agent(config, name, name)
        return agent_names.chosen_agent(config, model)


def make(context: GatewayContext) -> OpenAiApi:
    """Returns the object that serves the API of a gateway."""
    return OpenAiApi(context)


async def _body(request: Request, endpoint: EndpointConfig) -> tuple[dict[str, Any], bytes]:
    if not endpoint.enabled:
        message = f"{request.url.path} is off; see gateway.http.endpoints."
        raise ApiError(404, message, code="unknown_url")
    return await read_json(request, endpoint.max_body_bytes)
