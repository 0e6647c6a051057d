"""What students and results go through: the address of the lab, and the database."""

from __future__ import annotations

import http.client
import re
import secrets
import time
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from sqlalchemy import inspect, make_url, text

from core.data.photos import MAX_BYTES
from core.events import Progressed
from core.preflight.classroom.address import Answer, Site, answers_from_outside, arrived, is_local
from core.preflight.classroom.bench import ClassroomBench
from core.preflight.classroom.findings import Findings
from core.preflight.gate import Judging
from core.problems import Problem
from core.records.database import open_database
from core.records.migrations import HEAD
from core.records.store import FILE_NAME, Records
from core.records.tables import Table

# Streamlit's paths, below the address, and its cookie against forged requests.
STREAM, HEALTH = "_stcore/stream", "_stcore/health"
UPLOAD = "_stcore/upload_file/preflight/preflight"  # of a session that does not exist
XSRF_COOKIE, XSRF_HEADER = "_streamlit_xsrf", "X-Xsrftoken"
NO_SESSION = b"session_id"  # stands in Streamlit's answer to an upload of nobody's
STUDENT_COOKIE = "lab_student"
DEEP, PAGE = "home/deeper", "home"  # an address below a page leads back to the page
ELSEWHERE = "https://elsewhere.example"  # a page of somebody else's
SCRIPT = re.compile(rb'src="([^"]+\.js)"')
COMPRESSED = ("gzip", "br", "zstd", "deflate")
LEAST_TO_COMPRESS = 20_000  # bytes


def web(bench: ClassroomBench) -> Judging:
    """Everything that a browser of the class will ask of the address, asked once."""
    found = Findings()
    yield Progressed(0, 6)
    if not bench.address:
        found.not_judged("classroom.web.not_judged", "classroom.hint.address")
        return found.judgement("classroom.web.green")
    found.figure("classroom.web.address", bench.address)
    try:
        site, page, redirects = arrived(bench.address)
    except ValueError:
        found.red("classroom.web.red_address", "classroom.hint.address", address=bench.address)
        return found.judgement("classroom.web.green")
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        found.red(
            "classroom.web.red_silent",
            "classroom.hint.silent",
            address=bench.address,
            reason=reason,
        )
        return found.judgement("classroom.web.green")
    found.figure("classroom.web.page", page.status, "", 200)
    found.figure("classroom.web.redirects", redirects, "", 0)
    checks = (_judge_page, _judge_stream, _judge_upload, _judge_path, _judge_doors)
    for done, judge in enumerate(checks, 1):
        yield Progressed(done, 6)
        try:
            judge(bench, site, page, found)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            found.red(
                "classroom.web.red_silent",
                "classroom.hint.silent",
                address=site.url,
                reason=reason,
            )
            break
    if redirects:
        found.amber("classroom.web.amber_redirect", "classroom.hint.redirect", address=site.url)
    return found.judgement("classroom.web.green", address=site.url)


def _judge_page(_bench: ClassroomBench, site: Site, page: Answer, found: Findings) -> None:
    """The page itself, its cookie, and whether its scripts come compressed."""
    if page.status != http.client.OK:
        found.red("classroom.web.red_page", "classroom.hint.proxy", status=page.status)
        return
    token, again = page.cookie(STUDENT_COOKIE), site.ask().cookie(STUDENT_COOKIE)
    found.figure("classroom.web.cookie", bool(token), "", True)
    found.figure("classroom.web.own_cookie", token != again, "", True)
    # The browser is told for how many seconds to keep it, not until which hour of its clock.
    clock = "max-age" in page.cookie_line(STUDENT_COOKIE).lower()
    found.figure("classroom.web.clock", clock, "", True)
    if not token:
        found.red("classroom.web.red_cookie", "classroom.hint.proxy")
    elif token == again:
        found.red("classroom.web.red_cached", "classroom.hint.cached")
    elif not clock:
        found.amber("classroom.web.amber_clock", "classroom.hint.proxy")
    if not site.secure and not is_local(site.host):
        found.amber("classroom.web.amber_plain", "classroom.hint.secure")
    _judge_script(site, page, found)


def _judge_script(site: Site, page: Answer, found: Findings) -> None:
    script = SCRIPT.search(page.body)
    if script is None:
        return
    path = urlsplit(urljoin(site.url, script[1].decode("ascii", "replace"))).path
    headers = {"Accept-Encoding": "gzip"}
    answer = site.ask(path.removeprefix(f"{site.path}/").lstrip("/"), headers=headers)
    packed = answer.headers.get("content-encoding", "").lower() in COMPRESSED
    found.figure("classroom.web.script", answer.status, "", 200)
    found.figure("classroom.web.packed", packed)
    if answer.status != http.client.OK:
        found.red("classroom.web.red_script", "classroom.hint.path", status=answer.status)
    elif not packed and not is_local(site.host) and len(answer.body) > LEAST_TO_COMPRESS:
        found.amber("classroom.web.amber_unpacked", "classroom.hint.gzip")


def _judge_stream(_bench: ClassroomBench, site: Site, _page: Answer, found: Findings) -> None:
    """The websocket that draws every page: of this page yes, of a stranger's no."""
    own = site.upgrade(STREAM, origin=site.origin).status
    found.figure("classroom.web.stream", own, "", 101)
    if own != http.client.SWITCHING_PROTOCOLS:
        hint = "classroom.hint.host" if own == http.client.FORBIDDEN else "classroom.hint.upgrade"
        found.red("classroom.web.red_stream", hint, status=own)
        return
    strange = site.upgrade(STREAM, origin=ELSEWHERE).status
    found.figure("classroom.web.strange", strange, "", 403)
    if strange == http.client.SWITCHING_PROTOCOLS:
        found.red("classroom.web.red_strange", "classroom.hint.xsrf")


