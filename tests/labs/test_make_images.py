import json

import msgspec
import pytest
import torch

from core.__main__ import main
from core.activities.make_images import MakeImagesResult, MakeImagesSettings
from core.context import Share, never
from core.events import Drawn, Failed, Measured, Progressed, Result, Staged, Stopped
from core.labs.image_pipeline import TOLERANCE, held, owner
from core.labs.make_images import run, run_together
from core.problems import Problem
from core.telemetry.machine import describe_machine
from tests.labs.picture_lab import CPU, furthest, lab_of, pixels, tiny_model

OUTCOMES = (Result, Stopped, Failed)


def share(job, *, stopped=never, **settings):
    return Share(job, MakeImagesSettings(**settings), stopped)


def by_job(events):
    """The events of a run, job by job; each job has its outcome, once and last."""
    found: dict[str, list] = {}
    for job, event in events:
        found.setdefault(job, []).append(event)
    for told in found.values():
        assert [isinstance(event, OUTCOMES) for event in told].count(True) == 1
        assert isinstance(told[-1], OUTCOMES)
    return found


def pngs(events):
    return {event.name: event.png for event in events if isinstance(event, Drawn)}


def values_of(events):
    return msgspec.convert(events[-1].values, MakeImagesResult)


def test_a_job_gets_its_pictures_with_their_seeds_and_what_was_measured(model):
    owner().drop()
    with lab_of(model) as context:
        events = list(run(MakeImagesSettings(count=3, seed=40), context))

    result = values_of(events)
    assert [image.seed for image in result.images] == [40, 41, 42]
    assert [image.file for image in result.images] == ["image-0.png", "image-1.png", "image-2.png"]
    assert [f"{name}.png" for name in pngs(events)] == [image.file for image in result.images]
    assert (result.together, result.students) == (3, 1)
    assert [row.name for row in events[-1].rows] == ["load", "draw"]
    assert result.load_seconds == events[-1].rows[0].seconds
    measured = [event.recording.name for event in events if isinstance(event, Measured)]
    assert measured == ["load", "draw"]
    stages = [event.stage for event in events if isinstance(event, Staged)]
    assert stages == ["stage.image_load", "stage.image_draw"]


def test_a_model_in_memory_is_not_loaded_again(model):
    with lab_of(model) as context:
        list(run(MakeImagesSettings(), context))
        events = list(run(MakeImagesSettings(), context))

    assert values_of(events).load_seconds is None
    assert [row.name for row in events[-1].rows] == ["draw"]
    assert "stage.image_load" not in [getattr(event, "stage", "") for event in events]


def test_twenty_students_at_once_get_what_each_would_have_got_alone(model):
    things = ("red bag", "white dress", "blue boot", "số bảy", "váy tím")
    settings = [
        MakeImagesSettings(prompt=f"a {things[number % 5]} on yellow", seed=number)
        for number in range(20)
    ]
    with lab_of(model) as context:
        shares = [Share(f"job-{number}", each, never) for number, each in enumerate(settings)]
        found = by_job(run_together(shares, context))
        assert len(found) == 20
        for number, each in enumerate(settings):
            alone = pngs(run(each, context))["image-0"]
            together = pngs(found[f"job-{number}"])["image-0"]
            assert furthest(pixels(alone), pixels(together)) <= TOLERANCE["cpu"]
    result = values_of(found["job-3"])
    assert (result.together, result.students) == (20, 20)


def test_a_sentence_against_the_rules_is_refused_and_the_others_go_on(model):
    with lab_of(model) as context:
        shares = [share("good"), share("bad", prompt="a naked man"), share("fine", seed=3)]
        found = by_job(run_together(shares, context))

    assert isinstance(found["bad"][-1], Failed)
    assert found["bad"][-1].problem.key == "safety.refuse.nudity"
    assert not pngs(found["bad"])
    assert values_of(found["good"]).students == 2
    assert values_of(found["fine"]).together == 2


def test_more_steps_than_the_model_has_learnt_are_refused(model):
    with lab_of(model) as context:
        (event,) = run(MakeImagesSettings(steps=2), context)

    assert event.problem.key == "problem.image_steps"
    assert event.problem.facts == {"steps": 2, "model": "mini-turbo", "most_steps": 1}


def test_a_stopped_student_gets_no_more_pictures_and_the_others_all_of_theirs(model):
    seen = {"early": 0}

    def after_its_first_batch():
        return seen["early"] > 0

    shares = [share("early", count=8, stopped=after_its_first_batch), share("late", count=8)]
    shares.insert(0, share("before", count=4))  # so that the first batch of 8 cuts "early" in two
    events = []
    with lab_of(model) as context:
        for job, event in run_together(shares, context):
            events.append((job, event))
            seen[job] = seen.get(job, 0) + isinstance(event, Drawn)
    found = by_job(events)

    assert isinstance(found["early"][-1], Stopped)
    assert len(pngs(found["early"])) == 4
    assert len(pngs(found["late"])) == 8
    assert len(values_of(found["late"]).images) == 8


def test_whoever_stops_before_anything_is_drawn_waits_for_no_model(model):
    owner().drop()
    with lab_of(model) as context:
        events = list(run_together([share("a", stopped=lambda: True)], context))

    assert not owner().holds(model, CPU)
    assert events == [("a", Stopped())]


