"""The pictures it learns from, the judge, and the finished folder: loaded, drawn with, measured."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from PIL import Image

from core.models.mini_turbo.bank import TOKENS
from core.models.mini_turbo.blocks import TINY
from core.models.mini_turbo.captions import Scene
from core.models.mini_turbo.card import card, read_figures, write_figures
from core.models.mini_turbo.evaluate import Drawer, evaluate, frechet, make_test, nearest
from core.models.mini_turbo.obey import JudgeNetwork, ObeyJudge, Seen, load_judge
from core.models.mini_turbo.package import folder_bytes, package, unpack
from core.models.mini_turbo.pictures import (
    PAINT,
    Composer,
    as_tensor,
    contact_sheet,
    has_material,
    load_material,
    read_idx,
    to_image,
)
from core.models.mini_turbo.plumbing import read_weights
from core.models.mini_turbo.words import COLOURS, understand
from tests.models.tiny_training import CPU, made_up_material

RED, WHITE, BLACK = 0, 9, 8


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder of the tiny size."""
    out = tmp_path_factory.mktemp("folder")
    with torch.random.fork_rng(devices=[]):
        package([trained], out, sizes=TINY)
    return out


def test_an_unpacked_folder_is_what_was_packed(folder: Path, trained: Path, tmp_path: Path):
    unpack(folder, tmp_path)
    assert (tmp_path / TOKENS).read_bytes() == (trained / TOKENS).read_bytes()
    for name in ("text", "student", "vae", "teacher", "judge"):
        packed, unpacked = (read_weights(name, [place]) for place in (trained, tmp_path))
        assert packed.keys() == unpacked.keys()
        assert all(torch.equal(packed[key], unpacked[key]) for key in packed), name


def mean_colour(picture: torch.Tensor) -> list[float]:
    return ((picture.mean(dim=(1, 2)) + 1) / 2).tolist()


def test_the_folder_loads_as_sd_turbo_does_and_draws_in_one_step(folder: Path):
    pipeline = Drawer(folder, CPU).pipeline
    picture = pipeline(
        "a red sneaker on a white background",
        num_inference_steps=1,
        guidance_scale=0.0,
        generator=torch.Generator().manual_seed(0),
    ).images[0]
    assert type(pipeline).__name__ == "StableDiffusionPipeline"
    assert picture.size == (64, 64)
    assert pipeline.scheduler.timesteps.tolist() == [999]
    assert pipeline.scheduler.sigmas.tolist() == pytest.approx([14.6146, 0], abs=1e-3)
    assert pipeline.scheduler.config.prediction_type == "v_prediction"


def test_the_teacher_and_the_judge_lie_beside_it(folder: Path):
    draw = Drawer(folder, CPU)
    once = draw(["a bag"], 0, steps=2)
    assert draw.use_teacher()
    assert not torch.equal(once, draw(["a bag"], 0, steps=2))
    assert load_judge(folder) is not None
    assert load_judge(folder / "nowhere") is None


def test_a_picture_does_not_depend_on_its_neighbours(folder: Path):
    draw = Drawer(folder, CPU)
    together = draw(["a bag", "a boot", "số ba"], 5)
    assert torch.allclose(draw(["a boot"], 6)[0], together[1], atol=2e-3)


def test_everything_is_measured_and_the_card_quotes_it(folder: Path, tmp_path: Path):
    figures = evaluate(
        folder, made_up_material(), prompts=10, pictures=6, copies=2, alike=2, device=CPU
    )
    assert 0 <= figures.one_step.all_three <= figures.one_step.thing <= 1
    assert figures.by_language.keys() == {"en", "vi", "vi without accents"}
    assert figures.teacher is not None
    assert figures.real is not None
    assert figures.twins > 0
    write_figures(figures, tmp_path)
    assert read_figures(tmp_path) == figures
    assert f"{figures.one_step.all_three * 100:.1f} %" in card(figures)
    assert "{" not in card(figures)
    assert "not measured" in card(msgspec.structs.replace(figures, fid_like=None))
    assert read_figures(tmp_path / "nowhere") is None


