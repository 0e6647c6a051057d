"""Signed pictures: recognised, and everything else told apart from them."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import http.server
import io
import json
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import c2pa
import pytest
from PIL import Image

from core.problems import Problem
from core.safety.class_keys import LEAF_LIFE, new_keys
from core.safety.credentials import NO_NETWORK, Authority, Finding, Kind, Made
from core.safety.pictures import chunks, png_of

MADE_AT = datetime.datetime(2026, 11, 30, 8, 15, tzinfo=datetime.UTC).timestamp()
MADE = Made("mini-turbo", "3", MADE_AT, title="giày.png")


def picture(kind: str = "PNG", *, side: int = 24) -> bytes:
    out = io.BytesIO()
    Image.radial_gradient("L").resize((side, side)).convert("RGB").save(out, kind)
    return out.getvalue()


def reading(data: bytes, mime: str = "image/png", **trust: str) -> dict:
    """What the library itself says, without anything of the lab around it."""
    settings = {"verify": {"remote_manifest_fetch": False}, **({"trust": trust} if trust else {})}
    with c2pa.Reader(mime, io.BytesIO(data), None, c2pa.Context.from_dict(settings)) as reader:
        return json.loads(reader.json())


def failures(report: dict) -> list[str]:
    return [f["code"] for f in report["validation_results"]["activeManifest"]["failure"]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def stranger() -> Authority:
    return Authority(new_keys())


@pytest.fixture(scope="module")
def signed(authority: Authority) -> bytes:
    return authority.sign(picture(), MADE)


# Signed here


def test_an_independent_reader_that_knows_the_root_trusts_the_picture(authority, signed):
    report = reading(signed, trust_anchors=authority.root_pem)
    assert report["validation_state"] == "Trusted"
    assert failures(report) == []


def test_an_independent_reader_without_the_root_finds_it_whole_but_untrusted(signed):
    report = reading(signed)
    assert report["validation_state"] == "Valid"
    assert failures(report) == ["signingCredential.untrusted"]


def test_the_credential_says_made_by_a_trained_model_with_its_name_version_and_date(signed):
    report = reading(signed)
    manifest = report["manifests"][report["active_manifest"]]
    (assertion,) = manifest["assertions"]
    (action,) = assertion["data"]["actions"]
    assert action == {
        "action": "c2pa.created",
        "when": "2026-11-30T08:15:00Z",
        "softwareAgent": {"name": "mini-turbo", "version": "3"},
        "digitalSourceType": (
            "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
        ),
    }
    assert manifest["claim_version"] == 2
    assert manifest["title"] == "giày.png"
    assert "thumbnail" not in manifest


def test_what_was_signed_here_is_recognised_with_its_facts(authority, signed):
    assert authority.check(signed) == Finding(
        Kind.OURS,
        signer=authority.name,
        program="GPU lab",
        model="mini-turbo",
        version="3",
        made_at=MADE_AT,
        title="giày.png",
        source="trainedAlgorithmicMedia",
    )


def test_the_prompt_is_in_the_file_only_where_it_was_given(authority, signed):
    told = authority.sign(picture(), dataclasses.replace(MADE, prompt="một đôi giày đỏ"))
    assert authority.check(told).prompt == "một đôi giày đỏ"
    assert "đôi giày".encode() in told
    assert authority.check(signed).prompt is None
    assert b"prompt" not in signed


def test_the_pixels_stay_as_they_were_and_the_file_grows_by_about_three_kilobytes(signed):
    with Image.open(io.BytesIO(signed)) as after, Image.open(io.BytesIO(picture())) as before:
        assert after.tobytes() == before.tobytes()
    assert len(signed) - len(picture()) < 3_300


def test_another_server_of_the_same_class_recognises_the_picture(tmp_path):
    one, other = Authority.open(tmp_path), Authority.open(tmp_path)
    assert other.check(one.sign(picture(), MADE)).kind is Kind.OURS


def test_after_the_certificate_is_renewed_older_pictures_are_still_recognised(tmp_path):
    almost = datetime.datetime.now(datetime.UTC) - LEAF_LIFE + datetime.timedelta(days=3)
    old = Authority.open(tmp_path, now=almost).sign(picture(), MADE)
    assert Authority.open(tmp_path).check(old).kind is Kind.OURS


def test_many_threads_sign_and_check_at_once(authority):
    def one(number: int) -> str:
        png = authority.sign(picture(), Made("mini-turbo", str(number), MADE_AT))
        finding = authority.check(png)
        return f"{finding.kind} {finding.version}"

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [f"ours {number}" for number in range(40)]


def test_only_a_png_is_signed(authority):
    with pytest.raises(ValueError, match="PNG"):
        authority.sign(picture("JPEG"), MADE)


def test_an_authority_tells_its_name_and_never_its_keys(authority):
    assert repr(authority) == f"Authority('{authority.name}')"
    for let_out in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="keys"):
            let_out(authority)
    assert "PRIVATE" not in authority.root_pem


# Not what it was


def test_whichever_byte_changes_the_picture_is_no_longer_ours(authority):
    whole = authority.sign(picture(side=8), MADE)
    found = set()
    for place in range(0, len(whole), 2):  # some lie in padding that C2PA itself leaves unsigned
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        try:
            found.add(str(authority.check(bytes(changed)).kind))
        except Problem as problem:
            assert place < 8, "only without PNG's first bytes is it no picture any more"
            found.add(problem.notice.key)
    assert found == {"broken", "problem.not_a_picture"}


def test_bytes_at_the_end_or_a_missing_end_break_it(authority, signed):
    for changed in (signed + b"\0", signed[:-1], signed[: len(signed) // 2]):
        assert authority.check(changed).kind is Kind.BROKEN


def test_a_broken_credential_still_tells_what_it_claimed(authority, signed):
    changed = signed[:-20] + bytes([signed[-20] ^ 1]) + signed[-19:]
    assert authority.check(changed).model == "mini-turbo"


# Strangers


def test_a_stranger_is_a_stranger_whatever_name_he_takes(authority, stranger):
    impostor = authority.impostor()
    assert impostor.name == authority.name
    for other in (stranger, impostor):
        finding = authority.check(other.sign(picture(), MADE))
        assert (finding.kind, finding.signer) == (Kind.STRANGER, other.name)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_strangers_pictures_of_other_kinds_are_read_too(authority, stranger, kind):
    mime, out = f"image/{kind.lower()}", io.BytesIO()
    action = {"action": "c2pa.created", "softwareAgent": "Máy ảnh\u202e\n\x07 A" + "x" * 999}
    manifest = {
        "claim_generator_info": [{"name": "camera"}],
        "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}],
    }
    with c2pa.Builder(manifest, stranger._signing) as builder:
        builder.sign(mime, io.BytesIO(picture(kind)), out)
    assert failures(reading(out.getvalue(), mime))[1:], "C2PA wants a source with such an action"
    finding = authority.check(out.getvalue())
    assert (finding.kind, finding.program) == (Kind.STRANGER, "camera")
    assert finding.model.startswith("Máy ảnh Ax"), "no marks that turn or hide text"
    assert len(finding.model) == 200
    assert (finding.made_at, finding.source) == (None, "")


def test_a_signature_whose_certificate_has_ended_is_not_called_broken():
    """A real certificate with a moment left: the library has no clock to set."""
    left = datetime.timedelta(seconds=1.2)
    ending = Authority(new_keys(now=datetime.datetime.now(datetime.UTC) - LEAF_LIFE + left))
    signed = ending.sign(picture(), MADE)
    deadline = time.monotonic() + 10
    while (finding := ending.check(signed)).kind is Kind.OURS and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (finding.kind, finding.expired) == (Kind.STRANGER, True)


# Nothing there, and nothing fetched


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_without_a_credential_is_just_that(authority, kind):
    assert authority.check(picture(kind)) == Finding(Kind.NONE)


class Listener(http.server.ThreadingHTTPServer):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Asked)


class Asked(http.server.BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(404)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_credential_on_the_internet_is_never_fetched(authority, stranger, listener):
    address = f"http://127.0.0.1:{listener.server_address[1]}/credential.c2pa"
    out = io.BytesIO()
    with c2pa.Builder({"claim_generator_info": [{"name": "x"}]}, stranger._signing) as builder:
        builder.set_no_embed()
        builder.set_remote_url(address)
        builder.sign("image/png", io.BytesIO(picture()), out)
    with pytest.raises(c2pa.C2paError):  # the library, left to itself, goes and asks
        c2pa.Reader("image/png", io.BytesIO(out.getvalue()), None, c2pa.Context())
    assert listener.asked == ["/credential.c2pa"]

    listener.asked.clear()
    assert authority.check(out.getvalue()) == Finding(Kind.NONE, elsewhere=True)
    assert listener.asked == []


def test_the_settings_of_the_library_are_ones_that_it_knows():
    """It overlooks names that it does not know, so each is given a value that it must refuse."""
    for group in ("core", "verify"):
        for name in NO_NETWORK[group]:
            with pytest.raises(c2pa.C2paError):
                c2pa.Settings.from_dict({group: {name: {"not": "a value"}}})


# Uploads


@pytest.mark.parametrize("data", [b"", b"\x89PN", b"GIF89a", b"<svg></svg>", b"MZ" * 999])
def test_what_is_no_picture_is_refused_in_a_sentence(authority, data):
    with pytest.raises(Problem) as caught:
        authority.check(data)
    assert caught.value.notice.key == "problem.not_a_picture"


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(authority):
    header, *others = chunks(picture())
    huge = dataclasses.replace(header, body=(60_000).to_bytes(4, "big") * 2 + header.body[8:])
    with pytest.raises(Problem) as caught:
        authority.check(png_of([huge, *others]))
    assert caught.value.notice.key == "problem.picture_huge"
