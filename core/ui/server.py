"""What the server does besides drawing pages: start warm, keep the cookie, tell of errors, end."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.problems import Problem
from core.texts import LANGUAGES, texts
from core.ui import identity, resources, shell
from core.ui.visitor import visitor

# What the pages import, and what Arrow and Pillow import only when they are first used.
WARM_MODULES = ("core.ui.home", "core.ui.part0", "core.ui.part1", "pandas", "PIL.ImageFile")
WARM_SECONDS = 3.0  # a start that takes longer goes on beside the first visitors
END_SECONDS = 5.0

_log = logging.getLogger(__name__)


@asynccontextmanager
async def lifespan(_app: st.App) -> AsyncIterator[None]:
    """Runs while the server does; `streamlit run` calls no `atexit` function of such a server."""
    shell.close_pages_trap()
    tell_workers_the_address()
    warming = threading.Thread(target=_warm_up, name="warm-up", daemon=True)
    warming.start()
    # Healthy means ready: who comes at once would otherwise draw beside the imports, and wait.
    await asyncio.to_thread(warming.join, WARM_SECONDS)
    try:
        yield
    finally:
        await asyncio.to_thread(warming.join, END_SECONDS)
        await asyncio.to_thread(resources.close)


def tell_workers_the_address() -> None:
    """Where this server listens, in Streamlit's own words: preflight, which runs in a worker, tries
    it. With a certificate of its own the name matters, so students' address has to be given."""
    if not st.get_option("server.sslCertFile"):
        os.environ["STREAMLIT_SERVER_PORT"] = str(st.get_option("server.port"))
        path = str(st.get_option("server.baseUrlPath") or "")
        os.environ["STREAMLIT_SERVER_BASE_URL_PATH"] = path


def middleware() -> list[Middleware]:
    return [Middleware(identity.StudentCookie), Middleware(NoDeepAddresses)]


def routes() -> list[BaseRoute]:
    return [Route(identity.cookie_path(), _fetch_cookie, methods=["POST"])]


def told(error: Exception) -> bool:
    """Say on the page, in the visitor's language, that something went wrong; the log has the rest.

    True keeps Streamlit from showing the exception itself.
    """
    say = texts(visitor().language)
    if isinstance(error, Problem):
        st.error(say.notice(error.notice), icon=":material/info:")
    else:
        _log.error("a page failed", exc_info=error)
        st.error(say("shell.page_failed"), icon=":material/error:")
    return True


def _warm_up() -> None:
    resources.warm_up()
    for name in WARM_MODULES:
        importlib.import_module(name)
    for language in LANGUAGES:
        texts(language)
    inspect.stack()  # Streamlit asks for it once; with these many modules it takes 0.1 s


class NoDeepAddresses:
    """ASGI middleware: `/cpu-or-gpu/x` leads to `/cpu-or-gpu`, and `/a/b` to the page about `/a`.

    No page has a slash in its address, and below one Streamlit's own files are not found: the
    browser would show an empty page for ever.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or page_address(scope["path"]) == scope["path"]:
            await self._app(scope, receive, send)
            return
        leads_on = False

        async def send_or_lead_on(message: Message) -> None:
            nonlocal leads_on
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                page = headers.get("content-type", "").startswith("text/html")
                kept = "content-disposition" in headers  # a file to be saved: a report
                leads_on = message["status"] == 200 and page and not kept
                if leads_on:
                    await RedirectResponse(page_address(scope["path"]))(scope, receive, send)
            if not leads_on:
                await send(message)

        await self._app(scope, receive, send_or_lead_on)


def page_address(path: str) -> str:
    """The path itself, or the start of it that can be a page's address."""
    base = "/" + str(st.get_option("server.baseUrlPath") or "").strip("/")
    if not path.startswith(base):
        return path
    inside = path.removeprefix(base).strip("/").split("/")
    return path if len(inside) < 2 else f"{base.rstrip('/')}/{inside[0]}"


async def _fetch_cookie(request: Request) -> Response:
    """Answers a ticket with the cookie that it stands for."""
    ticket = (await request.body())[:100].decode("ascii", "replace")
    token = resources.tickets().redeem(ticket)
    if token is None:
        return Response(status_code=403)
    return Response(status_code=204, headers={"set-cookie": identity.cookie(token, request.scope)})
