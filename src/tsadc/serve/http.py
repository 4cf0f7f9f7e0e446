"""The HTTP API: rows in, entities, episodes and changes out. `guard.py` checks who may ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import Scope as RequestScope

import tsadc
from tsadc.config import shown
from tsadc.errors import DataError, TsadcError
from tsadc.serve.config import Scope
from tsadc.serve.decode import ARROW, decode_arrow, decode_json
from tsadc.serve.guard import Guard, client_of
from tsadc.serve.metrics import exposition
from tsadc.serve.page import page_file
from tsadc.serve.queries import NotFound, Page, Queries, tick_of
from tsadc.serve.readers.body import Limits, TooLarge, Unsupported, uncompressed
from tsadc.serve.readers.labels import Decoded
from tsadc.serve.readers.line_protocol import LineProtocolDecoder
from tsadc.serve.readers.remote_write import RemoteWriteDecoder
from tsadc.serve.rows import Overloaded, RowBatch, RowTable
from tsadc.serve.service import Service
from tsadc.serve.store import StoreError
from tsadc.wording import count

POLL = 0.5  # seconds between looks for changes
HEARTBEAT = 15.0
MOST_LISTENERS = 100
STORED_WITHIN = 30.0  # seconds
REMOTE_WRITE = "/api/v1/write"

Text = Annotated[str, Query(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**6)]
First = Annotated[str | None, Query(alias="from", max_length=40)]
Last = Annotated[str | None, Query(alias="to", max_length=40)]
Name = Annotated[str, InPath(max_length=400)]
Number = Annotated[int, InPath(ge=0, lt=2**31)]


_SENTENCE = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_REFUSAL = {"content": {"application/json": {"schema": _SENTENCE}}}
REFUSED: dict[int | str, dict[str, Any]] = {
    "4XX": {
        **_REFUSAL,
        "description": "The request is refused, and `error` says why: it cannot be used (400, 422), its token is "
        "missing (401) or permits too little (403), there is no such thing (404), its body is too large (413) or of an "
        "unknown kind (415), or too many rows wait (429).",
    },
    "503": {**_REFUSAL, "description": "The service cannot do this now; send the request again later."},
}


def _describe(schema: dict[str, Any], cls: type[Given]) -> None:
    schema["example"] = cls.example


class Given(BaseModel):
    """The body of a request: no unknown fields, and no text that PostgreSQL cannot store. `example` is in the
    description of the API and in refusals."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_describe)
    example: ClassVar[dict[str, str]]

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a text may not have the character NUL")
        return value


class Acknowledgement(Given):
    """Who takes care of an episode."""

    example = {"by": "Ada"}
    by: str = Field("", max_length=200)


class Verdict(Given):
    """What a person says about an episode."""

    example = {"verdict": "true", "by": "Ada"}
    verdict: Literal["true", "false", "planned"]
    note: str = Field("", max_length=10_000)
    by: str = Field("", max_length=200)


class NewMute(Given):
    """Entities and variables whose alerts are not sent, as patterns, until a time; without it for ever."""

    example = {"entity": "pump-*", "until": "2030-01-01T12:00:00Z"}
    entity: str = Field(min_length=1, max_length=200)
    variable: str = Field("", max_length=200)
    until: str | None = Field(None, max_length=40)
    note: str = Field("", max_length=10_000)
    by: str = Field("", max_length=200)


class Route(APIRoute):
    """A route whose body is JSON, whatever its Content-Type: that of `curl -d` is another one. What follows a name in
    the address must be written out, since a name may end in `%2Frows`."""

    def matches(self, scope: RequestScope) -> tuple[Match, RequestScope]:
        """Return whether the route answers a request."""
        _, name, rest = self.path.rpartition("}")
        written = scope.get("raw_path")
        if name and written and not written.endswith(rest.encode()):
            return Match.NONE, {}
        match, own = super().matches(scope)
        if self.body_field is not None and match is Match.FULL:
            headers = [(key, value) for key, value in scope["headers"] if key != b"content-type"]
            own = {**own, "headers": [*headers, (b"content-type", b"application/json")]}
        return match, own


