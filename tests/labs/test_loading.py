import os
import signal

import numpy as np
import psutil
import pytest
import torch

from core.labs.dcgan import BATCH
from core.labs.loading import DigitPictures, Loader, prepared_batches

CPU = torch.device("cpu")
COUNT = 3 * BATCH + 44  # three full batches and a rest


@pytest.fixture(scope="module")
def images():
    """Pictures that carry their own number in two pixels, read-only as the cache gives them."""
    pictures = np.zeros((COUNT, 28, 28), dtype=np.uint8)
    pictures[:, 0, 0] = np.arange(COUNT) % 256
    pictures[:, 0, 1] = np.arange(COUNT) // 256
    pictures.flags.writeable = False
    return pictures


def numbers(batch):
    pixels = ((batch[:, 0, 0, :2] + 1) * 127.5).round().int()
    return (pixels[:, 0] + 256 * pixels[:, 1]).tolist()


def children():
    return psutil.Process().children(recursive=True)


def test_black_becomes_minus_one_and_white_one():
    picture = np.zeros((1, 28, 28), dtype=np.uint8)
    picture[0, 3, 4] = 255
    prepared = DigitPictures(picture)[0]
    assert prepared.shape == (1, 28, 28)
    assert prepared[0, 3, 4] == 1
    assert prepared[0, 0, 0] == -1


def test_both_ways_to_prepare_a_digit_give_the_same_picture(images):
    one_by_one = torch.stack([DigitPictures(images)[index] for index in range(BATCH)])
    at_once = prepared_batches(images, 2, device=CPU)
    assert at_once.shape == (2, BATCH, 1, 28, 28)
    assert prepared_batches(images, 200, device=CPU).shape == (3, BATCH, 1, 28, 28)
    assert torch.equal(at_once[0], one_by_one)


def test_an_epoch_shows_each_digit_at_most_once_and_then_the_next_begins(images):
    with Loader(images, seed=0) as loader:
        epochs = [[numbers(next(loader)) for _ in range(3)] for _ in range(2)]
    for epoch in epochs:
        seen = [number for batch in epoch for number in batch]
        assert len(set(seen)) == len(seen) == 3 * BATCH
        assert set(seen) <= set(range(COUNT))
    assert epochs[0] != epochs[1]


def test_the_seed_alone_decides_the_order(images):
    def first(seed):
        with Loader(images, seed=seed) as loader:
            return numbers(next(loader))

    assert first(5) == first(5)
    assert first(5) != first(6)


def test_the_worker_process_starts_with_the_first_batch_and_is_gone_after_the_last(images):
    before = children()
    with Loader(images, seed=0) as loader:
        assert children() == before
        next(loader)
        assert len(children()) == len(before) + 1
    assert children() == before


def test_an_error_between_two_batches_leaves_no_worker_process(images):
    before = children()

    def job():
        with Loader(images, seed=0) as loader:
            next(loader)
            assert children() != before
            raise ZeroDivisionError

    # The traceback that pytest keeps here holds the loader, as a log or a debugger may.
    with pytest.raises(ZeroDivisionError) as caught:
        job()
    assert children() == before
    assert caught.traceback


def test_an_interrupt_of_the_terminal_does_not_take_the_worker_process_away(images):
    before = children()
    with Loader(images, seed=0) as loader:
        next(loader)
        (worker,) = [child for child in children() if child not in before]
        os.kill(worker.pid, signal.SIGINT)
        for _ in range(6):  # more than were prepared ahead
            assert next(loader).shape == (BATCH, 1, 28, 28)


def test_too_few_digits_for_a_batch_are_refused(images):
    with pytest.raises(ValueError, match="do not fill a batch"):
        Loader(images[: BATCH - 1], seed=0)


def test_a_lasting_process_serves_every_epoch_each_in_another_order(images):
    before = children()
    with Loader(images, seed=0, lasting=True) as loader:
        first = [numbers(next(loader)) for _ in range(3)]
        (worker,) = [child for child in children() if child not in before]
        second = [numbers(next(loader)) for _ in range(3)]
        assert [child for child in children() if child not in before] == [worker]
    assert children() == before
    for epoch in (first, second):
        assert len({number for batch in epoch for number in batch}) == 3 * BATCH
    assert first != second


def test_the_first_epoch_is_the_same_whether_the_process_lasts_or_not(images):
    def first_epoch(lasting):
        with Loader(images, seed=3, lasting=lasting) as loader:
            return [numbers(next(loader)) for _ in range(3)]

    assert first_epoch(True) == first_epoch(False)
