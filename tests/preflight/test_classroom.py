"""The gates of the classroom machine: each is passed by this machine, and fails what is broken."""

from __future__ import annotations

import base64
import hashlib
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from core.data.digits import Digits, load_digits
from core.labs.dcgan import Gan
from core.models.classifier_files import RESNET_FILE
from core.preflight.classroom import training
from core.preflight.classroom.bench import ClassroomBench
from core.preflight.gate import Colour
from core.preflight.suites import CLASSROOM
from core.safety.prompts import BUILT_IN
from core.settings import LabSettings
from core.telemetry.meter import open_meter
from core.telemetry.readings import Gpu
from core.texts import LANGUAGES, texts
from core.ui import part2, part2b
from tests.preflight.classroom_lab import bench_of, class_digits, outcome, value

GREEN, AMBER, RED = Colour.GREEN, Colour.AMBER, Colour.RED


def bench_with(folder: Path, make_gan) -> ClassroomBench:
    """A bench that trains such networks, with few pictures a step."""
    bench = bench_of(folder)
    bench.batch = 16
    bench.make_gan = make_gan
    return bench


def sound() -> Gan:
    return Gan(torch.device("cpu"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_gate_says_what_it_looks_at_and_what_is_lost_without_it(language):
    for gate in CLASSROOM.gates:
        for word in ("title", "checks", "skipped"):
            assert texts(language).has(f"gate.{gate.id}.{word}")


# Packages


def test_the_packages_of_this_machine_are_found(tmp_path):
    ended = outcome("packages", bench_of(tmp_path))
    assert ended.colour is not RED
    assert value(ended, "classroom.packages.needed") > 50  # those that packages need in turn, too
    assert value(ended, "classroom.packages.pynvml") is True


@pytest.mark.parametrize(
    ("direct", "lock", "colour", "key"),
    [
        ("numpy\nno-such-package>=1  # why", "numpy==2.0", RED, "red_missing"),
        ("numpy>=999", "numpy==999.0", RED, "red_outside"),
        ("numpy", "numpy==0.1", AMBER, "amber_other"),
        ("numpy", "what is this?", RED, "red_file"),
        ("numpy", None, RED, "red_file"),
    ],
)
def test_packages_unlike_the_lock_are_told(tmp_path, direct, lock, colour, key):
    bench = bench_of(tmp_path)
    bench.direct, bench.lock = tmp_path / "requirements.txt", tmp_path / "requirements.lock"
    bench.direct.write_text(direct)
    if lock is not None:
        bench.lock.write_text(lock)
    ended = outcome("packages", bench)
    assert (ended.colour, ended.message.key) == (colour, f"classroom.packages.{key}")


def installed(site: Path, name: str, record: str = "") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(record)


@pytest.mark.parametrize(
    ("now", "colour", "key"),
    [("its own", AMBER, "amber_pynvml"), ("another's", RED, "red_pynvml")],
)
def test_the_other_package_called_pynvml_is_found_out(tmp_path, now, colour, key):
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"its own").digest()).decode().rstrip("=")
    installed(tmp_path / "site", "nvidia_ml_py", f"pynvml.py,sha256={digest},7\n")
    installed(tmp_path / "site", "pynvml")
    (tmp_path / "site" / "pynvml.py").write_text(now)
    bench = bench_of(tmp_path)
    bench.site = [str(tmp_path / "site")]
    bench.direct = bench.lock = tmp_path / "both"
    bench.lock.write_text("nvidia-ml-py==1.0")
    ended = outcome("packages", bench)
    assert (ended.colour, ended.message.key) == (colour, f"classroom.packages.{key}")


