"""Measure a finished folder: `python -m core.models.mini_turbo.evaluate FOLDER [--json]`.

Draws through the pipeline as the lab loads it. With `--write` the figures and the model card are
put into the folder; `--sheet FILE` makes a page of pictures to look at.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor

from core.models.mini_turbo.captions import (
    LANGUAGES,
    Scene,
    caption,
    random_scene,
)
from core.models.mini_turbo.card import Figures, Obeyed, write_figures
from core.models.mini_turbo.obey import ObeyJudge, load_judge
from core.models.mini_turbo.package import TEACHER, WEIGHTS, folder_bytes
from core.models.mini_turbo.pictures import (
    Composer,
    Material,
    as_tensor,
    contact_sheet,
    has_material,
    load_material,
)
from core.models.mini_turbo.plumbing import best_device
from core.models.mini_turbo.words import ENGLISH, THINGS, VIETNAMESE

BATCH = {"cpu": 25, "cuda": 250}
TEACHER_STEPS, TEACHER_GUIDANCE = 20, 2.0
SAME_PROMPT = 32  # pictures of one prompt, for the spread among them
SHOWN = (
    "a photo of a red sneaker on a white background",
    "một chiếc giày thể thao màu đỏ trên nền trắng",
    "a handwritten green seven on a black background",
    "chữ số bảy viết tay màu xanh lá trên nền đen",
    "a blue dress on a yellow background",
    "một chiếc váy màu tím trên nền hồng",
    "a small orange bag on a purple background",
    "túi xách màu vàng, nền xanh dương",
    "a white shirt on a blue wall",
    "áo sơ mi trắng trên nền xanh lá",
    "a pair of brown trousers on a white background",
    "quần dài màu đen trên nền cam",
    "a large pink coat against a green backdrop",
    "áo khoác màu nâu trên nền xám",
    "purple ankle boot, orange background",
    "giày bốt màu đỏ trên nền đen",
    "the number 3 in pink on a brown background",
    "số 5 màu trắng trên nền tím",
    "a black sandal on a pink background",
    "dép quai hậu màu xanh dương trên nền vàng",
    "a green pullover on a red background",
    "áo len màu cam trên nền xanh dương",
    "a grey t-shirt on a black background",
    "ao thun mau hong tren nen den",
    "eight, white, blue background",
    "số không màu vàng trên nền đỏ",
    "a tiny red two on a white background",
    "so chin khong lo mau xanh duong tren nen trang",
    "a sneaker",
    "một chiếc túi",
    "number four",
    "a beautiful purple dress on a white background, studio lighting, 4k",
    "tôi muốn một đôi giày màu đỏ đặt trên nền màu trắng",
    "please draw me a nice pair of blue pants on a pink background, thank you",
    "red snaeker on whit background",
    "a sneaker that is not red on a white background",
    "a red seven on a red background",
    "hãy vẽ một cái túi màu xanh",
    "a cat",
    "a red sneaker and a blue bag on a white background",
)


@dataclass(frozen=True, slots=True)
class Test:
    """Prompts with what each of them asks for."""

    scenes: Tensor  # (N, 4)
    prompts: list[str]
    languages: list[str]


def make_test(count: int, seed: int, *, held: bool | None = None) -> Test:
    """Half digits; half English, half Vietnamese, every tenth without accents; all named."""
    chance, scenes, prompts, languages = Random(seed), [], [], []
    for place in range(count):
        scene = random_scene(chance, digits=0.5, two_colours=True, held=held)
        language = list(LANGUAGES)[2 if place % 10 == 0 else place % 2]
        scenes.append(scene)
        prompts.append(caption(chance, scene, language=language, full=True))
        languages.append(language)
    return Test(as_tensor(scenes), prompts, languages)


class Drawer:
    """A pipeline, drawing many prompts in batches; each picture has a seed of its own."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        from diffusers import AutoPipelineForText2Image

        dtype = torch.float16 if device.type == "cuda" else torch.float32
        self.pipeline: Any = AutoPipelineForText2Image.from_pretrained(folder, dtype=dtype)
        self.pipeline.to(device)
        self.pipeline.set_progress_bar_config(disable=True)
        self._folder, self.device, self._batch = folder, device, BATCH[device.type]

    def __call__(
        self, prompts: list[str], seed: int, *, steps: int = 1, guidance: float = 0.0
    ) -> Tensor:
        """(N, 3, 64, 64) in -1..1, on the CPU; the seeds are `seed`, `seed` + 1, ..."""
        return self.with_seeds(prompts, range(seed, seed + len(prompts)), steps, guidance)

    def with_seeds(
        self, prompts: list[str], seeds: Iterable[int], steps: int = 1, guidance: float = 0.0
    ) -> Tensor:
        chances = [torch.Generator().manual_seed(seed) for seed in seeds]
        parts = []
        for start in range(0, len(prompts), self._batch):
            some = slice(start, start + self._batch)
            drawn = self.pipeline(
                prompts[some],
                num_inference_steps=steps,
                guidance_scale=guidance,
                generator=chances[some],
                output_type="pt",
            ).images
            parts.append(drawn.float().cpu() * 2 - 1)
        return torch.cat(parts)

    def use_teacher(self) -> bool:
        """Draw with the teacher's U-Net from now on, if it is there."""
        from diffusers import UNet2DConditionModel

        if not (self._folder / TEACHER).is_dir():
            return False
        dtype = self.pipeline.unet.dtype
        teacher = UNet2DConditionModel.from_pretrained(self._folder / TEACHER, dtype=dtype)
        self.pipeline.unet = teacher.to(self.device)
        return True


