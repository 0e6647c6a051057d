"""Who is looking: an unguessable token in a cookie that only the browser and the server see.

The cookie travels with the page itself, so it is there before the first run of a script. It is
never in the address: what a class reads off a projector lets nobody act as somebody else.
Where cookies are blocked, a student can carry on elsewhere with the token as a "return code".
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "lab_student"
COOKIE_SECONDS = 180 * 24 * 3600  # longer than a term
TICKET_SECONDS = 60.0

# Crockford's base 32: no letters that look like digits, none that reads like a bad word.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 28  # 140 random bits
_TOKEN = re.compile(rf"[{_ALPHABET}]{{{_LENGTH}}}")
_LOOK_ALIKES = str.maketrans("oil", "011")


def new_token() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def is_token(text: str) -> bool:
    """Whether this could be a token of ours: the right alphabet and length."""
    return _TOKEN.fullmatch(text) is not None


def return_code(token: str) -> str:
    """The token as people copy it: `3k7p-...`, seven groups of four."""
    return "-".join(token[i : i + 4] for i in range(0, _LENGTH, 4))


def read_return_code(text: str) -> str | None:
    """The token that somebody typed, forgiving case, spaces, dashes and o, i, l; None if none."""
    token = re.sub(r"[\s\-]", "", text).lower().translate(_LOOK_ALIKES)
    return token if is_token(token) else None


def browser_token() -> str | None:
    """The token in this browser's cookie; None where cookies are blocked or forged.

    Tests replace this function: it is the only reader of the cookie.
    """
    token = str(st.context.cookies.get(COOKIE, ""))
    return token if is_token(token) else None


class StudentCookie:
    """ASGI middleware: every HTML page carries the student's cookie, new or prolonged.

    Two tabs that open at once agree before either draws anything, because a browser opens the
    connection that draws, and shows its cookie, only after the page has arrived.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("set-cookie", cookie(_sent_token(scope) or new_token(), scope))
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def cookie(token: str, scope: Scope) -> str:
    """The `Set-Cookie` line that keeps this token for months, out of reach of any script."""
    secure = "https" in (scope.get("scheme"), Headers(scope=scope).get("x-forwarded-proto"))
    return f"{COOKIE}={token}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax" + (
        "; Secure" if secure else ""
    )


def _sent_token(scope: Scope) -> str | None:
    """The well-formed token in a request's cookies."""
    try:
        morsel = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
    except CookieError:  # a cookie of somebody else's that is not valid
        return None
    return morsel.value if morsel and is_token(morsel.value) else None


class Tickets:
    """One-use tickets with which a page lets its browser fetch the cookie of a token.

    A script that draws a page cannot set a cookie, and the token must not travel in an address.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[str, float]] = {}  # ticket -> token, deadline

    def issue(self, token: str) -> str:
        ticket, now = secrets.token_urlsafe(16), self._clock()
        with self._lock:
            self._waiting = {
                ticket: entry for ticket, entry in self._waiting.items() if entry[1] > now
            }
            self._waiting[ticket] = (token, now + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """The ticket's token, once and in time; None otherwise."""
        with self._lock:
            token, deadline = self._waiting.pop(ticket, ("", 0.0))
        return token if self._clock() < deadline else None


def cookie_path() -> str:
    """Where a browser posts its ticket."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/lab/cookie" if base else "/lab/cookie"


# The page starts anew, so that nothing of the student before is left in it.
_collect_cookie = st.components.v2.component(
    "lab_cookie",
    js="""export default async ({data}) => {
      const answer = await fetch(data.path, {method: 'POST', body: data.ticket})
      if (answer.ok) location.reload()
    }""",
)


def collect_cookie(ticket: str) -> None:
    """Let this browser fetch the cookie that the ticket stands for, and become that student."""
    _collect_cookie(key="lab-cookie", data={"path": cookie_path(), "ticket": ticket}, height=1)
