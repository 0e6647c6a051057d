"""Masks, loss, schedules and the slow teacher, against the specification's figures."""

import pytest
import torch
from torch import nn

from core.preflight.speech import budget, ema
from core.preflight.speech.loss import token_loss
from core.preflight.speech.masks import masks, visible_neighbours
from core.preflight.speech.optimiser import Schedule, groups_of
from core.preflight.speech.schedules import learning_rate, weight_decay


def test_the_masks_of_step_zero_are_the_known_ones():
    context, targets, ratio = masks(0, batch=8)

    assert ratio == pytest.approx(0.4992513, abs=1e-7)
    assert (context.shape, targets.shape) == ((8, 64), (8, 64))
    assert context[0, :8].tolist() == [47, 97, 116, 91, 27, 114, 109, 24]
    both = torch.cat((context, targets), dim=1).sort(dim=1).values
    assert (both == torch.arange(128)).all()


def test_masks_change_with_the_step_and_come_back_with_it():
    assert torch.equal(masks(7, 2)[0], masks(7, 2)[0])
    assert masks(7, 2)[0].shape != masks(8, 2)[0].shape or not torch.equal(
        masks(7, 2)[0], masks(8, 2)[0]
    )
    assert {masks(step, 1)[0].shape[1] for step in range(200)} <= set(range(51, 77))


def test_most_hidden_tokens_have_a_visible_neighbour():
    hidden, visible, share = 0, 0.0, 0.0
    for seed in range(1000, 1300):
        context, targets, _ = masks(seed, batch=1)
        any_visible, mean = visible_neighbours(context, rows=32, columns=4)
        hidden += targets.numel()
        visible += targets.numel() * any_visible
        share += targets.numel() * mean

    assert hidden == 19_159
    assert 100 * visible / hidden == pytest.approx(89.87, abs=0.005)
    assert 100 * share / hidden == pytest.approx(49.92, abs=0.005)


def test_neighbours_are_counted_on_the_grid_and_not_around_its_rim():
    # A grid of 2 x 3 in which only the corner (0, 0) is visible.
    any_visible, share = visible_neighbours(torch.tensor([[0]]), rows=2, columns=3)

    assert any_visible == pytest.approx(2 / 5)
    assert share == pytest.approx((1 / 3 + 1 / 2) / 5)


def test_the_loss_is_known_for_one_pair_zero_for_itself_and_two_for_strangers():
    prediction, target = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[4.0, 3, 2, 1]])
    assert float(token_loss(prediction, target)) == pytest.approx(2.8165, abs=1e-4)

    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 512, 768, generator=generator)
    assert float(token_loss(one, other)) == pytest.approx(2.0, abs=0.01)
    assert float(token_loss(one - one.mean(-1, keepdim=True), one)) == pytest.approx(0, abs=1e-5)


CHOSEN = {"ref": 1e-4, "warm_up": 500}
DEFAULT = {"ref": 1e-3, "warm_up": 1_000}


@pytest.mark.parametrize(
    ("plan", "step", "rate"),
    [
        (DEFAULT, 0, 1.000e-6),
        (DEFAULT, 1, 1.999e-6),
        (DEFAULT, 500, 5.005e-4),
        (DEFAULT, 999, 9.990e-4),
        (DEFAULT, 1_000, 1.000e-3),
        (DEFAULT, 1_001, 1.000e-3),
        (DEFAULT, 2_000, 9.997e-4),
        (DEFAULT, 5_000, 9.948e-4),
        (DEFAULT, 43_945, 5.090e-4),
        (DEFAULT, 87_890, 0.0),
        (CHOSEN, 0, 1.000e-6),
        (CHOSEN, 1, 1.198e-6),
        (CHOSEN, 250, 5.050e-5),
        (CHOSEN, 499, 9.980e-5),
        (CHOSEN, 500, 1.000e-4),
        (CHOSEN, 501, 1.000e-4),
        (CHOSEN, 2_000, 9.993e-5),
        (CHOSEN, 5_000, 9.935e-5),
        (CHOSEN, 43_945, 5.045e-5),
        (CHOSEN, 87_890, 0.0),
    ],
)
def test_the_rate_follows_the_table(plan, step, rate):
    found = learning_rate(step, start=1e-6, final=0.0, total=budget.STEPS, **plan)

    assert found == pytest.approx(rate, rel=5.1e-4, abs=1e-12)  # the table has four digits


