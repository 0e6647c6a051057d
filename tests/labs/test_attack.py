"""The activities of Part 4 on the real EfficientNet-Lite0 and the cat."""

import io

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from core.activities import (
    ACTIVITIES,
    AttackResult,
    AttackSettings,
    AttackSweepResult,
    AttackSweepSettings,
    DefencesResult,
    DefencesSettings,
    TransferResult,
    TransferSettings,
)
from core.activities.attack import LITE_0, LITE_1, MAP_STRENGTHS, STRENGTHS
from core.context import Context, never
from core.data import photos
from core.events import Believed, Drawn, Progressed, Result, Stopped
from core.headless import result_text
from core.labs import attack, attack_defences, attack_sweep, attack_transfer
from core.labs.attack_defences import rising
from core.problems import Problem
from core.settings import LabSettings
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine
from core.texts import LANGUAGES, texts

TOASTER, BANANA, EGYPTIAN_CAT = 859, 954, 285


def ran(module, settings, *, keep=None, stopped=never, device="cpu"):
    """All events of a run; the last is its outcome."""
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device=device,
            cpu_threads=2,
            machine=Machine(cpu="a processor", cores=2, ram_mib=1_000.0),
            meter=meter,
            stopped=stopped,
            digits=lambda: pytest.fail("digits have nothing to do with it"),
            keep=keep,
            lab=LabSettings(),
        )
        return list(module.run(settings, context))


def outcome(events, kind):
    assert isinstance(events[-1], Result)
    return msgspec.convert(events[-1].values, kind)


def drawn(events):
    return {event.name: event.png for event in events if isinstance(event, Drawn)}


def pixels(png):
    return np.array(Image.open(io.BytesIO(png))).astype(int)


