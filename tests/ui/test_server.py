from __future__ import annotations

import asyncio

import pytest
from streamlit.testing.v1 import AppTest

from core.ui.server import NoDeepAddresses, page_address


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("/", "/"),
        ("/cpu-or-gpu", "/cpu-or-gpu"),
        ("/cpu-or-gpu/", "/cpu-or-gpu/"),
        ("/cpu-or-gpu/x", "/cpu-or-gpu"),
        ("/a/b/c", "/a"),
        ("//elsewhere.example/x", "/elsewhere.example"),  # never to another host
    ],
)
def test_a_page_address_has_one_part(asked, page):
    assert page_address(asked) == page


def answer(path: str, content_type: str, **more: str) -> tuple[int, dict[bytes, bytes]]:
    sent = []

    async def app(scope, receive, send):
        headers = [(b"content-type", content_type.encode())]
        headers += [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"whole"})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    asyncio.run(NoDeepAddresses(app)(scope, None, send))
    return sent[0]["status"], dict(sent[0]["headers"])


def test_a_deep_address_leads_to_one_that_can_be_a_page():
    status, headers = answer("/cpu-or-gpu/x", "text/html; charset=utf-8")
    assert (status, headers[b"location"]) == (307, b"/cpu-or-gpu")


def test_files_in_folders_are_served_as_they_are():
    assert answer("/static/js/app.js", "text/javascript")[0] == 200
    assert answer("/cpu-or-gpu", "text/html")[0] == 200


def test_a_report_that_is_downloaded_is_no_page():
    saved = {"content-disposition": 'attachment; filename="report.html"'}
    assert answer("/media/1a2b.html", "text/html", **saved)[0] == 200


def test_a_page_that_fails_says_so_without_the_error_itself():
    def script() -> None:
        from core.ui.server import told

        assert told(ValueError("secret detail"))

    app = AppTest.from_function(script).run()
    assert len(app.error) == 1
    assert "secret detail" not in app.error[0].value


def test_a_problem_is_told_in_its_own_sentence():
    def script() -> None:
        from core.problems import Problem
        from core.ui.server import told

        told(Problem("problem.environment_unknown", name="LAB_X", near="LAB_CACHE_DIR"))

    app = AppTest.from_function(script).run()
    assert "LAB_CACHE_DIR" in app.error[0].value
