"""The sidebar: who the student is, where work runs, their job, and the teacher's view."""

from __future__ import annotations

import streamlit as st

from core.activities import ACTIVITIES
from core.engine.view import JobView
from core.telemetry.readings import Machine
from core.texts import Texts
from core.ui import identity
from core.ui.access import same_code
from core.ui.class_prompts import draw_prompts
from core.ui.resources import attempts, engine, lab_settings, machine, records, tickets
from core.ui.visitor import NAME_LIMIT, Visitor, become, tidy_name

BADGE_SECONDS = 3.3  # not in step with the panel's second: a tab answers one at a time
TEACHER_SECONDS = 5.0


def draw(me: Visitor, say: Texts) -> None:
    """All of the sidebar below the navigation, for a visitor who has been let in."""
    _where_work_runs(say)
    _job(me, say)
    trouble = records().notice
    if trouble:
        st.warning(say.notice(trouble))
    _name(me, say)
    _return(me, say)
    _teacher(me, say)


def _where_work_runs(say: Texts) -> None:
    card = card_names(machine(), engine().gpu_uuids())
    if card:
        st.badge(card, icon=":material/developer_board:", color="green")
    else:
        st.badge(say("shell.device.cpu"), icon=":material/memory:", color="gray")


def card_names(machine: Machine, uuids: tuple[str, ...]) -> str:
    """The cards that jobs run on: "NVIDIA H200", "2 x NVIDIA H200", or "" for none."""
    names = [gpu.name for gpu in machine.gpus if gpu.uuid in uuids]
    return " + ".join(
        name if names.count(name) == 1 else f"{names.count(name)} × {name}"
        for name in dict.fromkeys(names)
    )


def _job(me: Visitor, say: Texts) -> None:
    engine().seen(me.token)
    if _unfinished(me):
        st.fragment(_job_badge, run_every=BADGE_SECONDS)(me, say)


def _job_badge(me: Visitor, say: Texts) -> None:
    """Ticks while a job is unfinished, on every page, so that the job knows it is watched."""
    engine().seen(me.token)
    jobs = _unfinished(me)
    if not jobs:
        st.rerun()  # the whole page: it may have a result to show, and this badge ends
    for job in jobs:
        title = say(f"shell.activity.{job.activity}")
        if job.place is not None:
            text = say("shell.job.waiting", activity=title, place=job.place)
        else:
            text = say("shell.job.running", activity=title, percent=percent_done(job))
        st.badge(text, icon=":material/progress_activity:", color="blue")


def _unfinished(me: Visitor) -> list[JobView]:
    jobs = (engine().latest(me.token, activity) for activity in ACTIVITIES)
    return [job for job in jobs if job is not None and not job.state.over]


def percent_done(job: JobView) -> int:
    return round(100 * job.done / job.total) if job.total else 0


def _name(me: Visitor, say: Texts) -> None:
    if "name" not in st.session_state:
        me.name = records().name(me.token)
        st.session_state["name"] = me.name
    st.text_input(
        say("shell.name"),
        key="name",
        max_chars=NAME_LIMIT,
        placeholder=say("shell.name.placeholder"),
        on_change=_rename,
        args=(me,),
    )


def _rename(me: Visitor) -> None:
    me.name = st.session_state["name"] = tidy_name(st.session_state["name"])
    records().rename(me.token, me.name)


def _return(me: Visitor, say: Texts) -> None:
    if not me.kept:
        st.caption(say("shell.cookies_blocked"))
    with st.popover(say("shell.return.title"), icon=":material/key:", width="stretch"):
        st.markdown(say("shell.return.text"))
        if st.button(say("shell.return.show"), key="return-show"):
            st.code(identity.return_code(me.token), language=None)
        with st.form("return", border=False):
            st.text_input(say("shell.return.code"), key="return-code", autocomplete="off")
            st.form_submit_button(say("shell.return.use"), on_click=_come_back, args=(me,))
        refusal(me, say, "return-wrong", "shell.return.wrong")


def _come_back(me: Visitor) -> None:
    token = identity.read_return_code(str(st.session_state["return-code"]))
    if token and attempts().counts(me.token, lambda: _known(token)):
        if me.kept:
            me.ticket = tickets().issue(token)
        else:
            become(token)
    else:
        st.session_state["return-wrong"] = True


def _known(token: str) -> bool:
    """Whether somebody has worked here under this token, so that a slip of the pen is noticed."""
    return bool(
        records().name(token)
        or records().of_student(token)
        or any(engine().latest(token, activity) for activity in ACTIVITIES)
    )


def _teacher(me: Visitor, say: Texts) -> None:
    if not lab_settings().teacher_code:
        return
    with st.expander(say("shell.teacher.title"), icon=":material/school:"):
        if me.teacher:
            st.fragment(_class, run_every=TEACHER_SECONDS)(say)
            return
        with st.form("teacher", border=False):
            st.text_input(
                say("shell.teacher.code"), key="teacher-code", type="password", autocomplete="off"
            )
            st.form_submit_button(say("shell.teacher.enter"), on_click=_open_teacher, args=(me,))
        refusal(me, say, "teacher-wrong", "shell.teacher.wrong")


def _open_teacher(me: Visitor) -> None:
    typed = str(st.session_state["teacher-code"])
    me.teacher = attempts().counts(me.token, lambda: same_code(typed, lab_settings().teacher_code))
    st.session_state["teacher-wrong"] = not me.teacher


def _class(say: Texts) -> None:
    """Every unfinished job of the class with a way to end it, and the prompt check's decisions."""
    jobs = engine().class_jobs()
    if not jobs:
        st.caption(say("shell.teacher.no_jobs"))
    for job in jobs:
        with st.container(border=True, gap="small"):
            # st.text takes no markup: a name is whatever somebody typed.
            st.text(records().name(job.student) or say("shell.teacher.unnamed"))
            st.caption(
                say(
                    "shell.teacher.job",
                    activity=say(f"shell.activity.{job.activity}"),
                    state=say(f"job.state.{job.state}"),
                    percent=percent_done(job),
                )
            )
            st.button(
                say("shell.teacher.cancel"),
                key=f"teacher-cancel-{job.id}",
                on_click=engine().cancel_any,
                args=(job.id,),
            )
    draw_prompts(say)


def refusal(me: Visitor, say: Texts, flag: str, sentence: str) -> None:
    """Why the last code was not taken, if it was not."""
    wait = attempts().wait_seconds(me.token)
    if wait > 0:
        st.warning(say("shell.code.wait", wait=wait))
    elif st.session_state.get(flag):
        st.warning(say(sentence))
