"""Training: one step that really teaches, a state that is restored whole, seeds, and the pace."""

from __future__ import annotations

import contextlib
import io
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from core.activities import FeedGpuSettings, TrainGanSettings
from core.activities.attack import AUTO, MAP_STRENGTHS, MAP_TARGETS, STRENGTHS
from core.activities.base import Lane
from core.activities.feed_gpu import REPEATS
from core.activities.make_images import EXAMPLE
from core.activities.soc import SteadyLoadSettings
from core.data.photos import SAMPLES
from core.events import AnyEvent, Progressed
from core.labs import keeping, pictures
from core.labs.classifying import original
from core.labs.dcgan import BATCH, Gan, train_step
from core.labs.device import cpu_threads_restored, wait_for
from core.labs.draw_digits import noises
from core.labs.feed_gpu import ENOUGH_SECONDS, chosen_ways
from core.labs.loading import Loader
from core.models import classifiers
from core.models.image_models import ImageModel, default_image_model, image_models
from core.preflight.classroom.bench import ClassroomBench, same_sums
from core.preflight.classroom.data import CAT
from core.preflight.classroom.findings import Findings
from core.preflight.classroom.system import image_model_mib, lane_mib
from core.preflight.gate import Cell, Judging
from core.problems import Problem

# One step

UNDECIDED_D, UNDECIDED_G = 2 * math.log(2), math.log(2)  # losses of a D that knows nothing yet
NEAR = 0.6  # how far the first losses may be from these


def step(bench: ClassroomBench) -> Judging:
    """One step of the lab's own training on real digits."""
    yield Progressed(0, 2)
    found = Findings()
    gan = bench.seeded_gan(0)
    before = {name: tensor.clone() for name, tensor in _state(gan).items()}
    (real,) = bench.batches(1)
    yield Progressed(1, 2)
    loss_d, loss_g = (float(loss) for loss in train_step(gan, real))
    after = _state(gan)

    found.figure("classroom.step.loss_d", loss_d, "", UNDECIDED_D)
    found.figure("classroom.step.loss_g", loss_g, "", UNDECIDED_G)
    rows: list[tuple[Cell, ...]] = []
    still, without = [], []
    for network, name in ((gan.discriminator, "discriminator"), (gan.generator, "generator")):
        parameters = dict(network.named_parameters())
        changes = [
            float((after[f"{name}/{key}"] - before[f"{name}/{key}"]).abs().max())
            for key in parameters
        ]
        gradient = math.sqrt(
            sum(
                float(one.grad.square().sum())
                for one in parameters.values()
                if one.grad is not None
            )
        )
        moved = sum(change > 0 for change in changes)
        rows.append((f"classroom.step.{name}", len(parameters), moved, max(changes), gradient))
        if moved < len(parameters):
            still.append(f"classroom.step.{name}")
        if not (gradient > 0 and math.isfinite(gradient)):
            without.append(f"classroom.step.{name}")
    found.table(
        "classroom.step.table",
        (
            "classroom.column.network",
            "classroom.column.tensors",
            "classroom.column.moved",
            "classroom.column.change",
            "classroom.column.gradient",
        ),
        rows,
    )
    if not (math.isfinite(loss_d) and math.isfinite(loss_g)):
        found.red("classroom.step.red_loss", "classroom.hint.device")
    if without:
        found.red("classroom.step.red_gradient", "classroom.hint.device", network=without[0])
    if still:
        found.red("classroom.step.red_still", "classroom.hint.device", network=still[0])
    if abs(loss_d - UNDECIDED_D) > NEAR or abs(loss_g - UNDECIDED_G) > NEAR:
        found.amber("classroom.step.amber", "classroom.hint.device", loss_d=loss_d, loss_g=loss_g)
    return found.judgement("classroom.step.green", loss_d=loss_d, loss_g=loss_g)


def _state(gan: Gan) -> dict[str, Tensor]:
    """Every tensor of both networks, by name; the tensors themselves."""
    networks = (("generator", gan.generator), ("discriminator", gan.discriminator))
    return {
        f"{name}/{key}": tensor
        for name, network in networks
        for key, tensor in network.state_dict().items()
    }


# Save and restore

STEPS = 2  # before and after the save