def test_with_the_public_defaults_most_steps_run_above_the_rate_that_the_file_declares():
    steps = range(budget.STEPS)
    rates = [learning_rate(s, start=1e-6, final=0.0, total=budget.STEPS, **DEFAULT) for s in steps]

    above = [
        round(100 * sum(rate > limit for rate in rates) / len(rates)) for limit in (3e-4, 1e-4)
    ]
    assert above == [63, 80]


def test_past_its_end_the_cosine_would_rise_again():
    end, past = (
        learning_rate(step, start=0, final=0, total=100, ref=1.0, warm_up=10) for step in (100, 120)
    )

    assert end == pytest.approx(0.0, abs=1e-12)
    assert past > 0.1


def test_the_decay_lags_one_step_behind_and_goes_from_one_value_to_the_other():
    optimiser = torch.optim.AdamW(nn.Linear(2, 2).parameters())
    rates = {"start": 0.0, "final": 0.0, "ref": 1.0, "warm_up": 1}
    schedule = Schedule(optimiser, total=10, weight_decay=0.1, final_weight_decay=0.4, **rates)
    held = []
    for _ in range(11):
        schedule.advance()
        held.append(optimiser.param_groups[0]["weight_decay"])

    assert held == [weight_decay(step, ref=0.1, final=0.4, total=10) for step in range(11)]
    assert held == sorted(held)
    assert (held[0], held[-1]) == pytest.approx((0.1, 0.4))


def test_the_schedule_writes_over_what_the_optimiser_was_made_with():
    optimiser = torch.optim.AdamW(nn.Linear(2, 2).parameters(), lr=3e-4, weight_decay=0.05)

    Schedule(
        optimiser,
        start=1e-6,
        final=0.0,
        total=budget.STEPS,
        weight_decay=1e-6,
        **CHOSEN,
    )

    group = optimiser.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (1e-6, pytest.approx(1e-6, abs=1e-12))


def test_biases_may_be_spared_the_decay():
    groups = groups_of(nn.Linear(4, 4), nn.Linear(4, 4), split=True)
    optimiser = torch.optim.AdamW(groups)

    Schedule(optimiser, start=0, final=0, total=10, weight_decay=0.1, ref=1, warm_up=1)

    decays = [group["weight_decay"] for group in optimiser.param_groups]
    assert decays == pytest.approx([0.1, 0.1, 0, 0])


def test_the_teacher_forgets_half_in_693_steps_and_leaves_frozen_tables_alone():
    teacher, student = nn.Linear(3, 3), nn.Linear(3, 3)
    with torch.no_grad():
        teacher.weight.fill_(1.0)
        student.weight.fill_(0.0)
        teacher.bias.fill_(0.3)
    student.bias.requires_grad_(False)

    tables = teacher.bias.clone()
    for _ in range(693):
        ema.update(teacher, student, 0.999)

    assert torch.equal(teacher.bias, tables), "not by a bit"
    assert float(teacher.weight.detach().mean()) == pytest.approx(0.5, abs=1e-3)
    assert [round(ema.half_life(tau)) for tau in (0.999, 0.996)] == [693, 173]


def test_an_average_in_half_precision_would_stand_still_and_is_refused():
    with pytest.raises(TypeError, match="float32"):
        ema.update(nn.Linear(2, 2).half(), nn.Linear(2, 2).half(), 0.999)