def obeyed(judge: ObeyJudge, pictures: Tensor, scenes: Tensor) -> Obeyed:
    right = (judge.places(pictures).cpu() == scenes.cpu()).float()  # (N, 4)
    digits = scenes[:, 0].cpu() >= 10
    thing, colour, background, size = right.mean(dim=0).tolist()
    return Obeyed(
        all_three=float(right[:, :3].prod(dim=1).mean()),
        thing=thing,
        clothes=float(right[~digits, 0].mean()),
        digits=float(right[digits, 0].mean()),
        colour=colour,
        background=background,
        size=size,
    )


def frechet(one: Tensor, other: Tensor) -> float:
    """Distance of two sets of features (N, 256), each taken as a Gaussian; as FID's."""
    one, other = one.double().cpu(), other.double().cpu()
    cov_one, cov_other = torch.cov(one.T), torch.cov(other.T)
    both = torch.linalg.eigvals(cov_one @ cov_other).real.clamp(min=0).sqrt().sum()
    apart = (one.mean(dim=0) - other.mean(dim=0)).square().sum()
    return float(apart + cov_one.trace() + cov_other.trace() - 2 * both)


def spread(judge: ObeyJudge, groups: list[Tensor]) -> float:
    """Mean distance between the pictures of a group, in features, over all groups."""
    distances = [torch.pdist(judge.features(group).float()).mean() for group in groups]
    return float(torch.stack(distances).mean())


def nearest(pictures: Tensor, scenes: Tensor, composer: Composer, among: int) -> float:
    """Mean distance of pictures to the nearest of `among` training pictures in the same colours."""
    found = []
    for picture, scene in zip(pictures, scenes, strict=True):
        sources = composer.all_of(int(scene[0]), among)
        known = composer.compose(sources, scene.to(sources.device).expand(len(sources), 4), vary=0)
        small = F.avg_pool2d(picture[None].to(known.device), 2).flatten(1)
        known = F.avg_pool2d(torch.cat([known, known.flip(3)]), 2).flatten(1)
        found.append((known - small).square().sum(dim=1).sqrt().min())
    return float(torch.stack(found).mean())


