"""The page that checks where a picture comes from."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from core.engine.view import JobState, JobView
from core.problems import Problem
from core.safety.credentials import Authority, Finding, Kind, Made
from core.texts import LANGUAGES, texts
from core.ui import identity, provenance, resources
from core.ui.visitor import Visitor
from tests.ui.stand_ins import StandInEngine, use

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
MADE = Made("mini-turbo", "1", time.time(), prompt="a red sneaker")
VERDICTS = {
    "nothing": Kind.OURS,
    "jpeg": Kind.NONE,
    "crop": Kind.NONE,
    "byte": Kind.BROKEN,
    "screenshot": Kind.NONE,
    "stolen": Kind.BROKEN,
    "impostor": Kind.STRANGER,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.open(tmp_path_factory.mktemp("keys"))


def page() -> None:
    from core.ui import provenance

    provenance.draw()


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, authority: Authority):
    def open_it(*jobs: JobView, language: str = "vi") -> AppTest:
        engine = StandInEngine()
        for job in jobs:
            engine.put(job)
        monkeypatch.setattr(identity, "browser_token", lambda: TOKEN)
        monkeypatch.setattr(resources, "authority", lambda: authority)
        use(monkeypatch, engine)
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(TOKEN, kept=True, language=language)
        app.run()
        assert not app.exception
        return app

    return open_it


def verdicts(app: AppTest, say=VI) -> list[str]:
    """The kinds whose cards are on the page, from top to bottom."""
    words = re.findall(r"class='word'>([^<]+)<", html_of(app))
    kinds = {say(f"provenance.verdict.{kind}"): str(kind) for kind in Kind}
    return [kinds[word] for word in words]


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def drop(app: AppTest, name: str, data: bytes) -> AppTest:
    return app.file_uploader[0].upload(name, data, "image/png").run()


def drawn(activity: str, name: str, **settings: object) -> JobView:
    out = io.BytesIO()
    Image.radial_gradient("L").resize((64, 64)).save(out, "PNG")
    return JobView(
        id="job-1",
        student=TOKEN,
        activity=activity,
        settings=settings,
        state=JobState.DONE,
        submitted_at=time.time(),
        pictures={name: out.getvalue()},
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_drawn_and_the_untouched_sample_is_the_classs_own(open_page, language):
    app, say = open_page(language=language), texts(language)
    assert app.title[0].value == say("provenance.title")
    assert verdicts(app, say) == ["ours"]


def test_whatever_happens_to_the_sample_is_judged_live(open_page):
    app = open_page()
    shown = {}
    for what in VERDICTS:
        app.segmented_control[0].set_value(what).run()
        assert not app.exception
        (shown[what],) = verdicts(app)
    assert shown == VERDICTS


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_dropped_picture_is_judged_and_its_credential_told_in_plain_words(
    open_page, authority, language
):
    say = texts(language)
    app = drop(open_page(language=language), "a.png", authority.sign(provenance.landscape(), MADE))
    assert verdicts(app, say) == ["ours", "ours"]
    for words in (authority.name, "mini-turbo 1", "a red sneaker"):
        assert words in html_of(app)
    assert say("provenance.source.trainedAlgorithmicMedia") in html_of(app)
    assert "digitalsourcetype" not in html_of(app)


def test_a_picture_without_a_credential_proves_nothing_and_the_page_says_so(open_page):
    app = drop(open_page(), "a.png", provenance.landscape())
    assert verdicts(app) == ["none", "ours"]
    assert VI("provenance.not.none") in [element.value for element in app.markdown]


def test_what_is_no_picture_is_told_in_a_sentence(open_page):
    app = drop(open_page(), "a.png", b"MZ this is a program")
    assert [warning.value for warning in app.warning] == [VI("problem.not_a_picture")]


def test_half_a_signed_picture_gets_its_verdict_though_it_cannot_be_shown(open_page, authority):
    signed = authority.sign(provenance.landscape(), MADE)
    app = drop(open_page(), "a.png", signed[: len(signed) // 2])
    assert verdicts(app) == ["broken", "ours"]
    assert VI("provenance.no_preview") in [element.value for element in app.info]


def test_half_an_unsigned_picture_is_called_damaged(open_page):
    whole = provenance.landscape()
    app = drop(open_page(), "a.png", whole[: len(whole) // 2])
    assert [warning.value for warning in app.warning] == [VI("problem.picture_damaged")]


def test_words_of_a_stranger_bring_no_markup_into_the_page():
    finding = Finding(Kind.STRANGER, signer="<script>x</script>", prompt="<b>", source="<i>")
    shown = provenance.facts_html(finding, EN)
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "<i>" not in shown


def test_an_unknown_kind_of_source_is_named_rather_than_left_out():
    shown = provenance.facts_html(Finding(Kind.STRANGER, source="negativeFilm"), EN)
    assert "negativeFilm" in shown


def test_the_sample_drawn_here_is_not_said_to_come_from_a_trained_model(open_page):
    assert VI("provenance.source.algorithmicMedia") in html_of(open_page())


def test_a_students_own_picture_is_the_sample_and_its_prompt_stays_out_unless_chosen(open_page):
    job = drawn("make-images", "image-0", model="mini-turbo", prompt="a secret wish")
    app = open_page(job)
    assert "mini-turbo" in html_of(app)
    assert VI("provenance.source.trainedAlgorithmicMedia") in html_of(app)
    assert "a secret wish" not in html_of(app)
    app.toggle[0].set_value(True).run()
    assert "a secret wish" in html_of(app)


def test_damaged_keys_are_told_in_a_sentence_and_nothing_unsigned_is_offered(
    open_page, monkeypatch
):
    app = open_page()

    def damaged() -> Authority:
        raise Problem("problem.keys_broken", file="root.pem")

    monkeypatch.setattr(resources, "authority", damaged)
    app.run()
    assert not app.exception
    assert [e.value for e in app.error] == [VI("problem.keys_broken", file="root.pem")]
    assert not app.get("download_button")


def test_a_download_is_signed_at_the_click_with_its_name_and_without_a_prompt(
    monkeypatch, authority
):
    given = {}
    monkeypatch.setattr(resources, "authority", lambda: authority)
    monkeypatch.setattr(
        provenance.st, "download_button", lambda label, data, **more: given.update(more, data=data)
    )
    made = Made("mini-turbo", "1", time.time())
    provenance.signed_download(EN, provenance.landscape(), made, "shoe.png", "key")
    finding = authority.check(given["data"]())
    assert (finding.kind, finding.title, finding.prompt) == (Kind.OURS, "shoe.png", None)
    assert given["file_name"] == "shoe.png"


def test_the_server_opens_its_authority_in_the_keys_folder(lab, tmp_path: Path):
    lab.setenv("LAB_KEYS_DIR", str(tmp_path / "class-keys"))
    assert resources.authority() is resources.authority()
    assert (tmp_path / "class-keys" / "root.pem").is_file()