def create_app(service: Service, tokens: dict[Scope, str]) -> FastAPI:
    """Return the application of a running service."""
    queries = Queries(service.store, lambda model: service.config.models[model].seconds)
    decoders: dict[str, tuple[Any, Any]] = {}  # with the settings, which may be read again

    def limits() -> Limits:
        return Limits(megabytes=service.config.server.megabytes)

    def decoder(kind: str, cls: Callable[[Any, Limits], Any]) -> Any:
        settings = service.config.pushed(kind), limits()
        if kind not in decoders or decoders[kind][0] != settings:
            decoders[kind] = settings, cls(*settings)
        return decoders[kind][1]

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="tsadc", version=tsadc.__version__, docs_url=None, redoc_url=None, lifespan=lifespan, responses=REFUSED
    )
    app.router.route_class = Route
    _handle_errors(app, service)
    app.state.listeners = 0

    async def body_of(request: Request) -> bytes:
        """Return the body, refused as soon as it is too large."""
        parts, size, most = [], 0, limits()
        try:
            async for part in request.stream():
                size += len(part)
                if size > most.size:
                    raise TooLarge(f"The body has more than {most.megabytes} MB; send it in smaller parts.")
                parts.append(part)
        except asyncio.CancelledError:  # by uvicorn, when it has waited long enough at the end
            raise Overloaded("The service is stopping; send the rows again in a moment.", 5.0) from None
        return b"".join(parts)

    async def read(request: Request, decode: Callable[..., Any], *given: Any) -> Any:
        """Return what a body holds; one that cannot be read is counted."""
        try:
            return await run_in_threadpool(decode, *given)
        except (TooLarge, Unsupported):  # which are counted with those of bodies that are not read at all
            raise
        except DataError as error:
            _count_body(service, request, "body", error)
            raise

    async def store(batches: Sequence[RowBatch | RowTable]) -> dict[str, Any]:
        rows, most = sum(map(len, batches)), service.config.server.rows
        if rows > most:
            raise TooLarge(f"A request may have {most:,} rows, but this one has {rows:,}; send smaller ones.")
        future = await run_in_threadpool(service.ingest.offer, batches)
        async with asyncio.timeout(STORED_WITHIN):
            receipt = await asyncio.wrap_future(future)
        return vars(receipt)

    @app.post("/v1/rows", openapi_extra=ROWS_BODY)
    async def add_rows(request: Request) -> JSONResponse:
        """Store rows. They are on the disk when the answer comes, and sending them again changes nothing."""
        body = await body_of(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        decode = decode_arrow if kind == ARROW else decode_json
        encoding = request.headers.get("content-encoding", "")
        batches = await read(request, lambda: decode(uncompressed(body, encoding, limits())))
        return JSONResponse(await store(batches))

    @app.post("/api/v2/write", status_code=204, include_in_schema=False)
    @app.post("/write", status_code=204, include_in_schema=False)
    async def write_lines(request: Request, precision: Annotated[str, Query(max_length=5)] = "ns") -> Response:
        """Store rows in Influx line protocol, as Telegraf sends them."""
        body, encoding = await body_of(request), request.headers.get("content-encoding", "")
        lines = decoder("line_protocol", LineProtocolDecoder)
        return await stored(await read(request, lines.decode, body, time.time_ns(), precision, encoding))

    @app.post(REMOTE_WRITE, status_code=204, include_in_schema=False)
    async def remote_write(request: Request) -> Response:
        """Store rows that Prometheus sends by remote write."""
        if "io.prometheus.write.v2" in request.headers.get("content-type", ""):
            raise Unsupported("Remote write 2.0 is not supported; set `protobuf_message` to prometheus.WriteRequest.")
        body, encoding = await body_of(request), request.headers.get("content-encoding", "snappy")
        remote = decoder("remote_write", RemoteWriteDecoder)
        return await stored(await read(request, remote.decode, body, encoding))

    async def stored(decoded: Decoded) -> Response:
        for reason, amount in decoded.skipped.items():
            service.problems.add("values", f"{count(amount, 'value was', 'values were')} left out: {reason}.")
        await store(decoded.batches)
        return Response(status_code=204)

    @app.get("/v1/health")
    def health(request: Request) -> dict[str, Any]:
        """Say whether all is well, and in sentences what is not; without a token, only whether."""
        every = service.health()
        return every if request.scope["state"].get("scope") else {"status": every["status"]}

    @app.get("/v1/entities")
    def entities(search: Text = "", state: Text = "", limit: Limit = 100, offset: Offset = 0) -> dict[str, Any]:
        """List entities, those with the most severe open episode first."""
        return queries.entities(search, state, Page(limit, offset))

    @app.get("/v1/entities/{entity:path}/rows")
    def entity_rows(
        entity: Name,
        start: First = None,
        end: Last = None,
        max_points: Annotated[int, Query(ge=2, le=5000)] = 600,
        variable: Annotated[list[str] | None, Query(max_length=200)] = None,
    ) -> dict[str, Any]:
        """Return values with the usual band, with at most `max_points` points. Of very long periods only a part of the
        rows is read, evenly spread; `coverage` is their share."""
        return queries.rows(entity, start, end, max_points, variable or [])

    @app.get("/v1/entities/{entity:path}")
    def entity(
        entity: Name,
        start: First = None,
        end: Last = None,
        limit: Limit = 500,
        max_points: Annotated[int | None, Query(ge=2, le=5000)] = None,
    ) -> dict[str, Any]:
        """Return one entity with its latest scores, or those of a period. With `max_points` instead of `limit`, all of
        them: if there are more, each point is the highest of several. `verdicts` is of how many."""
        return queries.entity(entity, start, end, limit, max_points)

    @app.get("/v1/episodes")
    def episodes(state: Text = "", entity: Text = "", limit: Limit = 100, offset: Offset = 0) -> dict[str, Any]:
        """List episodes, the latest first."""
        return queries.episodes(entity, state, Page(limit, offset))

    @app.post("/v1/episodes/{episode:path}/acknowledge")
    def acknowledge(episode: Name, given: Acknowledgement) -> dict[str, Any]:
        """Say that somebody takes care of an episode."""
        queries.episode(episode)
        return queries.acknowledge(episode, given.by)

    @app.post("/v1/episodes/{episode:path}/verdict")
    def judge(episode: Name, given: Verdict) -> dict[str, Any]:
        """Say whether an episode was a true anomaly, a false alarm or planned work; the model learns from it."""
        queries.episode(episode)
        judged = queries.judge(episode, given.verdict, given.note, given.by)
        return {**judged, "learnt": service.teach(episode)}

    @app.get("/v1/episodes/{episode:path}")
    def episode(episode: Name) -> dict[str, Any]:
        """Return one episode."""
        return queries.episode(episode)

    @app.get("/v1/mutes")
    def mutes() -> dict[str, Any]:
        """List mutes, the latest first."""
        return {"mutes": queries.mutes()}

    @app.post("/v1/mutes", status_code=201)
    def mute(given: NewMute) -> dict[str, Any]:
        """Send no alerts of some entities or variables, until a time."""
        until = tick_of(given.until, "until") / 1e9 if given.until else None
        if until is not None and until < time.time():
            raise DataError(f"`until` must lie in the future, but got {given.until}.")
        return queries.mute(given.entity, given.variable, until, given.note, given.by)

    @app.delete("/v1/mutes/{number}", status_code=204)
    def unmute(number: Annotated[int, InPath(ge=0, lt=2**31)]) -> Response:
        """Remove a mute."""
        queries.unmute(number)
        return Response(status_code=204)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        """List models, those in use first, and the latest refit of each."""
        return {"models": queries.models(), "refits": service.refresh.candidates()}

    @app.get("/v1/models/{name}/candidate")
    def candidate(name: Name) -> dict[str, Any]:
        """Return the latest refit of a model, compared with the model that was in use then."""
        return service.refresh.candidate(name)

    @app.post("/v1/models/{name}/candidate/accept")
    def accept_candidate(name: Name, by: Acknowledgement) -> dict[str, Any]:
        """Use a candidate."""
        return service.refresh.accept(name, by.by)

    @app.post("/v1/models/{name}/candidate/refuse")
    def refuse_candidate(name: Name, by: Acknowledgement) -> dict[str, Any]:
        """Remove a candidate."""
        return service.refresh.refuse(name, by.by)

    @app.post("/v1/models/{name}/refresh", status_code=202)
    def refresh(name: Name) -> dict[str, Any]:
        """Train a model again on the stored rows, in the background."""
        return service.refresh.begin(name)

    @app.post("/v1/models/{name}/rollback")
    def roll_back(name: Name) -> dict[str, Any]:
        """Use the former model again; a second call undoes it."""
        return service.refresh.roll_back(name)

    @app.get("/v1/proposals")
    def proposals() -> dict[str, Any]:
        """List entities with a new level that may be the new normal, latest first."""
        return {"proposals": service.refresh.proposals()}

    @app.post("/v1/proposals/{number}/accept", status_code=202)
    def accept_proposal(number: Number, by: Acknowledgement) -> dict[str, Any]:
        """Adapt the model to the new level of an entity, in the background."""
        return service.refresh.begin_adapting(number, by.by)

    @app.post("/v1/proposals/{number}/refuse")
    def refuse_proposal(number: Number, by: Acknowledgement) -> dict[str, Any]:
        """Keep the model as it is."""
        return service.refresh.decide(number, False, by.by)

    @app.get("/v1/changes")
    async def changes(request: Request, since: Annotated[int | None, Query(ge=0, lt=2**63)] = None) -> Response:
        """Send the names of entities and episodes as they change, as server-sent events."""
        if app.state.listeners >= MOST_LISTENERS:
            raise Overloaded(f"{MOST_LISTENERS} clients listen already.", 30.0)
        given = request.headers.get("last-event-id", "")
        number = int(given) if given.isdecimal() and len(given) < 19 else since
        stream = _listen(app, service, lambda last: queries.changes(last), number)
        return StreamingResponse(stream, media_type="text/event-stream")

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Return what Prometheus scrapes."""
        return PlainTextResponse(exposition(service), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        """Return the page."""
        return _file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    def part(name: str) -> Response:
        """Return a file that the page loads."""
        return _file(name)

    app.add_middleware(Guard, server=service.config.server, tokens=tokens, problems=service.problems)
    return app


async def _listen(
    app: FastAPI, service: Service, changes: Callable[[int | None], dict[str, Any] | None], since: int | None
) -> AsyncIterator[str]:
    """Yield changes as they happen, until the client leaves or the service stops."""
    app.state.listeners += 1
    try:
        spoke = 0.0
        while not service.stopping.is_set():
            with contextlib.suppress(StoreError):  # it may come back
                found = await run_in_threadpool(changes, since)
                if found is not None:
                    since, spoke = found["number"], time.monotonic()
                    yield f"id: {since}\nevent: changes\ndata: {json.dumps(found)}\n\n"
            if time.monotonic() - spoke > HEARTBEAT:
                spoke = time.monotonic()
                yield ": nothing has changed\n\n"
            await asyncio.sleep(POLL)
    finally:
        app.state.listeners -= 1


def _file(name: str) -> Response:
    found = page_file(name)
    if found is None:
        raise HTTPException(404, "There is no such page.")
    return Response(found.content, media_type=found.type)


def _count_body(service: Service, request: Request, reason: str, error: DataError) -> None:
    """Count a body that is refused; only the latest sentence is kept, so that many senders hide no other problem."""
    client, path = client_of(request.scope), request.url.path
    service.problems.add(reason, f"A body from {client} to {path} is refused: {error}", about=path)


def _handle_errors(app: FastAPI, service: Service) -> None:
    """Answer every error with one sentence, as JSON."""

    def answer(status: int, sentence: str, retry_after: float | None = None) -> JSONResponse:
        headers = {} if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
        return JSONResponse({"error": sentence}, status, headers)

    @app.exception_handler(TsadcError)
    async def refused(request: Request, error: TsadcError) -> JSONResponse:
        if isinstance(error, (TooLarge, Unsupported)):
            _count_body(service, request, "size" if isinstance(error, TooLarge) else "body", error)
        if isinstance(error, Overloaded):
            # Prometheus drops what is answered with 429, unless it is configured otherwise, and repeats after 503.
            return answer(503 if request.url.path == REMOTE_WRITE else 429, str(error), error.retry_after)
        if isinstance(error, Unsupported):
            return answer(415, str(error))
        if isinstance(error, StoreError):
            return answer(503, str(error), 5.0)
        return answer(404 if isinstance(error, NotFound) else 413 if isinstance(error, TooLarge) else 400, str(error))

    @app.exception_handler(ClientDisconnect)
    async def left(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the client is gone, so it is not sent

    @app.exception_handler(TimeoutError)
    async def late(_: Request, error: TimeoutError) -> JSONResponse:
        service.problems.add("timeout", f"A request was not done within {STORED_WITHIN:.0f} s.")
        return answer(503, f"The request was not done within {STORED_WITHIN:.0f} s; send it again.", 5.0)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(422, _what_is_invalid(error.errors()[0], _example_for(request)))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        sentence, path = str(error.detail), shown(request.url.path)
        if sentence == HTTPStatus(error.status_code).phrase:  # raised by Starlette
            sentence = f"There is nothing at {path}; /openapi.json has all addresses."
            if error.status_code == 405:
                allowed = dict(error.headers or {}).get("Allow", "another method")
                sentence = f"{path} takes {allowed}, but got {shown(request.method)}."
        elif error.__cause__ is not None:  # FastAPI could not read the body
            sentence = _no_json(_example_for(request))
        return JSONResponse({"error": sentence}, error.status_code, error.headers)


def _example_for(request: Request) -> str:
    """Return an example of the body that an operation takes."""
    body = getattr(request.scope.get("route"), "body_field", None)
    given = body.field_info.annotation if body is not None else Acknowledgement
    return json.dumps(given.example)


def _no_json(example: str) -> str:
    return f"The body must be JSON in UTF-8, such as {example}, but it cannot be read as such."


def _what_is_invalid(error: Mapping[str, Any], example: str) -> str:
    """Put an error of pydantic into a sentence, with an example of a body that can be used."""
    place, *names = error["loc"]
    kind, limits, given = error["type"], error.get("ctx", {}), shown(error.get("input"))
    if kind == "json_invalid":
        return _no_json(example)
    if not names:
        got = "it is empty" if kind == "missing" else f"got {given}"
        return f"The body must be a JSON object such as {example}, but {got}."
    name = f"`{'.'.join(map(str, names))[:200]}`"
    if kind == "missing":
        return f"The {place} lacks {name}; add it, as in {example}."
    if kind == "extra_forbidden":
        return f"{name} is unknown here; correct the name, or leave it out."
    if kind == "value_error":
        return f"{name} cannot be used: {limits['error']}."
    expected = {
        "literal_error": "{expected}",
        "string_type": "text",
        "string_too_short": "text that is not empty",
        "string_too_long": "text of at most {max_length} characters",
        "int_parsing": "a whole number",
        "int_parsing_size": "a smaller whole number",
        "greater_than_equal": "at least {ge}",
        "less_than_equal": "at most {le}",
        "less_than": "below {lt}",
    }.get(kind, "something else, see /openapi.json")
    return f"{name} must be {expected.format(**limits)}, but got {given}."


_TIME = {
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 10**17, "maximum": 4 * 10**18}]
}
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_NUMBER = {"type": ["number", "null"]}
_ROW = {
    "type": "object",
    "required": ["entity", "time", "values"],
    "additionalProperties": False,
    "properties": {
        "entity": _NAME,
        "time": _TIME,
        "values": {"type": "object", "additionalProperties": _NUMBER, "propertyNames": _NAME},
    },
}
_BATCH = {
    "type": "object",
    "required": ["entity", "names", "times", "values"],
    "additionalProperties": False,
    "properties": {
        "entity": _NAME,
        "names": {"type": "array", "items": _NAME},
        "times": {"type": "array", "items": _TIME},
        "values": {"type": "array", "items": {"type": "array", "items": _NUMBER}},
    },
}
_TABLE = {
    **_BATCH,
    "required": ["entities", "names", "times", "values"],
    "properties": {
        **{name: shape for name, shape in _BATCH["properties"].items() if name != "entity"},  # type: ignore[attr-defined]
        "entities": {"type": "array", "items": _NAME},
    },
}
ROWS_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {
                            "type": "object",
                            "required": [kind],
                            "additionalProperties": False,
                            "properties": {kind: {"type": "array", "items": items}},
                        }
                        for kind, items in (("rows", _ROW), ("batches", _BATCH), ("tables", _TABLE))
                    ]
                }
            }
        },
    }
}
