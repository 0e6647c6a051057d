from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.activities import CpuVsGpuSettings
from core.ui.identity import is_token, new_token
from core.ui.visitor import NAME_LIMIT, tidy_name


def test_a_new_visitor_reads_vietnamese_and_is_nobody_special(visit):
    mine = new_token()
    me = visit(mine).session_state["visitor"]
    assert me.token == mine
    assert me.kept
    assert (me.language, me.projector, me.name, me.teacher) == ("vi", False, "", False)
    assert me.cpu_vs_gpu == CpuVsGpuSettings()


def test_without_a_cookie_each_tab_is_a_student_of_its_own_and_knows_that_it_is_not_kept(visit):
    one, other = (visit(None).session_state["visitor"] for _ in range(2))
    assert is_token(one.token)
    assert is_token(other.token)
    assert one.token != other.token
    assert not one.kept


def test_two_visitors_never_see_each_others_names_or_settings(visit):
    lan, minh = visit(new_token()), visit(new_token())
    lan.text_input(key="name").set_value("Lan").run()
    lan.toggle(key="projector").set_value(True).run()
    minh.run()
    assert lan.session_state["visitor"].name == "Lan"
    assert minh.text_input(key="name").value == ""
    assert not minh.session_state["visitor"].projector


def test_a_student_is_greeted_by_name_in_the_next_tab(visit):
    token = new_token()
    visit(token).text_input(key="name").set_value(" Lan   Anh ").run()
    assert visit(token).text_input(key="name").value == "Lan Anh"


def test_coming_back_as_a_student_leaves_nothing_of_whoever_used_the_tab_before():
    def script() -> None:
        import streamlit as st

        from core.ui.visitor import become, visitor

        st.text_input("secret", key="secret")
        me = visitor()
        if st.button("leave"):
            me.teacher, me.admitted, me.name = True, True, "Lan"
            become("b" * 28)

    app = AppTest.from_function(script).run()
    app.text_input(key="secret").set_value("mine").run()
    app.button[0].click().run()
    me = app.session_state["visitor"]
    assert me.token == "b" * 28
    assert (me.teacher, me.admitted, me.name) == (False, False, "")
    assert "secret" not in app.session_state or not app.session_state["secret"]


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("  Nguyễn \t Văn\nAn ", "Nguyễn Văn An"),
        ("Lan\x00\u202e", "Lan"),
        ("   ", ""),
        ("x" * 500, "x" * NAME_LIMIT),
        ("<b>An</b>", "<b>An</b>"),  # shown as text, never as markup
    ],
)
def test_a_name_is_tidied(typed, kept):
    assert tidy_name(typed) == kept
