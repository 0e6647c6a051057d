"""Put trained weights together: `python -m core.models.mini_turbo.package --from DIR --out FOLDER`.

The folder is a pipeline in diffusers' layout, loaded as sd-turbo is. Beside it lie the judge
(`judge.safetensors`) and the teacher's U-Net (`teacher/`), all in half precision.

`--unpack DIR` goes the other way: the weights of a finished folder, for stages to go on from.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from core.models.mini_turbo.bank import keep_tokenizer, read_tokenizer
from core.models.mini_turbo.blocks import (
    SHIPPED,
    Sizes,
    build_pipeline,
    build_text_encoder,
    build_unet,
    build_vae,
)
from core.models.mini_turbo.obey import FILE
from core.models.mini_turbo.plumbing import read_weights, write_weights

TEACHER = "teacher"  # folder of the teacher's U-Net, below the pipeline's
WEIGHTS = Path(__file__).with_name("weights")


def package(
    given: Sequence[Path], out: Path, *, sizes: Sizes = SHIPPED, student: str = "student"
) -> None:
    """Write `out` anew from weights, each from the first folder of `given` that has it.

    `student` names the U-Net that draws. Raises FileNotFoundError for what is nowhere.
    """
    tokenizer = read_tokenizer(given)
    text = build_text_encoder(len(tokenizer), sizes)
    blocks: dict[str, Any] = {
        "text": text,
        student: build_unet(sizes),
        "vae": build_vae(sizes),
        "teacher": build_unet(sizes),
    }
    for name, block in blocks.items():
        block.load_state_dict(read_weights(name, given))
        block.half().eval()
    judge = {
        name: value.half() if value.is_floating_point() else value
        for name, value in read_weights("judge", given).items()
    }
    shutil.rmtree(out, ignore_errors=True)
    build_pipeline(tokenizer, text, blocks[student], blocks["vae"]).save_pretrained(out)
    blocks["teacher"].save_pretrained(out / TEACHER)
    save_file(judge, out / FILE)


def unpack(folder: Path, out: Path) -> None:
    """Write the weights of a packaged `folder` into `out`, as the stages had left them."""
    from diffusers import AutoPipelineForText2Image, UNet2DConditionModel

    pipeline = AutoPipelineForText2Image.from_pretrained(folder, dtype=torch.float16)
    teacher = UNet2DConditionModel.from_pretrained(folder / TEACHER, dtype=torch.float16)
    blocks: dict[str, Any] = {
        "text": pipeline.text_encoder,
        "student": pipeline.unet,
        "vae": pipeline.vae,
        "teacher": teacher,
    }
    keep_tokenizer(pipeline.tokenizer, out)
    for name, block in blocks.items():
        write_weights(block.state_dict(), name, out)
    write_weights(load_file(folder / FILE), "judge", out)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the folder that the lab loads.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--from", type=Path, dest="given", nargs="+", metavar="DIR")
    what.add_argument("--unpack", type=Path, metavar="DIR", help="write weights of FOLDER there")
    parser.add_argument("--out", type=Path, default=WEIGHTS, metavar="FOLDER")
    parser.add_argument("--unet", default="student", help="name of the weights that draw")
    given = parser.parse_args(arguments)
    if given.unpack:
        unpack(given.out, given.unpack)
        return
    with torch.random.fork_rng(devices=[]):
        package(given.given, given.out, student=given.unet)
    print(f"{given.out}: {folder_bytes(given.out) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
