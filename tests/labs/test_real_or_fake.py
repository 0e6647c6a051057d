import io

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from core.activities.soc import DIGITS, RealOrFakeResult, RealOrFakeSettings
from core.context import Context, never
from core.data.digits import Digits, DigitsSource
from core.events import Drawn, Result
from core.labs import keeping
from core.labs.dcgan import Gan
from core.labs.real_or_fake import SCALE, run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine

# Stand-ins for handwriting, each of one grey of its own: what is real is known at sight.
REAL = np.repeat(np.arange(0, 200, 2, dtype=np.uint8), 28 * 28).reshape(-1, 28, 28)


@pytest.fixture(scope="module")
def gan():
    torch.manual_seed(0)
    return Gan(torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, gan):
    kept = tmp_path_factory.mktemp("kept")
    keeping.save(gan, kept)
    return kept


def played(seed, folder):
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device="cpu",
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
            meter=meter,
            stopped=never,
            digits=lambda: Digits(REAL, np.zeros(len(REAL), np.uint8), DigitsSource.FOLDER),
            keep=folder,
        )
        *events, result = run(RealOrFakeSettings(seed=seed), context)
    assert isinstance(result, Result)
    drawn = {event.name: event.png for event in events if isinstance(event, Drawn)}
    return drawn, msgspec.convert(result.values, RealOrFakeResult)


def test_four_are_real_four_by_g_and_only_the_result_knows_which(folder):
    orders = set()
    for seed in range(3):
        drawn, values = played(seed, folder)
        assert list(drawn) == [f"digit-{number}" for number in range(DIGITS)]
        assert sum(values.truths) == DIGITS // 2
        orders.add(values.truths)
        for png, truth in zip(drawn.values(), values.truths, strict=True):
            picture = Image.open(io.BytesIO(png))
            assert picture.size == (28 * SCALE, 28 * SCALE)
            assert picture.info == {}
            greys = np.unique(np.asarray(picture))
            assert (len(greys) == 1) is truth, "a real one has one grey here, a drawn one many"
    assert len(orders) > 1, "the order is shuffled"


def test_d_judges_the_very_pictures_that_are_shown(folder, gan):
    drawn, values = played(5, folder)
    cells = [np.asarray(Image.open(io.BytesIO(png)))[::SCALE, ::SCALE] for png in drawn.values()]
    shown = torch.from_numpy(np.stack(cells)).float().div(127.5).sub(1)[:, None]
    gan.discriminator.eval()
    with torch.inference_mode():
        beliefs = gan.discriminator(shown).sigmoid().flatten()
    assert torch.allclose(beliefs, torch.tensor(values.beliefs), atol=1e-5)


def test_the_same_seed_is_the_same_round(folder):
    assert played(4, folder) == played(4, folder)


def test_who_has_trained_nothing_is_told_so(tmp_path):
    with pytest.raises(Problem) as caught:
        played(0, tmp_path)
    assert caught.value.notice.key == "problem.nothing_trained"
