from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie

import pytest

from core.ui import identity
from core.ui.identity import COOKIE, StudentCookie, Tickets, is_token, new_token


def page_request(*, cookie: str = "", scheme: str = "http", answers: str = "text/html"):
    """The Set-Cookie headers with which the middleware answers a request."""
    sent = []

    async def app(scope, receive, send):
        headers = [(b"content-type", f"{answers}; charset=utf-8".encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send(message):
        sent.extend(value.decode() for name, value in message["headers"] if name == b"set-cookie")

    headers = [(b"cookie", cookie.encode())] if cookie else []
    scope = {"type": "http", "method": "GET", "scheme": scheme, "headers": headers}
    asyncio.run(StudentCookie(app)(scope, None, send))
    return sent


def token_in(set_cookie: str) -> str:
    return SimpleCookie(set_cookie)[COOKIE].value


def test_tokens_are_all_different_and_too_long_to_guess():
    tokens = {new_token() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(map(is_token, tokens))
    assert len(identity._ALPHABET) ** identity._LENGTH > 2**128


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "short",
        "a" * 27,
        "a" * 29,
        "A" * 28,
        "a" * 27 + "é",
        "a" * 27 + "\n",
        "../" * 9 + "x",
        "<script>alert(1)</script>000",
    ],
)
def test_what_is_no_token_of_ours_is_refused(forged):
    assert not is_token(forged)


def test_a_page_gives_a_new_browser_a_token_that_lasts_for_months_and_no_script_can_read():
    (line,) = page_request()
    assert is_token(token_in(line))
    morsel = SimpleCookie(line)[COOKIE]
    assert morsel["httponly"]
    assert morsel["samesite"] == "Lax"
    assert morsel["path"] == "/"
    assert not morsel["secure"]
    assert int(morsel["max-age"]) > 90 * 24 * 3600


def test_over_https_the_cookie_travels_over_https_only():
    (line,) = page_request(scheme="https")
    assert SimpleCookie(line)[COOKIE]["secure"]


def test_a_browser_that_has_a_token_keeps_it():
    mine = new_token()
    (line,) = page_request(cookie=f"other=1; {COOKIE}={mine}; more=2")
    assert token_in(line) == mine


@pytest.mark.parametrize("cookie", [f"{COOKIE}=guessed", f"{COOKIE}={'A' * 28}", "not a cookie"])
def test_a_forged_token_is_replaced(cookie):
    (line,) = page_request(cookie=cookie)
    assert is_token(token_in(line))
    assert token_in(line) not in cookie


def test_only_pages_carry_the_cookie():
    assert page_request(answers="application/javascript") == []


def test_a_return_code_gives_the_token_back_however_it_is_typed():
    token = new_token()
    code = identity.return_code(token)
    assert code.count("-") == 6
    for typed in (code, code.upper(), code.replace("-", ""), f"  {code.replace('-', ' ')} "):
        assert identity.read_return_code(typed) == token


def test_letters_that_look_like_digits_are_read_as_those():
    assert identity.read_return_code("O" * 14 + "l" * 7 + "I" * 7) == "0" * 14 + "1" * 14


def test_half_a_return_code_is_none():
    assert identity.read_return_code(identity.return_code(new_token())[:-1]) is None


def test_a_ticket_is_good_once():
    tickets, token = Tickets(), new_token()
    ticket = tickets.issue(token)
    assert tickets.redeem(ticket) == token
    assert tickets.redeem(ticket) is None
    assert tickets.redeem("invented") is None


def test_a_ticket_is_good_for_a_minute():
    now = [0.0]
    tickets = Tickets(clock=lambda: now[0])
    ticket = tickets.issue(new_token())
    now[0] = identity.TICKET_SECONDS
    assert tickets.redeem(ticket) is None
