import msgspec
import pytest

from core.activities.make_images import (
    EightPicturesResult,
    EightPicturesSettings,
    MakeImagesSettings,
)
from core.events import Drawn, Measured, Result, Stopped
from core.labs import eight_pictures, make_images
from core.labs.image_pipeline import TOLERANCE, held
from core.problems import Problem
from tests.labs.picture_lab import CPU, furthest, lab_of, pixels


def test_the_run_measures_loading_the_first_picture_and_eight_more_apart(model):
    settings = EightPicturesSettings(seed=10)
    with lab_of(model) as context:
        before = held(model, CPU)
        *events, result = eight_pictures.run(settings, context)
        assert held(model, CPU) is not before, "what was in memory was loaded anew"
        drawn = [event for event in events if isinstance(event, Drawn)]
        for number in (0, 5):  # the pictures are those that make-images draws
            alone = MakeImagesSettings(prompt=settings.prompts[number % 4], seed=10 + number)
            (same,) = [e for e in make_images.run(alone, context) if isinstance(e, Drawn)]
            assert furthest(pixels(same.png), pixels(drawn[number].png)) <= TOLERANCE["cpu"]

    assert isinstance(result, Result)
    assert [row.name for row in result.rows] == ["load", "first", "draw"]
    measured = [event.recording.name for event in events if isinstance(event, Measured)]
    assert measured == ["load", "first", "draw"]
    values = msgspec.convert(result.values, EightPicturesResult)
    assert [image.seed for image in values.images] == list(range(10, 18))
    assert [event.name for event in drawn] == [f"image-{number}" for number in range(8)]
    assert values.load_seconds == result.rows[0].seconds
    assert sum(image.seconds for image in values.images) <= result.rows[2].seconds
    assert values.reserved_mib is None, "there is no card"
    assert sum(block.parameters for block in values.blocks) > 100_000


def test_a_stop_ends_it_between_two_pictures(model):
    seen = []
    with lab_of(model, stopped=lambda: len(seen) >= 2) as context:
        for event in eight_pictures.run(EightPicturesSettings(), context):
            if isinstance(event, Drawn):
                seen.append(event.name)

    assert event == Stopped()
    assert seen == ["image-0", "image-1"]


def test_one_sentence_against_the_rules_refuses_the_whole_run(model):
    with lab_of(model) as context, pytest.raises(Problem) as caught:
        list(eight_pictures.run(EightPicturesSettings(prompt_3="a naked man"), context))

    assert caught.value.notice.key == "safety.refuse.nudity"