def restore(bench: ClassroomBench) -> Judging:
    """A run that goes on, beside one that was saved, thrown away, restored, and goes on."""
    yield Progressed(0, 4)
    found = Findings()
    batches = bench.batches(2 * STEPS)
    with same_sums():
        gan, draws = bench.seeded_gan(0), torch.Generator(bench.device).manual_seed(0)
        _steps(bench, gan, batches[:STEPS], draws)
        yield Progressed(1, 4)
        saved = _packed(gan, draws)
        at_save = _copied(gan)

        other, other_draws = bench.seeded_gan(1), torch.Generator(bench.device).manual_seed(1)
        _unpacked(saved, other, other_draws)
        differing = _differing(at_save, _copied(other))
        same_draws = torch.equal(draws.get_state(), other_draws.get_state())
        yield Progressed(2, 4)
        losses = _steps(bench, gan, batches[STEPS:], draws)
        again = _steps(bench, other, batches[STEPS:], other_draws)
    yield Progressed(3, 4)
    later = _differing(_copied(gan), _copied(other))
    kept = _kept_differing(gan, bench.device)

    found.figure("classroom.restore.tensors", len(at_save))
    found.figure("classroom.restore.size", len(saved) / 2**20, "mib")
    found.figure("classroom.restore.differing", len(differing), "", 0)
    found.figure("classroom.restore.draws", same_draws, "", True)
    found.figure("classroom.restore.losses", losses == again, "", True)
    found.figure("classroom.restore.later", len(later), "", 0)
    found.figure("classroom.restore.kept", len(kept), "", 0)
    if differing or not same_draws:
        name = differing[0] if differing else "generator state"
        found.red("classroom.restore.red_state", "classroom.hint.device", name=name)
    if later or losses != again:
        found.red("classroom.restore.red_later", "classroom.hint.device", steps=STEPS)
    if kept:
        found.red("classroom.restore.red_kept", "classroom.hint.checkout", name=kept[0])
    return found.judgement("classroom.restore.green", count=len(at_save), steps=STEPS)


def _steps(
    bench: ClassroomBench, gan: Gan, batches: Tensor, draws: torch.Generator
) -> list[tuple[float, float]]:
    """Both losses of each step."""
    losses = [train_step(gan, real, noise=bench.noise(draws)) for real in batches]
    return [(float(loss_d), float(loss_g)) for loss_d, loss_g in losses]


def _whole(gan: Gan) -> dict[str, Any]:
    """All that a run has to be restored from, but for the generator of its noise."""
    return {
        "generator": gan.generator.state_dict(),
        "discriminator": gan.discriminator.state_dict(),
        "generator_adam": gan.generator_adam.state_dict(),
        "discriminator_adam": gan.discriminator_adam.state_dict(),
    }


def _packed(gan: Gan, draws: torch.Generator) -> bytes:
    file = io.BytesIO()
    torch.save({**_whole(gan), "draws": draws.get_state()}, file)
    return file.getvalue()


def _unpacked(saved: bytes, gan: Gan, draws: torch.Generator) -> None:
    state = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
    gan.generator.load_state_dict(state["generator"])
    gan.discriminator.load_state_dict(state["discriminator"])
    gan.generator_adam.load_state_dict(state["generator_adam"])
    gan.discriminator_adam.load_state_dict(state["discriminator_adam"])
    draws.set_state(state["draws"])


def _copied(gan: Gan) -> dict[str, Tensor]:
    """Every tensor of networks and optimisers by name, as copies on the CPU."""
    tensors = {f"{name}": tensor for name, tensor in _state(gan).items()}
    for name, adam in (
        ("generator_adam", gan.generator_adam),
        ("discriminator_adam", gan.discriminator_adam),
    ):
        for number, memory in adam.state_dict()["state"].items():
            tensors |= {f"{name}/{number}/{key}": value for key, value in memory.items()}
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def _differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Names of tensors that are not the same to the bit."""
    return [
        name
        for name in sorted(one.keys() | other.keys())
        if name not in one or name not in other or not torch.equal(one[name], other[name])
    ]


def _kept_differing(gan: Gan, device: torch.device) -> list[str]:
    """What differs after the way that a student's networks take to the disk and back."""
    with tempfile.TemporaryDirectory() as folder:
        keeping.save(gan, Path(folder))
        back = keeping.load(Path(folder), device)
    one, other = ({n: t.cpu() for n, t in _state(which).items()} for which in (gan, back))
    return _differing(one, other)


# The same seed twice