def test_a_job_ends_with_its_last_picture_not_with_the_run(model):
    with lab_of(model) as context:
        events = list(
            run_together([share("one"), *(share(f"{n}", count=8) for n in "ab")], context)
        )

    kinds = [type(event) for _, event in events]
    assert Drawn in kinds[kinds.index(Result) :], "others' pictures came later"
    rows = {job: event.rows[-1] for job, event in events if isinstance(event, Result)}
    assert rows["one"].seconds < rows["b"].seconds


def test_progress_counts_each_students_own_pictures(model):
    with lab_of(model) as context:
        found = by_job(run_together([share("a", count=8), share("b", count=4)], context))

    progress = {
        job: [(event.done, event.total) for event in events if isinstance(event, Progressed)]
        for job, events in found.items()
    }
    assert progress == {"a": [(8, 8)], "b": [(0, 4), (4, 4)]}


def card_of(size):
    """A U-Net's call on a card with room for so many pictures at once."""

    def predict(pipeline_predict, sizes):
        def call(latents, time, words):
            sizes.append(len(latents))
            if len(latents) > size:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return pipeline_predict(latents, time, words)

        return call

    return predict


def test_where_memory_runs_out_the_batch_is_halved_and_the_run_goes_on(model, monkeypatch):
    sizes = []
    with lab_of(model) as context:
        pipeline = held(model, CPU)
        whole = pngs(run(MakeImagesSettings(count=8), context))
        monkeypatch.setattr(pipeline, "predict", card_of(2)(pipeline.predict, sizes))
        found = by_job(run_together([share("a", count=8), share("b", count=1)], context))

    assert sizes == [8, 4, 2, 2, 2, 2, 1]
    assert len(values_of(found["b"]).images) == 1
    for name, png in pngs(found["a"]).items():
        assert furthest(pixels(png), pixels(whole[name])) <= TOLERANCE["cpu"]


def test_a_card_too_full_for_a_single_picture_is_told(model, monkeypatch):
    with lab_of(model) as context:
        pipeline = held(model, CPU)
        monkeypatch.setattr(pipeline, "predict", card_of(0)(pipeline.predict, []))
        with pytest.raises(Problem) as caught:
            list(run(MakeImagesSettings(count=4), context))

    assert caught.value.notice.key == "problem.out_of_gpu_memory"


def test_a_model_that_is_not_on_this_machine_is_told(model):
    with lab_of(model) as context, pytest.raises(Problem) as caught:
        list(run(MakeImagesSettings(model="sd-turbo"), context))

    assert caught.value.notice.key == "problem.image_model_missing"


def test_without_a_judge_nobody_says_whether_a_picture_obeys(model):
    with lab_of(model) as context:
        assert values_of(list(run(MakeImagesSettings(), context))).images[0].obeyed == {}


def test_with_a_judge_each_picture_is_looked_at_for_what_was_asked(tmp_path):
    from safetensors.torch import save_file

    from core.models.mini_turbo.obey import FILE, JudgeNetwork

    judged = tiny_model(tmp_path)
    save_file(JudgeNetwork(width=4).state_dict(), tmp_path / FILE)
    with lab_of(judged) as context:
        events = list(run(MakeImagesSettings(prompt="a red bag on white"), context))

    assert set(values_of(events).images[0].obeyed) == {"object", "colour", "background"}


def test_on_the_command_line_pictures_are_saved_under_the_names_in_the_result(
    model, tmp_path, monkeypatch, capsysbinary
):
    monkeypatch.setenv("LAB_MINI_TURBO_DIR", str(model.folder))
    words = ["--prompt", "chiếc váy đỏ", "--seed", "7", "--count=2", "--device", "cpu"]
    assert main(["run", "make-images", *words, "--json", "--save", str(tmp_path)]) == 0

    result = json.loads(capsysbinary.readouterr().out.splitlines()[-1])
    assert result["event"] == "result"
    assert result["model"] == "mini-turbo"
    assert result["rows"][-1]["name"] == "draw"
    assert [image["seed"] for image in result["images"]] == [7, 8]
    with lab_of(model) as context:
        asked = MakeImagesSettings(prompt="chiếc váy đỏ", seed=7, count=2)
        drawn = pngs(run(asked, context))
    for image in result["images"]:
        name = image["file"].removesuffix(".png")
        saved = (tmp_path / image["file"]).read_bytes()
        assert furthest(pixels(saved), pixels(drawn[name])) <= TOLERANCE["cpu"]


@pytest.mark.parametrize("words", [["--prompt", "a naked man"], ["--steps", "2"]], ids=str)
def test_on_the_command_line_a_refusal_is_one_sentence(model, monkeypatch, capsys, words):
    monkeypatch.setenv("LAB_MINI_TURBO_DIR", str(model.folder))
    assert main(["run", "make-images", *words, "--device", "cpu", "--lang", "en"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("make-images --lang vi", "image-0.png: hạt giống 0"),
        ("eight-pictures --lang en", "UNet2DConditionModel"),
        ("picture-inside --lang vi", "Đọc chữ"),
        ("image-speed --repeats 3 --lang en", "CUDA graph: not measured"),
    ],
)
def test_in_a_terminal_each_result_is_told_in_words(model, monkeypatch, capsys, words, told):
    monkeypatch.setenv("LAB_MINI_TURBO_DIR", str(model.folder))
    assert main(["run", *words.split(), "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert told in out
    assert describe_machine().cpu in out
