"""The box in which students try to get past the prompt check."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.safety.prompts import BUILT_IN, Rules, check, read_rules
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from core.ui import identity, resources
from core.ui.prompt_sandbox import TRICK_NAMES, shown_html, steps_html
from core.ui.visitor import Visitor

EN = texts("en")
RULES = Rules(read_rules(BUILT_IN))

# Trick -> the step that catches it; None: it gets through.
TRICKS = {
    "plain": "typed",
    "spaces": "joined",
    "look_alikes": "letters",
    "invisible": "visible",
    "leet": "leet",
    "no_accents": "accents",
    "innocent": None,
    "description": None,
}


def page(language: str) -> None:
    from core.texts import texts
    from core.ui.prompt_sandbox import prompt_sandbox

    prompt_sandbox(texts(language))


@pytest.fixture
def open_box(monkeypatch):
    def open_it(language="en", *, teacher=False, settings=None):
        monkeypatch.setattr(resources, "lab_settings", lambda: settings or LabSettings())
        app = AppTest.from_function(page, args=(language,), default_timeout=30)
        app.session_state["visitor"] = Visitor(
            identity.new_token(), kept=True, language=language, teacher=teacher
        )
        return app.run()

    return open_it


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def typed(app: AppTest, text: str) -> AppTest:
    return app.text_input(key="sandbox-text").set_value(text).run()


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_box_shows_the_tricks_and_no_verdict(open_box, language):
    app = open_box(language)
    assert not app.exception
    assert len(app.button_group[0].options) == len(TRICK_NAMES) == len(TRICKS)
    assert not app.success
    assert not app.error


@pytest.mark.parametrize(("trick", "step"), TRICKS.items())
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_trick_is_caught_where_it_says_or_gets_through(language, trick, step):
    say = texts(language)
    assert check(say(f"safety.trick_text.{trick}"), RULES).step == step


def test_a_trick_fills_the_box_and_shows_the_step_that_caught_it(open_box):
    app = open_box()
    app.button_group[0].select(EN("safety.trick.leet")).run()
    assert app.text_input[0].value == EN("safety.trick_text.leet")
    assert EN("safety.step.leet") in app.error[0].value
    assert EN("safety.sandbox.here") in html_of(app)
    assert "a portrait of obama on a bicycle" in html_of(app)
    assert EN("safety.step.accents") not in html_of(app)  # what comes after is not needed


def test_a_description_without_a_name_gets_through(open_box):
    app = typed(open_box(), EN("safety.trick_text.description"))
    assert app.success[0].value == EN("safety.sandbox.through")
    assert EN("safety.step.accents") in html_of(app)


def test_tries_are_counted_and_the_same_try_once(open_box):
    app = open_box()
    for text in ("obama", "a watermelon", "0bama", "obama"):
        app = typed(app, text)
    assert app.caption[0].value == "1 of your 3 tries got through"


def test_what_was_typed_is_shown_as_it_is(open_box):
    text = "<img src=x> obama *b*"
    app = typed(open_box(), text)
    assert "&lt;img src=x&gt; obama *b*" in html_of(app)
    assert "<img" not in html_of(app)


def test_what_nobody_sees_is_shown_by_its_number():
    assert shown_html("a\u200bb\u202e<") == "a<mark>U+200B</mark>b<mark>U+202E</mark>&lt;"


def test_steps_that_change_nothing_say_so():
    rows = steps_html(check("a red shoe", RULES), EN)
    assert rows.count(EN("safety.sandbox.same")) == 8


def test_only_a_teacher_is_told_of_a_broken_file_of_rules(open_box, tmp_path):
    (tmp_path / "rules.toml").write_text("[", "utf-8")
    settings = LabSettings(prompt_rules=tmp_path / "rules.toml")
    assert not open_box(settings=settings).warning
    assert str(tmp_path) in open_box(teacher=True, settings=settings).warning[0].value