SEED, OTHER_SEED = 0, 1
SEED_STEPS = 3
DRAWN = 8  # digits


def seed(bench: ClassroomBench) -> Judging:
    """The same seed twice, and another one: digits after some training, and a picture of words."""
    found = Findings()
    drawn: list[bytes] = []
    for done, number in enumerate((SEED, SEED, OTHER_SEED)):
        yield Progressed(done, 4)
        drawn.append(_digits_of(bench, number))
    found.figure("classroom.seed.digits", drawn[0] == drawn[1], "", True)
    found.figure("classroom.seed.other", drawn[0] != drawn[2], "", True)
    found.picture("classroom.seed.picture", drawn[0])
    if drawn[0] != drawn[1]:
        found.red("classroom.seed.red_digits", "classroom.hint.seed", seed=SEED)
    if drawn[0] == drawn[2]:
        found.red("classroom.seed.red_alike", "classroom.hint.seed")
    yield Progressed(3, 4)
    model = _image_model(bench)
    if model is not None:
        with _drawing(model, bench.device) as draw:
            one, again, other = draw(SEED), draw(SEED), draw(OTHER_SEED)
        found.figure("classroom.seed.words", one == again, "", True)
        if one != again or one == other:
            found.red("classroom.seed.red_words", "classroom.hint.seed", model=model.id)
    return found.judgement("classroom.seed.green", seed=SEED)


def _digits_of(bench: ClassroomBench, number: int) -> bytes:
    """A picture that a generator of this seed draws after a few steps."""
    with same_sums():
        gan = bench.seeded_gan(number)
        draws = torch.Generator(bench.device).manual_seed(number)
        _steps(bench, gan, bench.batches(SEED_STEPS), draws)
        with torch.inference_mode():
            digits = gan.generator.eval()(noises(DRAWN, number).to(bench.device))
    return pictures.png(pictures.grid(pictures.grey(digits), columns=DRAWN, scale=2))


def _image_model(bench: ClassroomBench) -> ImageModel | None:
    """The model that draws from words, where one is here and does it in seconds."""
    name = default_image_model(bench.lab)
    model = image_models(bench.lab)[name] if name else None
    if model is not None and not bench.on_gpu and model.pixels > 128:  # minutes on two cores
        return None
    return model


@contextlib.contextmanager
def _drawing(
    model: ImageModel, device: torch.device
) -> Generator[Callable[[int], bytes], None, None]:
    """A way to draw the example with a seed; a model loaded for it goes again afterwards."""
    # Only here: diffusers takes seconds to import.
    from core.labs.image_pipeline import Order, owner

    was_there = owner().holds(model, device)
    try:
        pipeline = owner().pipeline(model, device)
        yield lambda number: pipeline.draw([Order(EXAMPLE, number)]).tobytes()
    finally:
        if not was_there:
            owner().drop()


# Pace

MOST = 400  # measured steps
SHORT_EPOCH = 6_400  # pictures; the page of Part 2 begins with so many where there is no GPU
CPU_IMAGES = 2_560  # and that of Part 2b
KERNELS_SECONDS = 40.0  # that the leanest way waits for its kernels the first time, about
PICTURES = 24  # of Part 3: eight, one to warm up, one taken apart, some of the student's own
# Of Part 4, in gradients of one picture: the attack, the sweep and its map, the defences with those
# who know them, and the way from one network to others. The last two are what they usually take.
GRADIENTS = 20 + 10 * (len(STRENGTHS) + len(MAP_TARGETS) * len(MAP_STRENGTHS)) + 400 + 80
STUDENT_MIB = 20.0  # of the server's memory that one student's open page may take

Work = Generator[AnyEvent, None, float]  # returns seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """What was measured here, in seconds."""

    loader: float  # a step whose digits come one by one
    resident: float  # a step whose digits lie on the device
    first: float  # a step on the slower side of Part 1
    second: float  # and on the faster one
    gradient: float | None  # one step of an attack; None: no classifier is here
    picture: float | None  # one picture from words; None: no model for it is here