def _judge_upload(_bench: ClassroomBench, site: Site, _page: Answer, found: Findings) -> None:
    """A photo of the largest size on its way up; a request without the page's token is refused."""
    token = site.ask(HEALTH).cookie(XSRF_COOKIE)
    forged = site.ask(UPLOAD, method="PUT", body=b"-").status
    found.figure("classroom.web.forged", forged, "", 403)
    if not token or forged != http.client.FORBIDDEN:
        found.red("classroom.web.red_xsrf", "classroom.hint.xsrf")
    headers = {"Cookie": f"{XSRF_COOKIE}={token}", XSRF_HEADER: token} if token else {}
    answer = site.send(UPLOAD, b"\0" * MAX_BYTES, headers)
    # The lab knows of no such session: whoever hears that from it has got through.
    through = answer.status == http.client.BAD_REQUEST and NO_SESSION in answer.body
    found.figure("classroom.web.upload", through, "", True)
    found.figure("classroom.web.upload_size", MAX_BYTES / 2**20, "mib")
    if answer.status == http.client.REQUEST_ENTITY_TOO_LARGE:
        found.red("classroom.web.red_body", "classroom.hint.body", size=MAX_BYTES / 2**20)
    elif not through:
        found.red("classroom.web.red_upload", "classroom.hint.proxy", status=answer.status)


def _judge_path(_bench: ClassroomBench, site: Site, _page: Answer, found: Findings) -> None:
    """Whether the server knows the path that the address puts before its pages."""
    answer = site.ask(DEEP)
    where = urlsplit(answer.headers.get("location", "")).path
    wanted = f"{site.path}/{PAGE}"
    found.figure("classroom.web.path", where or None, "", wanted)
    if where != wanted:
        found.amber("classroom.web.amber_path", "classroom.hint.path", path=site.path or "/")


def _judge_doors(bench: ClassroomBench, site: Site, _page: Answer, found: Findings) -> None:
    """Codes, where others than this machine can reach the lab."""
    outside = None if is_local(site.host) else site.host
    outside = outside or answers_from_outside(site.port)
    found.figure("classroom.web.outside", outside or "classroom.web.nobody")
    found.figure("classroom.web.class_code", bool(bench.lab.class_code), "", bool(outside))
    found.figure("classroom.web.teacher_code", bool(bench.lab.teacher_code), "", bool(outside))
    if outside and not bench.lab.class_code:
        found.red("classroom.web.red_code", "classroom.hint.codes", host=outside)
    elif outside and not bench.lab.teacher_code:
        found.amber("classroom.web.amber_code", "classroom.hint.codes", host=outside)


# Database


def database(bench: ClassroomBench) -> Judging:
    """Where results are kept: opened as the server opens it, written, read, and cleaned up."""
    yield Progressed(0, 2)
    found = Findings()
    where = bench.lab.database_url or bench.lab.cache / FILE_NAME
    began = time.perf_counter()
    try:
        records = Records(where)  # brings an older one up to date, as the server's start does
    except Problem as problem:
        found.red(problem.notice.key, "classroom.hint.database", **problem.notice.facts)
        return found.judgement("classroom.database.green")
    opened = time.perf_counter()
    yield Progressed(1, 2)
    try:
        right = _written_and_read(records)
    finally:
        records.close()
    done = time.perf_counter()
    version, lacking = _tables(where)
    found.figure("classroom.database.kind", _kind(bench))
    found.figure("classroom.database.place", _place(bench))
    found.figure("classroom.database.version", version, "", HEAD)
    found.figure("classroom.database.lacking", len(lacking), "", 0)
    found.figure("classroom.database.open", 1000 * (opened - began), "ms")
    found.figure("classroom.database.round", 1000 * (done - opened), "ms")
    found.figure("classroom.database.right", right, "", True)
    if lacking:
        name = ", ".join(lacking)
        found.red("classroom.database.red_tables", "classroom.hint.database", name=name)
    if not right:
        found.red("classroom.database.red", "classroom.hint.database")
    return found.judgement("classroom.database.green")


def _written_and_read(records: Records) -> bool:
    """Whether a student of its own is kept, found, and forgotten."""
    student, name = f"preflight-{secrets.token_hex(8)}", "Preflight"
    records.rename(student, name)
    kept = records.name(student) == name and records.notice is None
    try:
        records.delete_student(student)
    except Problem:
        return False
    return kept and records.name(student) == ""


def _tables(where: str | Path) -> tuple[str, list[str]]:
    """The last step of its migrations, and the columns that should be there and are not."""
    engine = open_database(where)
    try:
        with engine.connect() as connection:
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            there = inspect(connection)
            lacking = [
                f"{table.name}.{column.name}"
                for table in Table.metadata.sorted_tables
                for column in table.columns
                if not there.has_table(table.name)
                or column.name not in {one["name"] for one in there.get_columns(table.name)}
            ]
    finally:
        engine.dispose()
    return str(version), lacking


def _kind(bench: ClassroomBench) -> str:
    url = bench.lab.database_url
    return make_url(url).get_backend_name() if url else "sqlite"


def _place(bench: ClassroomBench) -> str:
    """Without a password."""
    url = bench.lab.database_url
    return make_url(url).render_as_string(hide_password=True) if url else str(bench.lab.cache)
