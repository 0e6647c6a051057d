from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from streamlit.testing.v1 import AppTest

from core.engine.view import JobState, JobView
from core.safety.prompts import check, load_rules
from core.telemetry.readings import Gpu, Machine
from core.texts import LANGUAGES, texts
from core.ui import resources
from core.ui.access import FREE_TRIES
from core.ui.identity import new_token, return_code
from core.ui.shell import ENTRIES
from core.ui.sidebar import card_names

VI, EN = map(texts, LANGUAGES)


def warnings(app: AppTest) -> list[str]:
    return [warning.value for warning in app.warning]


def press(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label == label).click().run()


def at_the_door(app: AppTest) -> bool:
    return any(field.key == "gate-code" for field in app.text_input)


class ClassOfJobs:
    """An engine that only holds jobs: nothing is run."""

    def __init__(self, *jobs: JobView) -> None:
        self.jobs = list(jobs)

    def seen(self, student: str) -> None: ...

    def latest(self, student: str, activity: str) -> JobView | None:
        return next((job for job in self.jobs if job.student == student), None)

    def class_jobs(self) -> tuple[JobView, ...]:
        return tuple(self.jobs)

    def cancel_any(self, job: str) -> None:
        self.jobs = [kept for kept in self.jobs if kept.id != job]

    def gpu_uuids(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None: ...


@pytest.fixture
def hold_jobs(lab):
    """Makes the lab's engine one that holds these jobs."""

    def hold(*jobs: JobView) -> None:
        lab.setattr("core.engine.local.LocalEngine", lambda *_, **__: ClassOfJobs(*jobs))

    return hold


def job(number: int, student: str, **more) -> JobView:
    return JobView(
        id=f"job-{number}", student=student, activity="cpu-vs-gpu", settings={"steps": 20}, **more
    )


# Language


def test_the_language_switches_in_place_and_nothing_typed_is_lost(visit):
    app = visit(new_token())
    app.switch_page("pages/cpu_or_gpu.py").run()
    app.slider[0].set_value(50).run()
    app.text_input(key="name").set_value("Lan").run()
    before = app.title[0].value

    app.segmented_control(key="lang").set_value("en").run()
    assert app.title[0].value != before
    assert app.slider[0].value == 50
    assert app.text_input(key="name").value == "Lan"
    assert app.text_input(key="name").label == EN("shell.name")

    app.segmented_control(key="lang").set_value("vi").run()
    assert app.title[0].value == before
    assert app.slider[0].value == 50


def test_an_unknown_language_in_the_address_is_vietnamese(visit):
    app = visit(new_token())
    app.query_params["lang"] = "klingon"
    app.run()
    assert app.text_input(key="name").label == VI("shell.name")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_and_every_activity_has_a_name(language):
    from core.activities import ACTIVITIES

    say = texts(language)
    assert all(say.has(f"shell.page.{entry.name}") for entry in ENTRIES)
    assert all(say.has(f"shell.activity.{activity}") for activity in ACTIVITIES)


# The door


def test_without_a_class_code_there_is_no_door(visit):
    assert not at_the_door(visit(new_token()))


def test_nothing_is_shown_before_the_class_code(lab, visit):
    lab.setenv("LAB_CLASS_CODE", "thu")
    app = visit(new_token())
    assert at_the_door(app)
    assert [title.value for title in app.title] == [VI("app.title")]
    assert not any(field.key == "name" for field in app.text_input)

    app.text_input(key="gate-code").set_value("xuân")
    press(app, VI("shell.gate.enter"))
    assert at_the_door(app)
    assert warnings(app) == [VI("shell.gate.wrong")]

    app.text_input(key="gate-code").set_value("thu")
    press(app, VI("shell.gate.enter"))
    assert not at_the_door(app)


def test_whoever_was_let_in_is_known_after_a_reload_and_a_stranger_is_not(lab, visit):
    lab.setenv("LAB_CLASS_CODE", "thu")
    token = new_token()
    app = visit(token)
    app.text_input(key="gate-code").set_value("thu")
    press(app, VI("shell.gate.enter"))
    assert not at_the_door(visit(token))
    assert at_the_door(visit(new_token()))


def test_after_several_wrong_codes_the_right_one_has_to_wait_too_even_in_a_new_tab(lab, visit):
    lab.setenv("LAB_CLASS_CODE", "thu")
    token = new_token()
    app = visit(token)
    for _ in range(FREE_TRIES):
        app.text_input(key="gate-code").set_value("xuân")
        press(app, VI("shell.gate.enter"))
    again = visit(token)
    again.text_input(key="gate-code").set_value("thu")
    press(again, VI("shell.gate.enter"))
    assert at_the_door(again)
    assert len(warnings(again)) == 1
    assert warnings(again) != [VI("shell.gate.wrong")]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_page_served_without_the_entry_script_meets_the_door_all_the_same(lab, visit, entry):
    lab.setenv("LAB_CLASS_CODE", "thu")
    app = visit(new_token(), file=f"pages/{entry.name}.py")
    assert not app.exception
    assert at_the_door(app)
    assert [title.value for title in app.title] == [VI("app.title")]


def test_a_wrong_setting_is_told_in_a_sentence(lab, visit):
    lab.setenv("LAB_TRAIN_SLOTZ", "1")
    app = visit(new_token())
    assert not app.exception
    assert "LAB_TRAIN_SLOTS" in app.error[0].value


# Return codes


def test_a_return_code_gives_the_browser_a_ticket_for_the_cookie_of_that_student(visit):
    lan, minh = new_token(), new_token()
    visit(lan).text_input(key="name").set_value("Lan").run()
    app = visit(minh)
    app.text_input(key="return-code").set_value(return_code(lan).upper())
    press(app, VI("shell.return.use"))
    me = app.session_state["visitor"]
    assert me.token == minh  # until the browser comes back with its new cookie
    assert resources.tickets().redeem(me.ticket) == lan


def test_where_cookies_are_blocked_a_return_code_works_in_this_tab(visit):
    lan = new_token()
    visit(lan).text_input(key="name").set_value("Lan").run()
    app = visit(None)
    app.segmented_control(key="lang").set_value("en").run()
    app.text_input(key="name").set_value("Minh").run()
    app.text_input(key="return-code").set_value(return_code(lan))
    press(app, EN("shell.return.use"))
    assert app.session_state["visitor"].token == lan
    assert app.text_input(key="name").value == "Lan"
    assert app.session_state["visitor"].language == "en"


def test_a_return_code_that_nobody_has_is_refused(visit):
    token = new_token()
    app = visit(token)
    app.text_input(key="return-code").set_value(return_code(new_token()))
    press(app, VI("shell.return.use"))
    assert app.session_state["visitor"].token == token
    assert warnings(app) == [VI("shell.return.wrong")]


def test_the_return_code_is_shown_only_when_asked_for(visit):
    token = new_token()
    app = visit(token)
    assert not app.code
    press(app, VI("shell.return.show"))
    assert app.code[0].value == return_code(token)


def test_a_browser_that_blocks_cookies_is_told_so(visit):
    note = VI("shell.cookies_blocked")
    assert note in [caption.value for caption in visit(None).caption]
    assert note not in [caption.value for caption in visit(new_token()).caption]


# Jobs


def test_a_students_own_running_job_is_in_the_sidebar_of_every_page(hold_jobs, visit):
    lan = new_token()
    hold_jobs(job(1, lan, state=JobState.RUNNING, done=30, total=120))
    running = VI("shell.job.running", activity=VI("shell.activity.cpu-vs-gpu"), percent=25)
    assert any(running in text.value for text in visit(lan).sidebar.markdown)
    assert not any(running in text.value for text in visit(new_token()).sidebar.markdown)


def test_the_teacher_sees_the_jobs_of_the_class_and_ends_one(lab, hold_jobs, visit):
    lab.setenv("LAB_TEACHER_CODE", "cô giáo")
    lan = new_token()
    hold_jobs(job(1, lan), job(2, new_token()))
    visit(lan).text_input(key="name").set_value("**Lan** <script>").run()

    app = visit(new_token())
    assert not any(button.label == VI("shell.teacher.cancel") for button in app.button)
    app.text_input(key="teacher-code").set_value("cô giáo")
    press(app, VI("shell.teacher.enter"))
    assert [text.value for text in app.text] == ["**Lan** <script>", VI("shell.teacher.unnamed")]

    app.button(key="teacher-cancel-job-1").click().run()
    assert [text.value for text in app.text] == [VI("shell.teacher.unnamed")]


def test_the_teacher_sees_how_often_the_prompt_check_said_no_but_the_words_only_if_kept(lab, visit):
    lab.setenv("LAB_TEACHER_CODE", "cô giáo")
    app = visit(new_token())
    app.text_input(key="teacher-code").set_value("cô giáo")
    press(app, VI("shell.teacher.enter"))
    assert VI("safety.class.title") not in [text.value for text in app.markdown]

    rules = load_rules(resources.lab_settings())
    for prompt in ("giày đỏ", "ảnh hộ chiếu", "ảnh **hộ chiếu**"):
        resources.records().count_decision(check(prompt, rules), words=prompt)
    app.run()
    captions = [caption.value for caption in app.caption]
    assert any("1 câu được vẽ, 2 câu không" in caption for caption in captions)
    assert VI("safety.class.kind", kind=VI("safety.kind.papers"), number=2) in captions
    assert not app.text  # no words unless LAB_KEEP_REFUSED_PROMPTS


def test_a_wrong_teachers_code_opens_nothing(lab, visit):
    lab.setenv("LAB_TEACHER_CODE", "cô giáo")
    app = visit(new_token())
    app.text_input(key="teacher-code").set_value("")
    press(app, VI("shell.teacher.enter"))
    assert not app.session_state["visitor"].teacher
    assert warnings(app) == [VI("shell.teacher.wrong")]


def test_without_a_teachers_code_there_is_no_way_to_the_teachers_view(visit):
    assert not any(field.key == "teacher-code" for field in visit(new_token()).text_input)


def test_cards_are_named_by_uuid_and_counted():
    cards = tuple(Gpu(uuid=uuid, name=name) for uuid, name in (("a", "X"), ("b", "X"), ("c", "Y")))
    machine = Machine(cpu="", cores=1, ram_mib=1.0, gpus=cards)
    assert card_names(machine, ("a", "b")) == "2 × X"
    assert card_names(machine, ("c", "a")) == "X + Y"
    assert card_names(machine, ()) == ""


# The server's shared objects


def test_twenty_sessions_that_open_at_once_share_one_engine_and_one_load_of_the_digits(lab):
    def open_session(_: int) -> tuple[int, int]:
        return id(resources.engine()), id(resources.digits())

    with ThreadPoolExecutor(20) as sessions:
        assert len(set(sessions.map(open_session, range(20)))) == 1
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("engine-ticker") == 1
    assert len(resources.digits().result(60).images) == 60_000