def evaluate(
    folder: Path,
    material: Material | None,
    *,
    prompts: int = 1_000,
    pictures: int = 2_500,
    copies: int = 60,
    among: int = 1_000,
    alike: int = SAME_PROMPT,
    device: torch.device | None = None,
) -> Figures:
    """Measure the pipeline in `folder`. What needs real pictures is left out without `material`.

    Raises FileNotFoundError where the judge is missing.
    """
    device = device or best_device()
    judge = load_judge(folder, device)
    if judge is None:
        raise FileNotFoundError(f"no judge in {folder}")
    draw = Drawer(folder, device)
    test, held = make_test(prompts, 99), make_test(prompts, 98, held=True)
    drawn = draw(test.prompts, 0)
    twins, strangers = _twins(draw, test.scenes[: min(50, prompts)])
    real = _against_real(draw, judge, material, pictures, alike) if material else {}
    if material:
        real |= _copying(drawn[:copies], test.scenes[:copies], material, among, device)
    languages = {
        language: obeyed(judge, drawn[chosen], test.scenes[chosen]).all_three
        for language in LANGUAGES
        if (chosen := [place for place, of in enumerate(test.languages) if of == language])
    }
    parts = (draw.pipeline.text_encoder, draw.pipeline.unet, draw.pipeline.vae)
    figures = {
        "made_on": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "prompts": prompts,
        "parameters": sum(p.numel() for part in parts for p in part.parameters()),
        "weights_mb": folder_bytes(folder) / 1e6,
        "one_step": obeyed(judge, drawn, test.scenes),
        "by_language": languages,
        "held_out": obeyed(judge, draw(held.prompts, 0), held.scenes),
        "more_steps": {
            str(steps): obeyed(judge, draw(few.prompts, 0, steps=steps), few.scenes).all_three
            for steps in (2, 4)
            if (few := make_test(max(2, prompts // 5), 97))
        },
        "twins": twins,
        "strangers": strangers,
        "seconds_a_picture": _seconds(draw),
        "real": None,
        "fid_pictures": None,
        "fid_like": None,
        "fid_like_real": None,
        "spread": None,
        "spread_real": None,
        "nearest_training": None,
        "nearest_training_of_real": None,
    } | real
    few = make_test(max(2, prompts // 5), 96)
    teacher = None
    if draw.use_teacher():
        guided = draw(few.prompts, 0, steps=TEACHER_STEPS, guidance=TEACHER_GUIDANCE)
        teacher = obeyed(judge, guided, few.scenes).all_three
    return msgspec.convert(msgspec.to_builtins(figures | {"teacher": teacher}), Figures)


def _against_real(
    draw: Drawer, judge: ObeyJudge, material: Material, pictures: int, alike: int
) -> dict[str, Any]:
    """The figures that compare with real pictures."""
    device = draw.device
    unseen, seen = Composer(material.unseen, device), Composer(material.train, device)
    test = make_test(pictures, 95)
    scenes = test.scenes.to(device)

    def composed(composer: Composer) -> Tensor:
        return torch.cat([composer(part).cpu() for part in torch.split(scenes, 500)])

    real = composed(unseen)
    features = judge.features(real)
    generated, reals = [], []
    for thing in range(len(THINGS)):
        scene = Scene(thing, thing * 3 % 10, (thing * 3 + 4) % 10, 1)
        sentence = caption(Random(thing), scene, language=ENGLISH, full=True)
        generated.append(draw([sentence] * alike, 0))
        reals.append(unseen(as_tensor([scene] * alike).to(device)))
    return {
        "real": obeyed(judge, real, test.scenes),
        "fid_pictures": pictures,
        "fid_like": frechet(judge.features(draw(test.prompts, 0)), features),
        "fid_like_real": frechet(judge.features(composed(seen)), features),
        "spread": spread(judge, generated),
        "spread_real": spread(judge, reals),
    }


def _copying(
    drawn: Tensor, scenes: Tensor, material: Material, among: int, device: torch.device
) -> dict[str, float]:
    train, unseen = Composer(material.train, device), Composer(material.unseen, device)
    return {
        "nearest_training": nearest(drawn, scenes, train, among),
        "nearest_training_of_real": nearest(unseen(scenes.to(device)), scenes, train, among),
    }


def _twins(draw: Drawer, scenes: Tensor) -> tuple[float, float]:
    """(difference between two languages, between two seeds), root mean square, 0 to 1."""
    chance = Random(0)
    english, vietnamese = (
        [caption(chance, Scene(*scene), language=language, full=True) for scene in scenes.tolist()]
        for language in (ENGLISH, VIETNAMESE)
    )
    one, twin, stranger = draw(english, 0), draw(vietnamese, 0), draw(english, 10_000)

    def apart(other: Tensor) -> float:
        return float((one - other).square().mean().sqrt() / 2)

    return apart(twin), apart(stranger)


def _seconds(draw: Drawer) -> float:
    """For one picture at a time: the middle one of nine, after a first one."""
    times = []
    for seed in range(10):
        started = time.perf_counter()
        draw([SHOWN[0]], seed)  # ends with a copy to the CPU, so the device has finished
        times.append(time.perf_counter() - started)
    return sorted(times[1:])[4]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a finished mini-turbo.")
    ask = parser.add_argument
    ask("folder", type=Path, nargs="?", default=WEIGHTS)
    ask("--prompts", type=int, default=1_000)
    ask("--pictures", type=int, default=2_500, help="for the comparison with real ones")
    ask("--copies", type=int, default=60, help="pictures to look for copies of")
    ask("--among", type=int, default=1_000, help="training pictures of a thing to look among")
    ask("--fashion", type=Path, help="folder with Fashion-MNIST; without it no comparison")
    ask("--device", default=best_device().type)
    ask("--json", action="store_true", help="one JSON object instead of the card")
    ask("--write", action="store_true", help="put figures and card into the folder")
    ask("--sheet", type=Path, help="PNG to draw a page of pictures into")
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    material = load_material(given.fashion) if given.fashion or has_material() else None
    if given.sheet:
        prompts = [*SHOWN, *["a purple bag on a yellow background"] * 8]
        contact_sheet(Drawer(given.folder, device)(prompts, 0), prompts, given.sheet)
    figures = evaluate(
        given.folder,
        material,
        prompts=given.prompts,
        pictures=given.pictures,
        copies=given.copies,
        among=given.among,
        device=device,
    )
    if given.write:
        write_figures(figures, given.folder)
    print(json.dumps(msgspec.to_builtins(figures), ensure_ascii=False) if given.json else figures)


if __name__ == "__main__":
    main()