@pytest.fixture(autouse=True, scope="module")
def no_resnet(tmp_path_factory):
    """Whatever lies in the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_HOME", str(tmp_path_factory.mktemp("torch")))
        yield


@pytest.fixture(scope="module")
def fooled():
    return ran(attack, AttackSettings())


def test_twenty_steps_of_two_255ths_make_the_cat_a_toaster(fooled):
    result = outcome(fooled, AttackResult)
    assert result.model == LITE_0
    assert result.before[0] == ("Egyptian cat", pytest.approx(0.79, abs=0.01))
    assert result.before_classes[0] == result.source == EGYPTIAN_CAT
    assert result.after[0] == ("toaster", pytest.approx(0.998, abs=0.003))
    assert result.after_classes[0] == TOASTER
    assert result.fooled
    assert result.confidence > 0.99
    assert result.linf_255 == 2
    assert len(result.before) == len(result.after) == 5


def test_it_is_still_fooled_in_eight_bits_and_out_of_the_file(fooled):
    result = outcome(fooled, AttackResult)
    assert result.fooled_8bit
    assert result.fooled_png
    assert result.png == result.eight_bit
    assert result.eight_bit.linf_255 <= 2


def test_random_noise_of_the_same_size_fools_nobody(fooled):
    control = outcome(fooled, AttackResult).control
    assert control.linf_255 == 2
    assert not control.fooled
    assert control.guess_class == EGYPTIAN_CAT
    assert control.confidence < 0.01


def test_the_pictures_are_what_they_say(fooled):
    result, pictures = outcome(fooled, AttackResult), drawn(fooled)
    assert list(pictures) == ["original", "noise", "attacked", "difference", "control"]
    original, attacked = pixels(pictures["original"]), pixels(pictures["attacked"])
    change = attacked - original
    assert original.shape == (224, 224, 3)
    assert np.abs(change).max() == 2
    assert np.abs(pixels(pictures["control"]) - original).max() == 2
    noise, difference = pixels(pictures["noise"]), pixels(pictures["difference"])
    assert set(np.unique(noise[change == 0])) <= set(range(96, 161)), "nothing is mid-grey"
    assert noise[change == 2] == pytest.approx(128 + 2 * result.noise_gain, abs=33)
    assert (noise >= 1).all(), "nothing is cut off"
    assert np.abs(difference - np.abs(change) * result.difference_gain).max() <= 31


def test_the_belief_in_the_target_is_told_step_by_step(fooled):
    told = [event for event in fooled if isinstance(event, Believed)]
    beliefs = [belief for event in told for belief in event.beliefs]
    result = outcome(fooled, AttackResult)
    assert list(result.beliefs) == beliefs
    assert len(beliefs) == result.steps + 1 == 21
    assert [event.first_step for event in told] == list(
        np.cumsum([0] + [len(event.beliefs) for event in told[:-1]])
    )
    assert beliefs[0] < 0.01
    assert beliefs[-1] > 0.99
    assert [event for event in fooled if isinstance(event, Progressed)][-1] == Progressed(20, 20)


def test_the_attacked_file_uploaded_again_still_fools(fooled, tmp_path):
    data = photos.sanitised(drawn(fooled)["attacked"])
    name = photos.keep_upload(tmp_path, data)
    settings = AttackSettings(target=BANANA, picture=name, steps=1)
    again = outcome(ran(attack, settings, keep=tmp_path), AttackResult)
    assert again.source == TOASTER
    assert again.before[0][1] == pytest.approx(outcome(fooled, AttackResult).png.confidence)


def test_an_upload_whose_time_is_over_is_told(tmp_path):
    name = photos.keep_upload(tmp_path, photos.sample_png("coffee"))
    photos.forget_uploads(tmp_path)
    with pytest.raises(Problem) as caught:
        ran(attack, AttackSettings(picture=name), keep=tmp_path)
    assert caught.value.notice.key == "problem.photo_gone"


def test_a_target_that_is_seen_already_is_refused():
    with pytest.raises(Problem) as caught:
        ran(attack, AttackSettings(target=EGYPTIAN_CAT))
    assert caught.value.notice.key == "problem.attack_target_is_source"
    assert "Egyptian cat" in texts("en").notice(caught.value.notice)


def test_the_minimal_attack_fools_with_a_much_smaller_change(fooled):
    result = outcome(ran(attack, AttackSettings(method="minimal")), AttackResult)
    assert result.fooled
    assert result.l2 < outcome(fooled, AttackResult).l2 / 2
    assert result.linf_255 > 2, "it spends its change on few places, and is not held to a limit"


@pytest.mark.parametrize("method", ["fgsm", "pgd"])
def test_the_other_attacks_raise_the_belief_too(method):
    result = outcome(ran(attack, AttackSettings(method=method, steps=8, epsilon=4)), AttackResult)
    assert result.method == method
    assert result.steps == (1 if method == "fgsm" else 8)
    assert max(result.beliefs) > result.beliefs[0]
    assert result.linf_255 <= 4


def test_half_a_level_is_lost_in_the_file():
    result = outcome(ran(attack, AttackSettings(epsilon=0.5, steps=2)), AttackResult)
    assert result.linf_255 == pytest.approx(0.125, abs=0.01)
    assert result.eight_bit.linf_255 == 0
    assert result.eight_bit.guess_class == EGYPTIAN_CAT


def test_a_stopped_attack_ends_between_two_steps():
    events = ran(attack, AttackSettings(steps=100), stopped=lambda: True)
    assert isinstance(events[-1], Stopped)


@pytest.fixture(scope="module")
def swept():
    return ran(attack_sweep, AttackSweepSettings(steps=1))


def test_a_sweep_tells_success_against_strength_beside_random_noise(swept):
    result = outcome(swept, AttackSweepResult)
    assert [point.epsilon for point in result.points] == list(STRENGTHS)
    assert all(point.target == TOASTER for point in result.points)
    # One step reaches an eighth of the strength.
    assert [point.linf_255 for point in result.points] == pytest.approx(
        [strength / 8 for strength in STRENGTHS], rel=0.01
    )
    assert result.points[-1].confidence > result.points[0].confidence
    assert not any(point.fooled for point in result.control)
    fooling = [point.epsilon for point in result.points if point.fooled]
    assert result.weakest == (min(fooling) if fooling else None)
    assert set(drawn(swept)) == {"strength-0.5", "strength-2", "strength-8", "strength-16"}
    assert [row.name for row in swept[-1].rows] == ["sweep", "map"]


def test_the_map_has_several_targets_each_at_every_strength(swept):
    result = outcome(swept, AttackSweepResult)
    targets = list(dict.fromkeys(point.target for point in result.map))
    assert targets[0] == TOASTER
    assert len(targets) >= 5
    assert [(point.target, point.epsilon) for point in result.map] == [
        (target, strength) for target in targets for strength in MAP_STRENGTHS
    ]


@pytest.fixture(scope="module")
def defended():
    return ran(attack_defences, DefencesSettings(steps=6, epsilon=4, votes=2))


def test_defences_stop_the_ordinary_attack_and_cost_little(defended):
    result = outcome(defended, DefencesResult)
    by_name = {one.name: one for one in result.outcomes}
    assert list(by_name) == ["none", "jpeg", "resize", "blur", "median", "noise_vote", "bits"]
    assert set(drawn(defended)) == set(by_name)
    assert by_name["none"].survives
    assert by_name["none"].right == by_name["none"].clean == 16
    stopping = [one for one in result.outcomes if not one.survives]
    assert len(stopping) >= 4
    assert by_name["blur"].repaired
    assert all(one.right >= 12 for one in result.outcomes)


def test_whoever_knows_the_defence_attacks_through_it(defended):
    result = outcome(defended, DefencesResult)
    by_name = {one.name: one for one in result.outcomes}
    for name in ("blur", "median", "resize", "jpeg"):
        one = by_name[name]
        assert one.adaptive_fooled, f"{name} falls"
        assert one.adaptive_confidence > one.confidence
        assert one.adaptive_epsilon in rising(4)


def test_the_strength_of_an_attacker_who_knows_never_passes_the_largest():
    assert rising(2) == [2, 4, 8]
    assert rising(10) == [10, 16]
    assert rising(16) == [16]


@pytest.fixture(scope="module")
def transferred():
    return ran(attack_transfer, TransferSettings(steps=6))


def test_transfer_tells_for_each_network_what_every_network_says(transferred):
    result = outcome(transferred, TransferResult)
    both = (LITE_0, LITE_1)
    assert result.models == both
    assert [(cell.made_for, cell.judged_by) for cell in result.cells] == [
        (made_for, judge) for made_for in ((LITE_0,), (LITE_1,), both) for judge in both
    ]
    own = {cell.judged_by: cell for cell in result.cells if cell.made_for == (cell.judged_by,)}
    assert all(cell.fooled and cell.misled for cell in own.values())
    assert all(cell.fooled for cell in result.cells if cell.made_for == both)
    assert len(drawn(transferred)) == 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_result_is_told_in_the_terminal(language, fooled, swept, defended, transferred):
    say = texts(language)
    for name, events in (
        ("attack", fooled),
        ("attack-sweep", swept),
        ("defences", defended),
        ("transfer", transferred),
    ):
        told = "\n".join(result_text(say, events[-1], ACTIVITIES[name]))
        assert "a processor" in told


@pytest.mark.gpu
def test_a_card_and_a_processor_come_to_the_same_end():
    settings = AttackSettings(steps=10)
    on_cpu = outcome(ran(attack, settings), AttackResult)
    on_card = outcome(ran(attack, settings, device="cuda:0"), AttackResult)
    assert on_card.fooled == on_cpu.fooled
    # A step takes the sign of a slope: where that is almost 0, the card's coarser TF32 turns it,
    # and ten steps later the two have gone slightly different ways.
    assert on_card.confidence == pytest.approx(on_cpu.confidence, abs=0.15)
    assert on_card.linf_255 == pytest.approx(on_cpu.linf_255, abs=1e-3)
    assert on_card.control.guess_class == on_cpu.control.guess_class
    assert torch.tensor(on_card.beliefs[:3]).allclose(torch.tensor(on_cpu.beliefs[:3]), atol=0.02)
