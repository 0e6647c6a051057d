"""The download: gives up by itself, and leaves no process behind."""

import socket
import subprocess
import sys

from core.data import fetch


def test_a_server_that_answers_is_seen(garbage_server):
    assert fetch.answers(garbage_server.address)


def test_where_nobody_listens_there_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert not fetch.answers(f"http://127.0.0.1:{port}/")


def test_a_name_that_does_not_exist_is_no_answer():
    assert not fetch.answers("http://no-such-host.invalid/")


def test_a_silent_server_is_given_up(silent_server):
    assert not fetch.answers(silent_server.address)


def test_a_download_past_its_time_is_ended(silent_server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "DOWNLOAD_SECONDS", 0.1)

    assert not fetch.download(silent_server.address, tmp_path)


def test_a_child_ends_when_its_parent_is_gone(silent_server):
    child = subprocess.Popen(
        [sys.executable, "-m", "core.data.fetch", "probe", silent_server.address],
        cwd=fetch.ROOT,
        stdin=subprocess.PIPE,
    )
    with child:
        silent_server()  # the child is now waiting for an answer
        child.stdin.close()  # as happens when the parent dies

        assert child.wait(30) == fetch.PARENT_GONE
