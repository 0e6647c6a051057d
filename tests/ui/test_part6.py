"""Part 6's page: what is held and given back, five answers, and a lab that starts over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from core.activities import Lane
from core.engine.holdings import Fate, Held, Holdings, Use, WorkerHolding
from core.engine.local import kept_folder
from core.engine.view import JobState
from core.records.store import Records
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from core.ui import identity, resources
from core.ui.part6 import length
from core.ui.part6_hand import FINGERS, hand_html
from core.ui.part6_held import bars_of, change_html, figure, outcome_lines, settled, workers_html
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import CARD, StandInEngine

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)

TRAINED = WorkerHolding(
    "train-1",
    CARD.uuid,
    Lane.TRAIN,
    Use.IDLE,
    Fate.ENDS,
    idle_seconds=130.0,
    pid=41,
    ram_mib=1_400.0,
    own_vram_mib=510.0,
    held=Held(tensors=12, tensors_mib=1.0, reserved_mib=20.0, allocated_mib=4.0),
)
DREW = WorkerHolding(
    "infer-2",
    CARD.uuid,
    Lane.INFER,
    Use.IDLE,
    Fate.DROPS,
    idle_seconds=20.0,
    models=("mini-turbo",),
    pid=42,
    ram_mib=2_100.0,
    own_vram_mib=900.0,
    held=Held(("mini-turbo",), 900, 60.0, reserved_mib=400.0, allocated_mib=60.0),
)
HELD = Holdings((TRAINED, DREW), jobs=3, picture_bytes=3 * 2**20, files=2, file_bytes=5 * 2**20)
EMPTIED = replace(DREW, fate=Fate.EMPTY, models=(), own_vram_mib=500.0, held=Held())


def page() -> None:
    from core.ui import part6

    part6.draw()


@pytest.fixture
def records() -> Records:
    return Records("sqlite://")


@pytest.fixture
def engine(monkeypatch, tmp_path, records) -> StandInEngine:
    engine = StandInEngine(gpus=(CARD.uuid,))
    stand_ins.use(monkeypatch, engine, records=records, machine=stand_ins.GPU_PC)
    settings = LabSettings(cache_dir=tmp_path)
    monkeypatch.setattr(resources, "lab_settings", lambda: settings)
    monkeypatch.setattr(identity, "browser_token", lambda: TOKEN)
    return engine


def opened(app: AppTest | None = None) -> AppTest:
    if app is None:
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(TOKEN, kept=True, language="en", name="Lan")
    app.run()
    assert not app.exception
    return app


def drawn(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


# What is held


def test_the_parts_of_a_workers_memory_add_up_to_what_the_driver_says():
    ram, vram = bars_of(DREW)
    assert ram == [("tensors", 0.0), ("ram", 2_100.0)]
    assert dict(vram) == {"tensors": 60.0, "cache": 340.0, "context": 500.0}
    assert bars_of(replace(DREW, own_vram_mib=None))[1] == [("tensors", 60.0), ("cache", 340.0)]
    assert bars_of(replace(DREW, held=None))[1] == [("vram", 900.0)]


def test_on_the_cpu_tensors_are_a_part_of_the_computers_memory():
    on_cpu = replace(TRAINED, device="cpu", own_vram_mib=None, held=Held((), 12, 300.0))
    assert bars_of(on_cpu) == [[("tensors", 300.0), ("ram", 1_100.0)]]
    assert figure("vram", Holdings((on_cpu,))) is None


@pytest.mark.parametrize("say", [VI, EN], ids=LANGUAGES)
def test_every_use_and_every_fate_has_its_words(say):
    idle = [(Use.IDLE, fate) for fate in Fate if fate is not Fate.BUSY]
    for use, fate in [*idle, *((use, Fate.BUSY) for use in Use if use is not Use.IDLE)]:
        worker = replace(DREW, use=use, fate=fate)
        assert workers_html([worker], [CARD], 600.0, say)
        assert outcome_lines(Holdings((worker,)), [CARD], say)


def test_a_worker_tells_its_device_its_model_and_when_it_gives_back_by_itself():
    row = workers_html([DREW], [CARD], 600.0, EN)
    for told in (CARD.name, "mini-turbo", "process 42", "900 tensors", "9 min 40 s"):
        assert told in row


def test_memory_is_back_once_workers_that_end_are_gone_and_others_have_let_go():
    assert not settled(HELD, HELD)
    assert not settled(HELD, Holdings((replace(TRAINED, use=Use.LEAVING), EMPTIED)))
    assert not settled(HELD, Holdings((replace(EMPTIED, held=None),))), "it has not answered yet"
    assert settled(HELD, Holdings((EMPTIED,)))
    assert settled(HELD, Holdings((replace(DREW, use=Use.OTHERS, fate=Fate.BUSY),))), "in use again"
    assert settled(HELD, Holdings((replace(DREW, fate=Fate.SHARED),))), "used again meanwhile"
    assert settled(Holdings(), Holdings()), "nothing was held"


def test_what_is_not_measured_again_yet_says_so():
    assert "measuring" in change_html(HELD, None, EN)
    told = change_html(HELD, Holdings((EMPTIED,)), EN)
    assert "measuring" not in told
    assert "1.38 GiB" in told, "VRAM before"
    assert "500 MiB" in told, "and after"


def test_a_round_number_of_minutes_is_said_without_seconds():
    assert length(600, VI) == "10 phút"
    assert length(90, EN) == EN.seconds(90)


# The page


def test_nothing_was_ever_run_and_giving_back_is_safe_twice(engine):
    app = opened()
    assert EN("part6.no_workers") in drawn(app)
    for _ in range(2):
        app.button(key="part6-give-back").click()
        opened(app)
        assert EN("part6.became.nothing") in "".join(m.value for m in app.markdown)


def test_the_page_measures_before_and_after(engine):
    engine.held = HELD
    app = opened()
    app.button(key="part6-give-back").click()
    opened(app)
    assert EN("part6.measuring") in drawn(app), "two processes are still there"
    of_a_classmate = replace(TRAINED, worker="train-3", use=Use.OTHERS, fate=Fate.BUSY)
    engine.held = Holdings((EMPTIED, of_a_classmate))
    opened(app)
    assert EN("part6.measuring") not in drawn(app)
    engine.held = HELD  # somebody works again: the measured difference stays
    opened(app)
    assert "500 MiB" in drawn(app)
    assert any("let go of mini-turbo" in m.value for m in app.markdown)


def test_ones_own_running_job_can_be_stopped_from_here_and_nobody_elses(engine):
    engine.put(stand_ins.job(JobState.RUNNING, student=TOKEN))
    engine.put(replace_id(stand_ins.job(JobState.RUNNING, student="binh"), "of-binh"))
    engine.held = Holdings(running=1)
    app = opened()
    app.button(key="part6-stop").click()
    opened(app)
    assert engine.cancelled == [stand_ins.job(JobState.RUNNING).id]


def replace_id(view, name):
    from msgspec.structs import replace as changed

    return changed(view, id=name)


# The hand


@pytest.mark.parametrize("say", [VI, EN], ids=LANGUAGES)
def test_every_finger_has_its_question_its_answers_and_the_reason(say):
    for finger in FINGERS:
        assert finger.right in finger.choices
        names = ("name", "rule", "ask", "lab", "forgotten", "why")
        ids = [f"part6.hand.{finger.id}.{name}" for name in names]
        ids += [f"answer.{finger.question}.{choice}" for choice in finger.choices]
        assert all(say.has(key) for key in (f"question.{finger.question}", *ids))


def test_the_right_answer_does_not_stand_at_the_same_place_each_time():
    assert len({finger.choices.index(finger.right) for finger in FINGERS}) > 1


def test_a_finger_shows_how_its_question_was_answered():
    answers = dict.fromkeys((finger.id for finger in FINGERS), None)
    assert hand_html(answers, EN).count("class=''") == 5
    hand = hand_html({**answers, "thumb": "output", "ring": "clock"}, EN)
    assert (hand.count("'right'"), hand.count("'wrong'")) == (1, 1)


def test_an_answer_is_explained_kept_and_there_again_after_a_reload(engine, records):
    app = opened()
    assert not app.success
    app.radio(key="hand-thumb-0").set_value("lighter")
    opened(app)
    assert EN("part6.hand.thumb.why") in app.warning[0].value
    app.radio(key="hand-thumb-0").set_value("output")
    opened(app)
    assert EN("part6.hand.thumb.why") in app.success[0].value
    assert records.guesses_of(TOKEN) == {"hand.thumb": "output"}
    again = opened()
    assert again.radio(key="hand-thumb-0").value == "output"
    assert again.success


# Starting over


def test_a_reset_is_confirmed_and_then_leaves_the_name_alone(engine, records):
    records.rename(TOKEN, "Lan")
    records.answer(TOKEN, "hand.thumb", "output")
    records.answer("binh", "hand.thumb", "lighter")
    records.save(stand_ins.job(JobState.DONE, student=TOKEN))
    folder = kept_folder(resources.lab_settings(), TOKEN)
    folder.mkdir(parents=True)
    (folder / "generator.safetensors").write_bytes(b"weights")
    assert records.size_of(TOKEN)[0] == 1
    assert records.size_of(TOKEN)[1] > 1_000
    app = opened()
    app.button(key="reset-ask").click()
    opened(app)
    app.button(key="reset-no").click()
    opened(app)
    assert folder.exists()
    app.button(key="reset-ask").click()
    opened(app)
    app.button(key="reset-yes").click()
    opened(app)
    assert EN("part6.reset.done") in [message.value for message in app.success]
    assert records.of_student(TOKEN) == ()
    assert records.size_of(TOKEN) == (0, 0)
    assert records.guesses_of(TOKEN) == {}
    assert not folder.exists()
    assert records.name(TOKEN) == "Lan"
    assert records.guesses_of("binh") == {"hand.thumb": "lighter"}
    me = app.session_state["visitor"]
    assert (me.token, me.name, me.language) == (TOKEN, "Lan", "en")
    assert app.radio(key="hand-thumb-1").value is None


def test_a_reset_waits_for_the_job_that_it_stops(engine, records):
    records.answer(TOKEN, "hand.thumb", "output")
    engine.put(stand_ins.job(JobState.RUNNING, student=TOKEN))
    engine.held = Holdings(running=1)
    app = opened()
    app.button(key="reset-ask").click()
    opened(app)
    app.button(key="reset-yes").click()
    opened(app)
    assert engine.cancelled
    assert EN("part6.reset.waits") in [message.value for message in app.info]
    engine.held = Holdings(recording=1)  # it has ended, but its result is not written yet
    opened(app)
    assert records.guesses_of(TOKEN), "written after the deletion, it would be back"
    engine.held = Holdings()
    opened(app)
    assert records.guesses_of(TOKEN) == {}
