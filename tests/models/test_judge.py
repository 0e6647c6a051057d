"""The judge reads what a person would read, and nothing else."""

import io
import subprocess
import sys

import numpy as np
import pytest
import torch

from core.labs.dcgan import Generator
from core.models import judge as package
from core.models.judge import WEIGHTS, card, load, weights_bytes
from core.models.judge import train as training
from core.models.judge.judge import read_judge
from core.models.judge.material import (
    LEARNT,
    NO_DIGITS,
    Chance,
    altered,
    flat,
    real_digits,
    to_network,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small work: more threads would only wait for each other, and for what else runs here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def judge():
    return load(CPU)


@pytest.fixture(scope="module")
def split():
    return real_digits()


@pytest.fixture(scope="module")
def held_out(split):
    """1,000 real digits that took no part in the training, as the network takes them."""
    pictures, labels = flat(split.test)
    return to_network(pictures), labels


def test_real_digits_it_never_saw_are_read_as_its_card_says(judge, held_out):
    pictures, labels = held_out
    likeliest = judge.probabilities(pictures)[:, :10].argmax(dim=1)
    read = judge.read(pictures)

    accuracy = float((likeliest == labels).float().mean())
    assert accuracy > 0.98
    # Another processor may add up in another order: two digits of a thousand either way.
    assert accuracy == pytest.approx(card().test_accuracy, abs=0.002)
    assert float((read >= 0).float().mean()) == pytest.approx(card().readable_real, abs=0.002)
    assert float((read == labels).float().mean()) == pytest.approx(
        card().readable_and_right, abs=0.002
    )
    assert judge.threshold == pytest.approx(card().threshold)


def test_the_three_parts_of_the_real_digits_share_no_digit(split):
    parts = [flat(part)[0] for part in (split.train, split.calibration, split.test)]

    assert [len(part) for part in parts] == [3_600, 400, 1_000]
    assert len(torch.cat(parts).flatten(1).unique(dim=0)) == 5_000


def test_soft_bent_and_turned_digits_are_readable_too(judge, split):
    pictures = altered(flat(split.test)[0], Chance(11))

    assert judge.score(to_network(pictures)).readable > 0.9


@pytest.mark.parametrize("kind", [*NO_DIGITS, training.UNTRAINED])
def test_what_is_no_digit_is_hardly_ever_readable(judge, split, kind):
    pictures = training.others_for_test(kind, split.test, training.EACH_TESTED)

    share = judge.score(pictures).readable

    assert pictures.flatten(1).std(dim=0).min() > 0, "these are all the same picture"
    assert share < 0.1
    assert share == pytest.approx(card().readable_others[kind], abs=0.005)


@pytest.mark.parametrize("paper_or_ink", [-1.0, 0.0, 1.0, float("nan"), float("inf")])
def test_blank_full_and_broken_pictures_are_not_readable(judge, paper_or_ink):
    score = judge.score(torch.full((8, 1, 28, 28), paper_or_ink))

    assert (score.readable, score.digits_seen, score.counts) == (0.0, 0, (0,) * 10)


@pytest.mark.parametrize("digit", range(10))
def test_a_generator_that_draws_one_digit_only_is_found_out(judge, split, digit):
    # Alike but not the same, as such a generator draws: moved by a pixel, pressed more or less.
    probabilities = judge.probabilities(to_network(split.train[digit]))
    typical = split.train[digit][probabilities[:, digit].argmax()]
    moves = [typical.roll((move % 3 - 1, move // 3 % 3 - 1), (0, 1)) for move in range(64)]
    ways = torch.stack(moves) * Chance(3).uniform(0.7, 1, 64, 1, 1)

    score = judge.score(to_network(ways))

    assert score.digits_seen == 1
    assert score.counts[digit] == max(score.counts) > 32


def test_a_stray_reading_does_not_make_a_digit_seen(judge, split):
    threes, seven = split.train[3, :300], split.train[7, :1]

    pictures = to_network(torch.cat([threes, seven]))

    assert judge.score(pictures[-1:]).digits_seen == 1
    assert judge.score(pictures).counts[7] == 1
    assert judge.score(pictures).digits_seen == 1


def test_all_ten_digits_are_seen_among_real_ones(judge, held_out):
    score = judge.score(held_out[0])

    assert score.digits_seen == 10
    assert sum(score.counts) == round(score.readable * 1_000)
    assert all(90 <= count <= 105 for count in score.counts)


def test_loading_and_scoring_draw_no_random_numbers():
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)

    load(CPU).score(torch.zeros(4, 1, 28, 28))

    assert torch.equal(torch.rand(4), expected)


def test_scoring_leaves_the_pictures_and_their_generator_as_they_were(judge):
    generator = Generator()
    pictures = generator(torch.randn(4, 64, 1, 1))
    before = pictures.detach().clone()

    judge.score(pictures)
    pictures.sum().backward()

    assert torch.equal(pictures, before)
    assert generator.training


def test_half_precision_pictures_get_the_same_score(judge, held_out):
    some = held_out[0][::5]

    assert judge.score(some.bfloat16()).counts == judge.score(some.bfloat16().float()).counts


def test_pictures_of_another_shape_are_refused(judge):
    with pytest.raises(ValueError, match=r"\(N, 1, 28, 28\), got \(2, 28, 28\)"):
        judge.score(torch.zeros(2, 28, 28))
    with pytest.raises(ValueError, match="no pictures"):
        judge.score(torch.zeros(0, 1, 28, 28))


@pytest.mark.gpu
def test_the_gpu_reads_what_the_cpu_reads(judge, held_out):
    pictures = held_out[0]

    there = load(torch.device("cuda")).read(pictures.cuda()).cpu()

    assert int((there != judge.read(pictures)).sum()) <= 2


def test_a_small_training_run_beats_chance_and_reports_it(tmp_path, split):
    out = tmp_path / "weights.npz"
    before = torch.get_rng_state()

    training.main(["--epochs", "3", "--digits", "800", "--tested", "20", "--out", str(out)])

    figures = package.read_card(out)
    pictures, labels = flat(split.calibration)
    likeliest = read_judge(out, CPU).probabilities(to_network(pictures))[:, :10].argmax(dim=1)
    assert float((likeliest == labels).float().mean()) > 0.3  # chance: 0.1
    assert figures.test_accuracy > 0.3
    assert (figures.train_digits, figures.epochs) == (800, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_weights_are_small_and_plain_numbers():
    assert weights_bytes() < 500_000
    with np.load(io.BytesIO(WEIGHTS.read_bytes()), allow_pickle=False) as kept:
        assert {kept[name].dtype for name in kept.files if name != "threshold"} == {
            np.dtype(np.float16)
        }


def test_the_model_card_states_the_measured_figures():
    text = WEIGHTS.with_name("MODEL_CARD.md").read_text(encoding="utf-8")
    figures = card()

    for said in (
        f"{figures.parameters:,} parameters",
        f"{100 * figures.test_accuracy:.1f} % of {figures.test_digits:,}",
        f"{100 * figures.test_accuracy_low:.1f} to {100 * figures.test_accuracy_high:.1f} %",
        f"{figures.threshold:.2f}",
        f"{figures.epochs} epochs",
        f"{100 * figures.readable_real:.1f} %",
        f"{100 * figures.readable_and_right:.1f} %",
        *(f"| {kind} |" for kind in figures.readable_others),
    ):
        assert said in text, said
    rates = dict.fromkeys(figures.readable_others, "")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[1] in rates:
            rates[cells[1]] = cells[-2]
    assert rates == {k: f"{100 * share:.1f} %" for k, share in figures.readable_others.items()}
    assert set(figures.kinds_learnt) == set(LEARNT)


def test_the_card_can_be_read_without_torch():
    code = "import sys, core.models.judge as j; j.card(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
