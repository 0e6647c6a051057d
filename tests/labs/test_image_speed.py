import msgspec
import pytest
import torch

from core.activities.make_images import ImageSpeedResult, ImageSpeedSettings
from core.events import Progressed, Result, Stopped
from core.labs import image_speed
from core.labs.image_pipeline import TOLERANCE, Order, held
from core.labs.image_speed import RUNGS
from core.texts import LANGUAGES, texts
from tests.labs.picture_lab import CPU, furthest, lab_of

SETTINGS = ImageSpeedSettings(repeats=3)


def measured(context):
    *events, result = image_speed.run(SETTINGS, context)
    assert isinstance(result, Result)
    return events, msgspec.convert(result.values, ImageSpeedResult)


def test_on_a_cpu_three_ways_are_measured_and_three_skipped_with_a_reason(model):
    with lab_of(model) as context:
        events, result = measured(context)
        blocks = held(model, CPU).blocks()

    assert [(rung.name, rung.batch) for rung in result.rungs] == [
        (name, batch) for name in ("plain", "cached_words", "channels_last") for batch in (1, 8)
    ]
    assert set(result.skipped) == {"graph", "compiled", "small_vae"}
    for rung in result.rungs:
        assert rung.ms_low <= rung.ms_median <= rung.ms_high
        assert rung.pictures_per_second == pytest.approx(1000 * rung.batch / rung.ms_median)
        assert rung.difference <= TOLERANCE["cpu"] / 255, "the same pictures, faster"
    assert result.copy_mib == pytest.approx(sum(block.mib for block in blocks))
    progress = [event.done for event in events if isinstance(event, Progressed)]
    assert progress == list(range(1, len(RUNGS) + 1))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_rung_and_every_reason_has_words(language):
    say = texts(language)
    for name in RUNGS:
        assert say(f"stage.image_speed_{name}")
        assert say(f"part3.rung.{name}")
    reasons = ("needs_gpu", "no_compiler", "not_compiled", "no_small_vae", "other_latents")
    assert all(say(f"image_speed.{reason}") for reason in reasons)


def test_afterwards_the_model_lies_in_memory_as_before(model):
    with lab_of(model) as context:
        pipeline = held(model, CPU)
        before = pipeline.draw([Order("a red bag", 1)])
        measured(context)
        assert furthest(pipeline.draw([Order("a red bag", 1)]), before) == 0
        weight = pipeline.unet.conv_in.weight
        assert weight.is_contiguous()
        assert not weight.is_contiguous(memory_format=torch.channels_last)


def test_a_stop_is_heard_between_two_ways(model):
    seen = []
    with lab_of(model, stopped=lambda: bool(seen)) as context:
        for event in image_speed.run(SETTINGS, context):
            if isinstance(event, Progressed):
                seen.append(event)

    assert event == Stopped()
    assert len(seen) == 1


@pytest.mark.gpu
@pytest.mark.timeout(400)
def test_on_a_card_graphs_and_compiled_blocks_draw_the_same_pictures(model):
    with lab_of(model, device="cuda:0") as context:
        _, result = measured(context)

    assert {rung.name for rung in result.rungs} == set(RUNGS) - {"small_vae"}
    assert result.skipped == {"small_vae": "image_speed.other_latents"}
    assert max(rung.difference for rung in result.rungs) <= TOLERANCE["cuda"] / 255
