"""Put trained weights together: `python -m core.models.mini_turbo.package --from DIR --out FOLDER`.

The folder is a pipeline in diffusers' layout, loaded as sd-turbo is. Beside it lie the judge
(`judge.safetensors`) and the teacher's U-Net (`teacher/`), all in half precision.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from core.models.mini_turbo.bank import read_tokenizer
from core.models.mini_turbo.blocks import (
    SHIPPED,
    Sizes,
    build_pipeline,
    build_text_encoder,
    build_unet,
    build_vae,
)
from core.models.mini_turbo.obey import FILE
from core.models.mini_turbo.plumbing import read_weights

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


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the folder that the lab loads.")
    parser.add_argument("--from", type=Path, dest="given", nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--unet", default="student", help="name of the weights that draw")
    given = parser.parse_args(arguments)
    with torch.random.fork_rng(devices=[]):
        package(given.given, given.out, student=given.unet)
    print(f"{given.out}: {folder_bytes(given.out) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
