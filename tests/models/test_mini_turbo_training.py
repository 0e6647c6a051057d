"""The stages of the training at their smallest: each runs, writes, and is gone on with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from core.models.mini_turbo.bank import read_tokenizer, token_ids, tokenizer_for, write_captions
from core.models.mini_turbo.blocks import TINY, build_unet, build_vae
from core.models.mini_turbo.checker import Checker
from core.models.mini_turbo.diffusion import PURE, EulerDraw, Noise
from core.models.mini_turbo.obey import JudgeNetwork
from core.models.mini_turbo.plumbing import Clock, Learner, read_weights, write_weights
from core.models.mini_turbo.train import train
from core.models.mini_turbo.words import THINGS
from tests.models.tiny_training import CPU, HOW, made_up_material, tiny_run


def test_each_stage_writes_finite_half_precision_weights(trained: Path):
    for name in ("judge", "vae", "teacher", "text", "student"):
        state = load_file(trained / f"{name}-0.safetensors")
        floats = [value for value in state.values() if value.is_floating_point()]
        assert floats, name
        assert all(value.dtype == torch.float16 and value.isfinite().all() for value in floats)


def test_the_student_starts_as_the_teacher_and_moves_away_from_it(trained: Path):
    teacher, student = (read_weights(name, [trained]) for name in ("teacher", "student"))
    assert teacher.keys() == student.keys()
    changed = [name for name in teacher if not torch.equal(teacher[name], student[name])]
    assert changed
    far = max(float((teacher[name] - student[name]).abs().max()) for name in teacher)
    assert far < 0.1


def test_a_later_part_of_the_schedule_goes_on_from_the_weights_of_the_earlier_one(
    trained: Path, tmp_path: Path
):
    run = tiny_run(tmp_path, given=trained, begin=0.5, steps=1)
    with torch.random.fork_rng(devices=[]):
        train("teacher", run, made_up_material())
    before, after = (read_weights("teacher", [folder]) for folder in (trained, tmp_path))
    apart = max(float((before[name] - after[name]).abs().max()) for name in before)
    assert 0 <= apart < 0.01, "it began anew"
    assert (tmp_path / "teacher-0.safetensors").is_file()


def test_a_stage_whose_teacher_is_missing_says_which_weights_it_looked_for(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="vae"):
        train("teacher", tiny_run(tmp_path, bank=8), made_up_material())


def test_the_later_stages_use_the_tokenizer_of_the_first(trained: Path):
    sentences = ["áo thun màu đỏ trên nền trắng", "a grey boot"]
    kept = token_ids(read_tokenizer([trained]), sentences)
    assert (kept == token_ids(tokenizer_for(tiny_run(trained, bank=9_999)), sentences)).all()


def test_captions_are_the_same_for_the_same_seed_and_others_for_another(trained: Path):
    tokenizer = read_tokenizer([trained])
    first, again, other = (
        write_captions(tiny_run(trained, seed=seed), tokenizer) for seed in (0, 0, 1)
    )
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.scenes, again.scenes)
    assert not torch.equal(first.scenes, other.scenes)


def test_captions_come_from_several_processes_as_well(trained: Path):
    captions = write_captions(tiny_run(trained, processes=2), read_tokenizer([trained]))
    assert captions.ids.shape == (48, 77)
    assert len(captions.scenes) == 48


def test_a_learning_rate_of_zero_changes_nothing_and_another_one_does(tmp_path: Path):
    network = torch.nn.Linear(3, 3)
    learner = Learner(network, tiny_run(tmp_path), rate=0.1)
    before = network.weight.detach().clone()
    for rate, moves in ((0.0, False), (0.1, True)):
        learner.set_rate(rate)
        learner.forget()
        network(torch.ones(1, 3)).sum().backward()
        learner.learn(clip=1.0)
        assert bool((network.weight != before).any()) is moves


def test_named_parts_of_a_network_learn_faster(tmp_path: Path):
    network = torch.nn.ModuleDict({"old": torch.nn.Linear(2, 1), "new": torch.nn.Linear(2, 1)})
    learner = Learner(network, tiny_run(tmp_path), rate=0.0, quicker=("new",), times=3.0)
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    learner.set_rate(0.01)
    sum(part(torch.ones(1, 2)) for part in network.values()).backward()
    learner.learn(clip=100.0)
    moved = {
        name: float((value.detach() - before[name]).abs().max())
        for name, value in network.named_parameters()
    }
    assert moved["new.weight"] == pytest.approx(3 * moved["old.weight"], rel=0.01)


def test_the_clock_goes_through_its_part_of_the_schedule(tmp_path: Path):
    assert list(Clock(tiny_run(tmp_path, steps=4)).ticks()) == [0, 0.25, 0.5, 0.75]
    assert list(Clock(tiny_run(tmp_path, steps=2, begin=0.5)).ticks()) == [0.5, 0.75]


def test_weights_are_cut_in_files_and_read_back_whole(tmp_path: Path):
    state = {f"part{place}": torch.full((2_500_000,), float(place)) for place in range(3)}
    write_weights(state, "net", tmp_path)
    assert len(list(tmp_path.glob("net-*.safetensors"))) == 2
    assert all(file.stat().st_size < 16 * 2**20 for file in tmp_path.iterdir())
    read = read_weights("net", [tmp_path])
    assert all(torch.equal(read[name], value) for name, value in state.items())


def test_one_euler_step_is_what_the_schedulers_formula_says(tmp_path: Path):
    run = tiny_run(tmp_path)
    noise, words = torch.randn(2, 4, 16, 16), torch.randn(2, 77, TINY.text_width)
    unet = build_unet(TINY).eval()
    euler = EulerDraw(unet, words[:1], run, batch=2, steps=1, guidance=1.0)
    keep, add = Noise(CPU).at(torch.full((2,), PURE))
    with torch.no_grad():
        seen = add * noise  # noise of 14.6, scaled by 1 / sqrt(14.6^2 + 1)
        answer = unet(seen, torch.full((2,), PURE), words, return_dict=False)[0]
    drawn = euler.draw(noise, words)
    assert torch.allclose(drawn, keep * seen - add * answer, atol=1e-4)
    assert math.isclose(float(keep[0] ** 2 + add[0] ** 2), 1, rel_tol=1e-5)


def test_the_judge_scores_thing_colours_and_size():
    scores = JudgeNetwork(width=8)(torch.zeros(2, 3, 64, 64))
    assert [tuple(score.shape) for score in scores] == [(2, 20), (2, 11), (2, 11), (2, 3)]


def test_a_checker_of_another_seed_sorts_out_what_the_teacher_drew_wrong(
    trained: Path, tmp_path: Path
):
    run = tiny_run(tmp_path, given=trained, seed=1)
    train("checker", run, made_up_material())
    vae = run.read(build_vae(TINY), "vae")
    drawn = torch.randn(6, 4, TINY.latent, TINY.latent, generator=torch.Generator().manual_seed(0))
    network = run.read(JudgeNetwork(), "checker")
    with torch.no_grad():
        seen = network(vae.decode(drawn).sample.clamp(-1, 1))[0].argmax(dim=1)
    asked = seen.clone()
    asked[1] = (asked[1] + 1) % len(THINGS)

    known = Checker(run, vae).knows(drawn, asked)
    assert known.tolist() == [True, False, True, True, True, True]

    train("student", run, made_up_material(), HOW)
    assert (tmp_path / "student-0.safetensors").is_file()


def test_the_checkers_slope_leads_to_what_it_is_surer_of(trained: Path, tmp_path: Path):
    run = tiny_run(tmp_path, given=trained, seed=1)
    train("checker", run, made_up_material())
    vae, network = run.read(build_vae(TINY), "vae"), run.read(JudgeNetwork(), "checker")
    latents, things = torch.randn(6, 4, TINY.latent, TINY.latent), torch.arange(6)

    @torch.no_grad()
    def sure() -> torch.Tensor:
        scores = network(vae.decode(latents).sample.clamp(-1, 1))[0]
        return scores.softmax(dim=1)[torch.arange(6), things]

    before, checker = sure(), Checker(run, vae)
    for _ in range(20):
        slope = checker.slope(latents, things)
        assert float(slope.flatten(1).norm(dim=1).max()) <= 1 + 1e-5
        latents = latents - 5 * slope
    assert (sure() > before).all()


def test_a_student_that_is_there_is_improved_and_not_begun_anew(trained: Path, tmp_path: Path):
    run = tiny_run(tmp_path, given=trained, begin=0.6, steps=1)
    with torch.random.fork_rng(devices=[]):
        train("student", run, made_up_material(), HOW)
    before, after, teacher = (
        read_weights(name, [folder])
        for name, folder in (("student", trained), ("student", tmp_path), ("teacher", trained))
    )
    assert apart(before, after) < apart(teacher, after)


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return sum(float((one[name] - other[name]).abs().sum()) for name in one)