def throughput(bench: ClassroomBench) -> Judging:
    """Measured rates, and what they make of a lesson."""
    found = Findings()
    pace = yield from _pace(bench)
    found.figure("classroom.throughput.loader", BATCH / pace.loader, "classroom.unit.images_second")
    found.figure(
        "classroom.throughput.resident", BATCH / pace.resident, "classroom.unit.images_second"
    )
    found.figure("classroom.throughput.step", 1000 * pace.resident, "ms")
    if pace.gradient is not None:
        found.figure("classroom.throughput.gradient", 1000 * pace.gradient, "ms")
    if pace.picture is not None:
        found.figure("classroom.throughput.picture", pace.picture, "seconds")

    parts = parts_seconds(bench, pace)
    rows: list[tuple[Cell, ...]] = [
        (f"classroom.part.{name}", None if seconds is None else round(seconds / 60, 1))
        for name, seconds in parts.items()
    ]
    whole = sum(seconds for seconds in parts.values() if seconds is not None)
    rows.append(("classroom.part.whole", round(whole / 60, 1)))
    found.table(
        "classroom.throughput.table", ("classroom.column.part", "classroom.column.minutes"), rows
    )
    _judge_class(bench, parts, whole, found)
    return found.judgement(
        "classroom.throughput.green", minutes=whole / 60, students=bench.settings.students
    )


def _judge_class(
    bench: ClassroomBench, parts: dict[str, float | None], whole: float, found: Findings
) -> None:
    """How many students get through in one lesson, and how many the memory holds."""
    lesson = 60 * bench.lesson_minutes
    devices = _devices(bench)
    trains, draws = (
        sum(parts[name] or 0.0 for name in names)
        for names in (("part1", "part2", "part2b", "part5b"), ("part3", "part4"))
    )
    # Two workers on a card go side by side; on a CPU they share its cores.
    busy = max(trains, draws) if bench.on_gpu else trains + draws
    queue = int(lesson * devices / busy)
    room = max(0.0, psutil.virtual_memory().available / 2**20 - bench.ram_mib)
    memory = int(room / STUDENT_MIB)
    students = bench.settings.students
    found.figure("classroom.throughput.whole", whole, "seconds", lesson)
    found.figure("classroom.throughput.devices", devices)
    found.figure("classroom.throughput.train_lane", trains, "seconds")
    found.figure("classroom.throughput.draw_lane", draws, "seconds")
    found.figure("classroom.throughput.queue", queue, "", students)
    found.figure("classroom.throughput.memory", memory, "", students)
    if bench.on_gpu:
        needed = lane_mib(Lane.TRAIN) + lane_mib(Lane.INFER) + image_model_mib(bench)
        total = torch.cuda.get_device_properties(bench.device).total_memory / 2**20
        found.figure("classroom.throughput.card", needed, "mib", total)
    if queue < 1:
        found.red(
            "classroom.throughput.red",
            "classroom.hint.slow",
            seconds=busy,
            lesson=lesson,
        )
    if memory < students:
        found.amber(
            "classroom.throughput.amber_memory",
            "classroom.hint.ram",
            fit=memory,
            students=students,
            free=room,
        )
    if queue < students:
        found.amber(
            "classroom.throughput.amber_queue", "classroom.hint.slow", fit=queue, students=students
        )


def _devices(bench: ClassroomBench) -> int:
    """Cards that the settings let the class use; the CPU counts as one."""
    if not bench.on_gpu:
        return 1
    cards = [gpu.uuid for gpu in bench.context.machine.gpus]
    if bench.lab.devices.startswith(("GPU-", "MIG-")):
        cards = [uuid for uuid in cards if uuid in bench.lab.devices.split(",")]
    return max(1, len(cards))