# The machine


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a usable card")
def test_a_machine_without_a_card_is_amber_and_one_whose_card_pytorch_cannot_use_is_red(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    none = outcome("device", bench_of(tmp_path, machine={"gpus": (), "gpu_absence": None}))
    assert (none.colour, none.message.key) == (AMBER, "classroom.device.amber_cpu")
    assert value(none, "classroom.device.error") < 1e-4
    card = {"gpus": (Gpu(uuid="GPU-1", name="A card"),)}
    blind = outcome("device", bench_of(tmp_path, machine=card))
    assert (blind.colour, blind.message.key) == (RED, "classroom.device.red_blind")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as the engine hides cards on purpose
    hidden = outcome("device", bench_of(tmp_path, machine=card))
    assert (hidden.colour, hidden.message.key) == (AMBER, "classroom.device.amber_unused")


def test_a_meter_that_runs_passes_and_one_that_has_stopped_is_red(tmp_path):
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        bench = bench_of(tmp_path, meter=meter, sample_seconds=0.05)
        ended = outcome("meter", bench)
        assert ended.colour is not RED
        assert value(ended, "classroom.meter.period") == pytest.approx(50, abs=25)
        meter.close()
        ended = outcome("meter", bench)
    assert (ended.colour, ended.message.key) == (RED, "classroom.meter.red_still")


def test_a_meter_slower_than_its_period_is_red(tmp_path):
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        ended = outcome("meter", bench_of(tmp_path, meter=meter, sample_seconds=0.08))
    assert (ended.colour, ended.message.key) == (RED, "classroom.meter.red_slow")


def test_room_is_looked_for_where_the_lab_writes(tmp_path):
    bench = bench_of(tmp_path)
    bench.ram_mib = bench.ram_wished_mib = bench.disk_mib = bench.disk_wished_mib = 1.0
    assert outcome("space", bench).colour is GREEN
    bench.disk_mib = 1e12
    assert outcome("space", bench).message.key == "classroom.space.red_disk"
    (tmp_path / "file").write_text("no folder")
    ended = outcome("space", bench_of(tmp_path / "file" / "cache"))
    assert (ended.colour, ended.message.key) == (RED, "classroom.space.red_folder")


# Data and models


def test_whole_digits_are_green_and_a_single_changed_pixel_is_red(tmp_path):
    assert outcome("digits", bench_of(tmp_path)).colour is GREEN
    images = class_digits().images.copy()
    images[30_000, 14, 14] ^= 1
    garbled = Digits(images, class_digits().labels, class_digits().source)
    ended = outcome("digits", bench_of(tmp_path, digits=lambda: garbled))
    assert (ended.colour, ended.message.key) == (RED, "classroom.digits.red_checksum")
    few = Digits(images[:100], class_digits().labels[:100], class_digits().source)
    ended = outcome("digits", bench_of(tmp_path, digits=lambda: few))
    assert (ended.colour, ended.message.key) == (RED, "classroom.digits.red_shape")


def test_a_garbled_file_of_the_teachers_own_is_told(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(b"no digits at all")
    class_digits()  # prepared by now, so that the next line finds them
    found = load_digits(replace(LabSettings.load(), data_dir=tmp_path))
    ended = outcome("digits", bench_of(tmp_path, digits=lambda: found))
    assert (ended.colour, ended.message.key) == (AMBER, "problem.digits_header")


def test_the_models_that_come_with_the_lab_are_known(tmp_path):
    ended = outcome("models", bench_of(tmp_path))
    assert ended.colour is not RED
    assert value(ended, "classroom.models.generator") == 534_081
    assert value(ended, "classroom.models.discriminator") == 138_817
    assert value(ended, "classroom.models.cat") == "Egyptian cat"


def test_a_damaged_classifier_is_red(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / RESNET_FILE).write_bytes(b"no weights")
    ended = outcome("models", bench_of(tmp_path))
    assert (ended.colour, ended.message.key) == (RED, "problem.classifier_damaged")


def test_an_image_model_that_is_there_but_not_whole_is_red(tmp_path):
    (tmp_path / "model_index.json").write_text("{}")
    ended = outcome("models", bench_of(tmp_path, mini_turbo_dir=tmp_path))
    assert (ended.colour, ended.message.key) == (RED, "problem.image_model_broken")


def test_a_network_of_another_size_is_red(tmp_path):
    def wider() -> Gan:
        gan = Gan(torch.device("cpu"))
        gan.generator.append(nn.Conv2d(1, 1, 1))
        return gan

    ended = outcome("models", bench_with(tmp_path, wider))
    assert (ended.colour, ended.message.key) == (RED, "classroom.models.red_gan")


def test_a_rule_that_is_gone_is_red_and_a_teachers_own_is_amber(tmp_path):
    assert outcome("prompts", bench_of(tmp_path)).colour is GREEN
    bench = bench_of(tmp_path)
    bench.rules = tmp_path / "rules.toml"
    bench.rules.write_text(BUILT_IN.read_text("utf-8").replace('"trump", ', ""), "utf-8")
    ended = outcome("prompts", bench)
    assert (ended.colour, ended.message.key) == (RED, "classroom.prompts.red")
    own = tmp_path / "own.toml"
    own.write_text('allow = ["passport on a desk"]', "utf-8")
    ended = outcome("prompts", bench_of(tmp_path, prompt_rules=own))
    assert (ended.colour, ended.message.key) == (AMBER, "classroom.prompts.amber")
    own.write_text("allow = [", "utf-8")
    ended = outcome("prompts", bench_of(tmp_path, prompt_rules=own))
    assert (ended.colour, ended.message.key) == (AMBER, "problem.prompt_rules_syntax")


# Training


def frozen() -> Gan:
    gan = Gan(torch.device("cpu"))
    gan.discriminator_adam.param_groups[0]["lr"] = 0.0
    return gan


def numberless() -> Gan:
    gan = Gan(torch.device("cpu"))
    next(gan.generator.parameters()).data.fill_(float("nan"))
    return gan


def cut_off() -> Gan:
    """A generator whose pictures do not depend on it: no gradient comes back to it."""
    gan = Gan(torch.device("cpu"))
    gan.generator.append(Forgetful())
    return gan


class Forgetful(nn.Module):
    def forward(self, pictures):
        return pictures * 0


@pytest.mark.parametrize(
    ("make_gan", "key"),
    [(frozen, "red_still"), (numberless, "red_loss"), (cut_off, "red_gradient")],
)
def test_a_step_that_does_not_teach_is_red(tmp_path, make_gan, key):
    ended = outcome("step", bench_with(tmp_path, make_gan))
    assert (ended.colour, ended.message.key) == (RED, f"classroom.step.{key}")


class Tiring(nn.Module):
    """Paler with every batch, by a count that no `state_dict` holds."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0

    def forward(self, pictures):
        self.batches += 1
        return pictures * 0.9**self.batches


class Whim(nn.Module):
    """Random numbers from elsewhere: no seed of PyTorch's decides them."""

    def __init__(self) -> None:
        super().__init__()
        self.whim = random.SystemRandom()

    def forward(self, pictures):
        return pictures * self.whim.random()


def with_layer(layer: type[nn.Module]):
    def make() -> Gan:
        gan = Gan(torch.device("cpu"))
        gan.generator.append(layer())
        return gan

    return make


def test_a_run_is_restored_to_the_bit_unless_something_is_not_saved(tmp_path):
    assert outcome("step", bench_with(tmp_path, sound)).colour is GREEN
    assert outcome("restore", bench_with(tmp_path, sound)).colour is GREEN
    ended = outcome("restore", bench_with(tmp_path, with_layer(Tiring)))
    assert (ended.colour, ended.message.key) == (RED, "classroom.restore.red_later")


def test_a_seed_decides_the_picture_or_the_gate_is_red(tmp_path):
    assert outcome("seed", bench_with(tmp_path, sound)).colour is GREEN
    ended = outcome("seed", bench_with(tmp_path, with_layer(Whim)))
    assert (ended.colour, ended.message.key) == (RED, "classroom.seed.red_digits")
    ended = outcome("seed", bench_with(tmp_path, with_layer(Forgetful)))
    assert (ended.colour, ended.message.key) == (RED, "classroom.seed.red_alike")


def test_a_lesson_too_short_for_one_student_is_red(tmp_path):
    bench = bench_with(tmp_path, sound)
    bench.measured_seconds, bench.measured_steps, bench.warm_up_steps = 0.0, 1, 0
    bench.lesson_minutes = 0.1
    ended = outcome("throughput", bench)
    assert (ended.colour, ended.message.key) == (RED, "classroom.throughput.red")
    assert value(ended, "classroom.throughput.queue") == 0


def test_more_students_than_the_queue_serves_are_amber_and_few_are_green(tmp_path):
    for students, lesson, colour in ((200, 1.0, AMBER), (1, 1_000.0, GREEN)):
        bench = bench_of(tmp_path, students=students)
        bench.lesson_minutes, bench.ram_mib = lesson * 60, 0.0
        pace = training.Pace(0.2, 0.2, 0.3, 0.2, 0.1, None)
        bench_parts = training.parts_seconds(bench, pace)
        assert bench_parts["part3"] is None
        assert np.isclose(bench_parts["part1"], 117 * 0.5)
        found = training.Findings()
        whole = sum(seconds or 0.0 for seconds in bench_parts.values())
        training._judge_class(bench, bench_parts, whole, found)
        assert found.judgement("classroom.throughput.green").colour is colour


def test_the_estimate_counts_what_the_pages_offer_where_there_is_no_card():
    assert (training.SHORT_EPOCH, training.CPU_IMAGES) == (part2.SHORT_EPOCH, part2b.CPU_IMAGES)


@pytest.mark.gpu
@pytest.mark.parametrize("gate", ["device", "space", "models", "step", "restore", "seed"])
def test_a_card_passes_as_well(tmp_path, gate):
    assert outcome(gate, bench_of(tmp_path, device="cuda:0")).colour is not RED