def test_scenes_come_out_in_their_colours(tmp_path: Path):
    composer = Composer(made_up_material().train, CPU)
    scenes = [Scene(7, RED, WHITE, 2), Scene(7, WHITE, RED, 2), Scene(12, BLACK, WHITE, 1)]
    pictures = composer(as_tensor(scenes))
    assert pictures.shape == (3, 3, 64, 64)
    assert float(pictures.min()) >= -1
    assert float(pictures.max()) <= 1
    corner = ((pictures[:, :, :4, :4].mean(dim=(2, 3)) + 1) / 2).tolist()
    middle = ((pictures[:, :, 28:36, 28:36].mean(dim=(2, 3)) + 1) / 2).tolist()
    assert corner[0] == pytest.approx(PAINT["white"], abs=0.15)
    assert corner[1] == pytest.approx(PAINT["red"], abs=0.15)
    assert middle[0][0] > 2 * middle[0][1], "a red thing is red"
    assert sum(middle[2]) < 0.9, "a black digit is black"
    contact_sheet(pictures, ["giày đỏ", "giày trắng", "số hai"], tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 64


def test_a_large_thing_covers_more_than_a_small_one():
    composer = Composer(made_up_material().train, CPU)
    covered = [
        float((composer(as_tensor([Scene(8, BLACK, WHITE, size)] * 8)) < 0).float().mean())
        for size in (0, 1, 2)
    ]
    assert covered == sorted(covered)
    assert covered[2] > 2 * covered[0]


def test_a_digit_on_its_own_colour_can_still_be_told_by_its_edge():
    composer = Composer(made_up_material().train, CPU)
    for colour in range(len(COLOURS)):
        picture = composer(as_tensor([Scene(13, colour, colour, 1)]), vary=0.0)[0]
        inside = picture[:, 8:56, 8:56]
        assert float(inside.amax() - inside.amin()) > 0.1, COLOURS[colour].id


def test_pictures_are_told_by_the_seed():
    composer = Composer(made_up_material().train, CPU)
    scenes = as_tensor([Scene(7, RED, WHITE, 1)] * 2)
    with torch.random.fork_rng(devices=[]):
        drawn = [(torch.manual_seed(seed), composer(scenes))[1] for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize(("end", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_fashion_mnists_files_are_read_however_they_are_packed(
    tmp_path: Path, end: str, pack: Callable[[bytes], bytes]
):
    header = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2])
    (tmp_path / f"pictures.{end}").write_bytes(pack(header + bytes([1, 2, 3, 4])))
    assert read_idx(tmp_path / "pictures.gz").tolist() == [1, 2, 3, 4]


@pytest.mark.skipif(not has_material(), reason="Fashion-MNIST is not on this machine")
def test_the_real_pictures_are_split_without_overlap():
    material = load_material()
    assert material.train.pictures.shape == (64_500, 28, 28)
    assert material.unseen.pictures.shape == (10_500, 28, 28)
    assert material.train.things.bincount().tolist() == [6_000] * 10 + [450] * 10
    assert material.unseen.things.bincount().tolist() == [1_000] * 10 + [50] * 10


def test_the_judge_answers_with_words_for_a_tensor_and_for_a_picture():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        judge = ObeyJudge(JudgeNetwork(width=8), CPU)
        picture = torch.rand(3, 64, 64) * 2 - 1
    image = to_image(picture)
    assert judge.look(picture) == judge.look(image)
    assert judge.look(image.resize((128, 128))).colour in PAINT


def test_only_what_was_said_is_compared_with_what_is_seen():
    seen = Seen(object="sneaker", colour="red", background="white", size="normal")
    assert seen.obeys(understand("a red sneaker").asked) == {"object": True, "colour": True}
    assert seen.obeys(understand("giày màu xanh dương trên nền trắng").asked) == {
        "object": True,
        "colour": False,
        "background": True,
    }
    assert seen.obeys(understand("a cat").asked) == {}


def test_the_distance_of_two_sets_is_zero_for_the_same_and_grows():
    chance = torch.Generator().manual_seed(0)
    one = torch.randn(400, 6, generator=chance)
    assert frechet(one, one) == pytest.approx(0, abs=1e-3)
    assert frechet(one, one + 1) == pytest.approx(6, rel=0.01)


def test_a_copied_training_picture_is_found_out():
    material = made_up_material()
    composer = Composer(material.train, CPU)
    scene = as_tensor([Scene(7, RED, WHITE, 1)])
    copy = composer.compose(composer.all_of(7, 1), scene, vary=0.0)
    other = composer.compose(255 - composer.all_of(3, 1), scene, vary=0.0)
    assert nearest(copy, scene, composer, 2) < 1
    assert nearest(other, scene, composer, 2) > 3


def test_test_prompts_are_half_digits_and_in_every_way_of_writing():
    test = make_test(40, 1, held=True)
    assert 8 < int((test.scenes[:, 0] >= 10).sum()) < 32
    assert test.languages.count("vi without accents") == 4


def test_the_parts_together_stay_below_what_a_repository_may_carry(folder: Path):
    assert folder_bytes(folder) < 45e6