def parts_seconds(bench: ClassroomBench, pace: Pace) -> dict[str, float | None]:
    """Seconds of computing for one student alone who does every part once, as the pages offer it.

    None: that part has no model here. Parts 5 and 6 compute nothing.
    """
    images = TrainGanSettings().images_per_epoch if bench.on_gpu else SHORT_EPOCH
    return {
        "part1": _part_1(bench, pace),
        "part2": TrainGanSettings().epochs * (images // BATCH) * pace.loader,
        "part2b": _part_2b(bench, pace),
        "part3": None if pace.picture is None else PICTURES * pace.picture,
        "part4": None if pace.gradient is None else GRADIENTS * pace.gradient,
        "part5b": float(SteadyLoadSettings().seconds),
    }


def _part_1(bench: ClassroomBench, pace: Pace) -> float:
    """The whole job on both sides, then the computing alone: 17 steps, 220 on a GPU."""
    first = (100 + 17) * pace.first
    if bench.on_gpu:
        return first + 100 * pace.loader + 220 * pace.second
    return first + (100 + 17) * pace.second


def _part_2b(bench: ClassroomBench, pace: Pace) -> float:
    """Every way once for the judge and up to three times for the clock.

    The two ways of a GPU are faster than the plain one; how much is what the part is about.
    """
    settings = FeedGpuSettings() if bench.on_gpu else FeedGpuSettings(images=CPU_IMAGES)
    ways = chosen_ways(settings, bench.device)
    fewest = settings.images // max(way.batch for way in ways)  # steps
    seconds = 0.0
    for way in ways:
        one = pace.loader if way.loader else pace.resident
        if not bench.on_gpu:
            one *= way.batch / BATCH
        a_pass = settings.images // way.batch * one
        seconds += fewest * one + a_pass * min(REPEATS, math.ceil(ENOUGH_SECONDS / a_pass))
    return seconds + (KERNELS_SECONDS if bench.on_gpu else 0.0)


def _pace(bench: ClassroomBench) -> Generator[AnyEvent, None, Pace]:
    yield Progressed(0, 5)
    loader = yield from _loader_step(bench)
    yield Progressed(1, 5)
    gan, batches = bench.seeded_gan(0), bench.batches(8)
    resident = yield from _timed(
        lambda number: train_step(gan, batches[number % len(batches)]), bench, bench.device
    )
    yield Progressed(2, 5)
    first, second = yield from _both_sides(bench, resident)
    yield Progressed(3, 5)
    gradient = yield from _gradient(bench)
    yield Progressed(4, 5)
    picture = yield from _picture(bench)
    return Pace(loader, resident, first, second, gradient, picture)


def _timed(
    work: Callable[[int], object],
    bench: ClassroomBench,
    device: torch.device,
    *,
    seconds: float | None = None,
) -> Work:
    """Median of `work(0)`, `work(1)`, ..., each waited for, until enough seconds were measured."""
    enough = bench.measured_seconds if seconds is None else seconds
    times: list[float] = []
    for number in range(bench.warm_up_steps + MOST):
        began = time.perf_counter()
        work(number)
        wait_for(device)
        times.append(time.perf_counter() - began)
        measured = times[bench.warm_up_steps :]
        if len(measured) >= bench.measured_steps and sum(measured) >= enough:
            break
        yield Progressed(number, MOST)
    return statistics.median(times[bench.warm_up_steps :])


def _loader_step(bench: ClassroomBench) -> Work:
    """A step as Part 2 takes it, the wait for its digits included."""
    gan = bench.seeded_gan(0)
    with Loader(bench.context.digits().images, seed=0, lasting=True) as batches:
        return (
            yield from _timed(
                lambda _: train_step(gan, next(batches).to(bench.device)), bench, bench.device
            )
        )


def _both_sides(
    bench: ClassroomBench, resident: float
) -> Generator[AnyEvent, None, tuple[float, float]]:
    """A step on each side of Part 1: CPU and GPU, or one CPU thread and all."""
    cpu = torch.device("cpu")
    with cpu_threads_restored():
        if not bench.on_gpu:
            torch.set_num_threads(1)
        torch.manual_seed(0)
        gan, batch = Gan(cpu), bench.batches(1)[0].to(cpu)
        first = yield from _timed(lambda _: train_step(gan, batch), bench, cpu, seconds=0.0)
    return first, resident


def _gradient(bench: ClassroomBench) -> Generator[AnyEvent, None, float | None]:
    """Belief and gradient of one picture, as every step of an attack takes them."""
    try:
        classifier = classifiers.load(AUTO, bench.device, bench.lab)
    except Problem:
        return None  # the gate "models" tells it
    picture = original(CAT, "squash", bench.context, bench.device)
    target = torch.tensor([SAMPLES[CAT].classes[1]], device=bench.device)

    def one(_: int) -> None:
        leaf = picture.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(classifier(leaf), target)
        torch.autograd.grad(loss, leaf)

    return (yield from _timed(one, bench, bench.device, seconds=bench.measured_seconds / 4))


def _picture(bench: ClassroomBench) -> Generator[AnyEvent, None, float | None]:
    model = _image_model(bench)
    if model is None:
        return None
    with _drawing(model, bench.device) as draw:
        return (yield from _timed(draw, bench, bench.device, seconds=bench.measured_seconds / 4))
