import functools
import threading
from contextlib import closing

import msgspec
import numpy as np
import psutil
import pytest
import torch

from core.activities import TrainGanResult, TrainGanSettings
from core.context import Context, never
from core.data.digits import Digits, DigitsSource
from core.events import Drawn, Lost, Measured, Paused, Progressed, Result, Scored, Staged, Stopped
from core.labs import keeping, train_gan
from core.labs.dcgan import NOISE, Gan
from core.labs.gallery import Look
from core.labs.loading import Loader
from core.labs.train_gan import run, trouble_in
from core.models.judge.judge import Score
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine
from tests.labs.plain import PlainLab

CPU = torch.device("cpu")
STEPS = 10  # of an epoch
SETTINGS = TrainGanSettings(epochs=2, images_per_epoch=128 * STEPS, seed=5)


@functools.cache
def few_digits():
    images = np.random.default_rng(0).integers(0, 256, (2_600, 28, 28), dtype=np.uint8)
    return Digits(images, np.zeros(2_600, dtype=np.uint8), DigitsSource.WIDENED)


@pytest.fixture
def meter():
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        yield meter


def context(meter, *, device="cpu", stopped=never, finishing=never, paused=never, keep=None):
    return Context(
        device=device,
        cpu_threads=2,
        machine=Machine(cpu="a processor", cores=2, ram_mib=1_000.0),
        meter=meter,
        stopped=stopped,
        digits=few_digits,
        finishing=finishing,
        paused=paused,
        keep=keep,
    )


def traces():
    """What a run must put back: its loader's process and the number of CPU threads."""
    return psutil.Process().children(recursive=True), torch.get_num_threads()


def only(kind, events):
    return [event for event in events if isinstance(event, kind)]


def losses(events):
    """(step, loss of D, loss of G) of every step that was told."""
    return [
        (event.first_step + place, loss_d, loss_g)
        for event in only(Lost, events)
        for place, (loss_d, loss_g) in enumerate(zip(event.loss_d, event.loss_g, strict=True))
    ]


def values_of(events):
    assert isinstance(events[-1], Result)
    return msgspec.convert(events[-1].values, TrainGanResult)


