"""The web server of the playground: where it listens, who may ask, and what is answered.

    GET  /TOKEN/            the page, and beside it its style sheet and modules
    GET  /TOKEN/sets/NAME   a classic data set: {"points": …, "machine": …}
    POST /TOKEN/csv         the points of a CSV file, which is the body; ?name=, ?columns=, ?standardise=
    POST /TOKEN/fit         a task (`task.read_task`) → the fitted machine (`answer`)
    POST /TOKEN/script      a task → the Python lines that fit it

An error is answered by {"error": sentence}. The page runs on the same machine as the server, so the dangers are other pages in
the same browser and other users of the machine. `Door` keeps both out: an address is answered only if it begins with the token,
if its Host is this server (a name that was re-bound to 127.0.0.1 is another Host) and if its Origin, where there is one, is too.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maxmargin.playground.answer import answer
from maxmargin.playground.script import script
from maxmargin.playground.sets import make_set, read_set
from maxmargin.playground.task import read_task

Result = TypeVar("Result")

ADDRESS = "127.0.0.1"
HTTP_PORT = 80
PAGE = Path(__file__).with_name("static")
MOST_BYTES = 2**20  # of the body of a request
MOST_CONNECTIONS = 32
LARGEST_SEED = 2**32 - 1
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Playground:
    """A server that is ready to run: its address, and a socket on which connections already wait."""

    url: str
    listener: socket.socket
    server: uvicorn.Server

    def run(self) -> None:
        """Answer requests until Ctrl-C, or until `server.should_exit` is set."""
        self.server.run(sockets=[self.listener])


def make_playground(port: int = 0) -> Playground:
    """A playground on this port of 127.0.0.1; 0 is any free port."""
    # asyncio sends packets at once (TCP_NODELAY) only on sockets that name their protocol; otherwise an answer takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise OSError(f"port={port}: cannot be used ({error.strerror}); choose another one, or 0 for any") from error
    listener.listen()
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    app = Door(_application(), token, port)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        log_level="warning",
        access_log=False,  # it would show the token
    )
    return Playground(f"http://{ADDRESS}:{port}/{token}/", listener, uvicorn.Server(config))


def _application() -> Starlette:
    # One thread does all work, so that requests are answered one by one and share one pool of OpenMP threads.
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="playground")

    async def work(function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(worker, partial(function, *arguments))

    async def get_set(request: Request) -> Response:
        seed = _whole("seed", request.query_params.get("seed", "0"), LARGEST_SEED)
        return JSONResponse(await work(make_set, request.path_params["name"], seed))

    async def post_csv(request: Request) -> Response:
        query = request.query_params
        columns = [_whole("columns", word, MOST_BYTES) for word in query.get("columns", "").split(",") if word]
        content = await request.body()
        return JSONResponse(await work(read_set, content, query.get("name", "file"), columns, query.get("standardise") == "1"))

    async def post_fit(request: Request) -> Response:
        task = read_task(await request.body())
        return Response(await work(answer, task), media_type="application/octet-stream")

    async def post_script(request: Request) -> Response:
        return PlainTextResponse(script(read_task(await request.body())))

    return Starlette(
        routes=[
            Route("/sets/{name}", get_set),
            Route("/csv", post_csv, methods=["POST"]),
            Route("/fit", post_fit, methods=["POST"]),
            Route("/script", post_script, methods=["POST"]),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ],
        exception_handlers={ValueError: _refused, HTTPException: _http_error, Exception: _failed},
    )


async def _refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": " ".join(str(error).split())}, status_code=422)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the server failed: {type(error).__name__}: {error}"}, status_code=500)


def _whole(name: str, text: str, largest: int) -> int:
    if not text.isdecimal() or len(text) > len(str(largest)) or int(text) > largest:
        raise ValueError(f"{name}={text!r}: must be a whole number from 0 to {largest}")
    return int(text)


class Door:
    """Passes requests on to `app` if they know the token, ask for this server and do not come from another page; their bodies
    are limited. Adds the security headers to all answers."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        # Browsers leave out the port of HTTP.
        self._hosts = {name if port == HTTP_PORT else f"{name}:{port}" for name in (ADDRESS, "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        request = Request(scope)
        refused = self._refusal(request)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        rest = scope["path"].removeprefix(f"/{self._token}")
        await self._app({**scope, "path": rest, "raw_path": rest.encode()}, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that is not let in."""
        headers = request.headers
        origin = headers.get("origin")
        if headers.get("host") not in self._hosts:
            return _refuse(421, "this server answers to its own address only")
        if origin is not None and origin not in self._origins:
            return _refuse(403, "requests of other pages are not answered")
        token, slash, _ = request.scope["path"].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self._token.encode()):
            return _refuse(403, "the address has no valid token; use the one that `maxmargin play` has printed")
        if request.method == "POST":
            length = headers.get("content-length", "")
            if not length.isdecimal() or int(length) > MOST_BYTES:
                return _refuse(413, f"a request may have at most {MOST_BYTES} bytes, and must say how many it has")
        return None


def _refuse(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)