def same_networks(one, other):
    return all(
        torch.equal(value, theirs.state_dict()[name])
        for ours, theirs in (
            (one.generator, other.generator),
            (one.discriminator, other.discriminator),
        )
        for name, value in ours.state_dict().items()
    )


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The events of a run of two epochs, and the folder that it kept its networks in."""
    keep = tmp_path_factory.mktemp("kept")
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        before = traces()
        events = list(run(SETTINGS, context(meter, keep=keep)))
        assert traces() == before
    return events, keep


@pytest.fixture
def idle_steps(monkeypatch):
    """Steps that learn nothing and take no time, for tests about what lies between steps."""
    nothing, scores = torch.tensor(1.0), torch.zeros(128, 1)

    def step(gan, real, *, on_scores):
        on_scores(scores + 1, scores - 1)
        return nothing, nothing

    monkeypatch.setattr(train_gan, "train_step", step)


def test_twenty_steps_are_those_of_a_straight_reference_bit_by_bit(whole_run):
    # Same seed, weights first, then the fixed noise, then each step's; two epochs of one loader.
    torch.manual_seed(SETTINGS.seed)
    lab = PlainLab()
    torch.randn(32, NOISE, 1, 1)
    images = few_digits().images[: SETTINGS.images_per_epoch]
    with Loader(images, seed=SETTINGS.seed, lasting=True) as batches:
        expected = [(step, *lab.step(next(batches))) for step in range(1, 2 * STEPS + 1)]

    events, keep = whole_run
    assert losses(events) == expected
    kept = keeping.load(keep, CPU)
    for ours, plain in ((kept.generator, lab.g), (kept.discriminator, lab.d)):
        for name, value in ours.state_dict().items():
            assert torch.equal(value, plain.state_dict()[name]), name


def test_looking_more_often_changes_no_bit_of_what_is_learnt(whole_run, meter, tmp_path):
    _, keep = whole_run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_gan, "LOOKS_AN_EPOCH", STEPS)
        often = list(run(SETTINGS, context(meter, keep=tmp_path)))
    assert len(only(Scored, often)) == 2 * STEPS
    assert same_networks(keeping.load(tmp_path, CPU), keeping.load(keep, CPU))


def test_the_networks_are_seen_several_times_an_epoch_and_at_its_end(whole_run):
    events, _ = whole_run
    scored = only(Scored, events)
    for epoch in (1, 2):
        seen = [event for event in scored if epoch - 1 < event.epoch <= epoch]
        assert len(seen) >= 3
        assert seen[-1].step == epoch * STEPS
    grids = [event for event in only(Drawn, events) if event.name == "grid"]
    assert len(grids) == len(scored) + 1, "and once before the first step"
    for event in scored:
        assert event.images_per_second > 0
        for share in (event.readable, event.accuracy_real, event.accuracy_fake):
            assert 0 <= share <= 1


def test_after_the_training_there_are_a_film_strip_an_animation_and_the_networks(whole_run):
    events, keep = whole_run
    assert [event.stage for event in only(Staged, events)] == [
        "stage.digits",
        "stage.training",
        "stage.film_strip",
    ]
    pictures = {event.name: event.png for event in only(Drawn, events)}
    assert pictures.keys() == {"grid", "strip", "animation"}
    assert len(pictures["animation"]) < 400_000
    assert [path.name for path in keep.iterdir()] == [keeping.FILE]


def test_the_result_sums_up_each_epoch(whole_run):
    events, _ = whole_run
    values = values_of(events)
    told = losses(events)
    assert [epoch.epoch for epoch in values.epochs] == [1, 2]
    for epoch in values.epochs:
        steps = told[(epoch.epoch - 1) * STEPS : epoch.epoch * STEPS]
        assert epoch.loss_d == pytest.approx(np.mean([loss for _, loss, _ in steps]))
        assert epoch.loss_g == pytest.approx(np.mean([loss for _, _, loss in steps]))
        assert epoch.images_per_second == pytest.approx(STEPS * 128 / epoch.seconds)
    assert (values.steps, values.batch, values.kept) == (2 * STEPS, 128, True)
    assert (values.trouble, values.stopped_early) == (None, False)
    assert (values.device_name, values.digits) == ("a processor", "widened")


def test_the_meter_covers_all_of_it_and_the_epochs_only_the_training(whole_run):
    events, _ = whole_run
    (measured,) = only(Measured, events)
    (row,) = events[-1].rows
    assert measured.recording.name == row.name == "training"
    assert row.seconds == measured.recording.seconds
    assert 0 < row.data_wait_share < 1
    assert sum(epoch.seconds for epoch in values_of(events).epochs) < row.seconds


def test_progress_counts_every_step_and_ends_with_no_time_left(whole_run):
    progress = only(Progressed, whole_run[0])
    done = [event.done for event in progress]
    assert done == sorted(set(done))
    assert (progress[-1].done, progress[-1].total, progress[-1].seconds_left) == (20, 20, 0)


def test_accuracy_is_counted_from_ds_own_scores(meter, monkeypatch):
    real = torch.ones(128, 1)
    real[:32] = -1  # a quarter of the real pictures are taken for fakes
    fake = -torch.ones(128, 1)
    fake[:64] = 1  # and half of the fakes for real

    def step(gan, _real, *, on_scores):
        on_scores(real, fake)
        return torch.tensor(1.0), torch.tensor(1.0)

    monkeypatch.setattr(train_gan, "train_step", step)
    events = list(run(SETTINGS, context(meter)))
    for told in (*only(Scored, events), *values_of(events).epochs):
        assert (told.accuracy_real, told.accuracy_fake) == (0.75, 0.5)


def test_a_paused_run_stands_still_and_ends_as_if_it_had_not_been(whole_run, meter, tmp_path):
    asked = threading.Event()
    resume = threading.Timer(0.5, asked.clear)
    events = []
    for event in run(SETTINGS, context(meter, paused=asked.is_set, keep=tmp_path)):
        events.append(event)
        if isinstance(event, Scored) and not asked.is_set() and not only(Paused, events):
            asked.set()
            resume.start()
    resume.join()
    assert [event.paused for event in only(Paused, events)] == [True, False]
    assert losses(events) == losses(whole_run[0])
    assert same_networks(keeping.load(tmp_path, CPU), keeping.load(whole_run[1], CPU))


@pytest.mark.usefixtures("idle_steps")
def test_the_time_of_a_pause_is_not_the_trainings(meter):
    asked = threading.Event()
    resume = threading.Timer(1.0, asked.clear)
    events = []
    for event in run(SETTINGS, context(meter, paused=asked.is_set)):
        events.append(event)
        if isinstance(event, Scored) and not only(Paused, events) and not asked.is_set():
            asked.set()
            resume.start()
    resume.join()
    row = events[-1].rows[0]
    trained = sum(epoch.seconds for epoch in values_of(events).epochs)
    assert row.seconds - trained > 0.9


@pytest.mark.usefixtures("idle_steps")
def test_finishing_in_the_middle_of_an_epoch_keeps_what_there_is(meter, tmp_path):
    asked = threading.Event()
    events = []
    for event in run(SETTINGS, context(meter, finishing=asked.is_set, keep=tmp_path)):
        events.append(event)
        if isinstance(event, Scored) and event.step > STEPS:
            asked.set()
    values = values_of(events)
    assert values.stopped_early
    assert values.kept
    assert STEPS < values.steps < 2 * STEPS
    assert [epoch.epoch for epoch in values.epochs] == [1, 2]
    assert {"strip", "animation"} < {event.name for event in only(Drawn, events)}
    assert len(losses(events)) == values.steps
    keeping.load(tmp_path, CPU)


def test_finishing_before_the_first_step_is_a_result_without_epochs(meter, tmp_path):
    values = values_of(list(run(SETTINGS, context(meter, finishing=lambda: True, keep=tmp_path))))
    assert (values.epochs, values.steps, values.kept) == ((), 0, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("idle_steps")
def test_a_stop_ends_the_run_at_the_next_step_and_keeps_nothing(meter, tmp_path):
    before = traces()
    asked = threading.Event()
    events = []
    for event in run(SETTINGS, context(meter, stopped=asked.is_set, keep=tmp_path)):
        events.append(event)
        if isinstance(event, Scored):
            asked.set()
    assert events[-1] == Stopped()
    assert len(only(Scored, events)) == 1
    assert not only(Result, events)
    assert list(tmp_path.iterdir()) == []
    assert traces() == before
    assert meter.current_section is None


@pytest.mark.usefixtures("idle_steps")
def test_a_closed_run_leaves_no_process_behind(meter):
    before = traces()
    with closing(run(SETTINGS, context(meter))) as events:
        while not isinstance(next(events), Scored):
            pass
        assert traces() != before
    assert traces() == before
    assert meter.current_section is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run_with_the_result_so_far(
    value, meter, monkeypatch, tmp_path
):
    taken = []

    def step(gan, real, *, on_scores):
        taken.append(1)
        on_scores(torch.ones(128, 1), torch.ones(128, 1))
        return torch.tensor(1.0), torch.tensor(value if len(taken) >= 13 else 1.0)

    monkeypatch.setattr(train_gan, "train_step", step)
    keeping.save(Gan(CPU), tmp_path)
    before = (tmp_path / keeping.FILE).read_bytes()
    events = list(run(SETTINGS, context(meter, keep=tmp_path)))
    values = values_of(events)
    assert values.trouble == "nan"
    assert not values.stopped_early
    assert 13 <= values.steps < 2 * STEPS
    assert len(values.epochs) == 2
    assert [step for step, _, _ in losses(events)] == list(range(1, 13))
    assert not values.kept
    assert (tmp_path / keeping.FILE).read_bytes() == before, "an older good GAN stays"
    assert np.isfinite(
        [value for event in only(Scored, events) for value in event_floats(event)]
    ).all()


def event_floats(event):
    return [value for value in msgspec.structs.astuple(event) if isinstance(value, float)]


@pytest.mark.usefixtures("idle_steps")
def test_a_full_disk_costs_the_networks_but_not_the_result(meter, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    values = values_of(list(run(SETTINGS, context(meter, keep=tmp_path / "file"))))
    assert len(values.epochs) == 2
    assert not values.kept


def look(readable=0.5, seen=9, counts=(8, 8, 8, 8, 8, 8, 8, 8, 0, 0), variety=0.36):
    return Look(Score(readable=readable, digits_seen=seen, counts=counts), variety)


CONTEST = [0.7] * 400
ONE_DIGIT = (60, 1, 1, 1, 1, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("losses_d", "looks", "expected"),
    [
        (CONTEST, [look()] * 5, None),
        (CONTEST, [look(0.1, 2, (7, 6, 0, 0, 0, 0, 0, 0, 0, 0))] * 5, None),
        (CONTEST, [look(seen=2, counts=(30, 34, 0, 0, 0, 0, 0, 0, 0, 0))] * 5, "collapsed"),
        (CONTEST, [look(seen=5, counts=ONE_DIGIT)] * 5, "collapsed"),
        (CONTEST, [look(0.0, 0, (0,) * 10, variety=0.02)] * 5, "collapsed"),
        (CONTEST, [look(variety=0.02)] * 2 + [look()], None),
        (CONTEST[:100], [look(variety=0.02)] * 5, None),
        ([0.7] * 300 + [0.001] * 100, [look()] * 5, "d_won"),
        ([0.001] * 300 + [0.7] * 100, [look()] * 5, None),
    ],
    ids=[
        "a live contest",
        "too little readable to tell",
        "two digits only",
        "one digit takes almost all",
        "all pictures alike and none readable",
        "it has recovered",
        "too early to tell",
        "d is never fooled any more",
        "d was ahead at first",
    ],
)
def test_trouble_is_told_from_a_hard_start(losses_d, looks, expected):
    assert trouble_in(losses_d, looks) == expected


@pytest.mark.gpu
def test_on_a_gpu_the_epochs_are_measured_and_the_memory_is_given_back(tmp_path):
    from core.labs.device import chosen_device

    name, uuid = chosen_device("cuda:0")
    with open_meter(gpu_uuid=uuid, period_seconds=0.1) as meter:
        events = list(run(SETTINGS, context(meter, device=name, keep=tmp_path)))
    values = values_of(events)
    assert values.device_name == torch.cuda.get_device_name(0)
    assert len(losses(events)) == 2 * STEPS
    assert np.isfinite(losses(events)).all()
    assert events[-1].rows[0].own_vram_mib_max > 0
    assert torch.cuda.memory_reserved(0) < 100 * 2**20, "only what CUDA's libraries keep"
    assert not keeping.load(tmp_path, torch.device(name)).generator.training
