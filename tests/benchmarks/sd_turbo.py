"""sd-turbo's exact architecture through the app: the ladder of switches, and a class at once.

    python -m tests.benchmarks.sd_turbo [--repeats 20] [--rounds 5] [--tiny]

Where its files are not on disk, the four blocks are built from its published configuration with
random weights: as fast as trained ones, whatever they draw. Their numbers of parameters are checked
against the published ones either way. `--tiny` checks these, then takes tiny blocks, to try the
benchmark itself on a CPU.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderTiny,
    EulerDiscreteScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel

from core.activities.make_images import (
    SD_TURBO,
    ImageSpeedResult,
    ImageSpeedSettings,
    MakeImagesSettings,
)
from core.labs.image_speed import SMALL_VAE
from core.models.image_models import image_models
from core.models.mini_turbo.blocks import train_tokenizer
from core.models.stored_blocks import stored_blocks
from core.settings import LabSettings
from tests.benchmarks.drawing import ask, class_of, engine_of, measure_class
from tests.benchmarks.report import Report
from tests.models.tiny_pipeline import SENTENCES

PARAMETERS = {"text_encoder": 340_387_840, "unet": 865_910_724, "vae": 83_653_863}
TARGET_MS = 13.0  # a picture at batch 1
TARGET_PICTURES_PER_SECOND = 100.0  # at batch 8, with the full VAE
TARGET_WAIT_SECONDS = 1.0
STUDENTS = 20

UNET: dict[str, Any] = {
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": (*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
    "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
    "block_out_channels": (320, 640, 1280, 1280),
    "layers_per_block": 2,
    "attention_head_dim": (5, 10, 20, 20),
    "cross_attention_dim": 1024,
    "use_linear_projection": True,
}
VAE: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (128, 256, 512, 512),
    "layers_per_block": 2,
    "latent_channels": 4,
    "sample_size": 768,
    "scaling_factor": 0.18215,
}
TEXT: dict[str, Any] = {
    "vocab_size": 49_408,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 23,
    "num_attention_heads": 16,
    "max_position_embeddings": 77,
    "hidden_act": "gelu",
    "projection_dim": 512,
}
# The same shapes of everything with next to no parameters, and no attention at full size.
TINY_UNET = {
    **UNET,
    "down_block_types": (*("DownBlock2D",) * 3, "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", *("UpBlock2D",) * 3),
    "block_out_channels": (8, 8, 8, 16),
    "layers_per_block": 1,
    "attention_head_dim": (2, 2, 2, 2),
    "cross_attention_dim": 32,
    "norm_num_groups": 4,
}
TINY_VAE = {**VAE, "block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "norm_num_groups": 4}
TINY_TEXT = {**TEXT, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
TINY_TEXT["num_attention_heads"] = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    check_parameters()
    settings = LabSettings.load()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.tiny or not image_models(settings)[SD_TURBO].here:
            settings = replace(settings, models_dir=Path(folder))
            build(Path(folder), tiny=arguments.tiny)
        model = image_models(settings)[SD_TURBO]
        stored = {
            block.name: block.parameters
            for block in stored_blocks(model.folder)
            if block.parameters
        }
        print(f"{model.folder}: {stored}")
        assert arguments.tiny or stored == PARAMETERS, "these are not sd-turbo's blocks"
        return measure(settings, arguments)


def check_parameters() -> None:
    """The published configuration has the published number of parameters; nothing is allocated."""
    with torch.device("meta"):
        blocks = _blocks(UNET, VAE, TEXT)
    found = {
        name: sum(weight.numel() for weight in block.parameters()) for name, block in blocks.items()
    }
    assert found == PARAMETERS, f"{found} instead of {PARAMETERS}"


def _blocks(unet: dict[str, Any], vae: dict[str, Any], text: dict[str, Any]) -> dict[str, Any]:
    return {
        "unet": UNet2DConditionModel(**unet),
        "vae": AutoencoderKL(**vae),
        "text_encoder": CLIPTextModel(CLIPTextConfig(**text)),
    }


def build(folder: Path, *, tiny: bool) -> None:
    """The pipeline's folder and that of the small VAE, in half precision."""
    began = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    tokenizer = train_tokenizer(SENTENCES)
    unet, vae, text = (TINY_UNET, TINY_VAE, TINY_TEXT) if tiny else (UNET, VAE, TEXT)
    text = {**text, "eos_token_id": len(tokenizer) - 1}
    with torch.device(device):
        blocks = _blocks(unet, vae, text)
        small_vae = AutoencoderTiny()
    pipeline = StableDiffusionPipeline(
        tokenizer=tokenizer,
        scheduler=EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            timestep_spacing="trailing",
            steps_offset=1,
        ),
        safety_checker=None,
        feature_extractor=None,
        image_encoder=None,
        requires_safety_checker=False,
        **blocks,
    )
    pipeline.to(torch.float16)
    pipeline.save_pretrained(folder / SD_TURBO, variant="fp16")
    small_vae.half().save_pretrained(folder / SMALL_VAE)
    del pipeline, blocks, small_vae
    if device == "cuda":
        torch.cuda.empty_cache()
    print(f"built with random weights in {time.perf_counter() - began:.0f} s", flush=True)


def measure(settings: LabSettings, arguments: argparse.Namespace) -> int:
    report = Report()
    with engine_of(settings) as engine:
        first = ask(engine, "student", "make-images", MakeImagesSettings(model=SD_TURBO))
        print(f"first request, with the worker's start and loading: {first.seconds:.1f} s")
        asked = ImageSpeedSettings(model=SD_TURBO, repeats=arguments.repeats)
        ladder = ask(engine, "teacher", "image-speed", asked)
        print(f"the ladder, compiling included: {ladder.seconds:.0f} s")
        tell_ladder(msgspec.convert(ladder.view.result, ImageSpeedResult), report)
        ask(engine, "student", "make-images", MakeImagesSettings(model=SD_TURBO, count=8))
        singles = [
            ask(engine, "student", "make-images", MakeImagesSettings(model=SD_TURBO, seed=number))
            for number in range(arguments.repeats)
        ]
        seconds = [single.seconds for single in singles]
        report.median("one picture, request to picture", seconds, "s")
        measure_class(
            engine,
            class_of(STUDENTS, SD_TURBO),
            report,
            rounds=arguments.rounds,
            at_most=TARGET_WAIT_SECONDS,
        )
    return report.exit_code


def tell_ladder(result: ImageSpeedResult, report: Report) -> None:
    for rung in result.rungs:
        print(
            f"{rung.name}, batch {rung.batch}: {rung.ms_median:.1f} ms "
            f"({rung.ms_low:.1f} to {rung.ms_high:.1f}), {rung.pictures_per_second:.1f} pictures/s,"
            f" largest difference {255 * rung.difference:.0f} of 255"
        )
    print(f"skipped: {result.skipped}; one copy: {result.copy_mib:.0f} MiB; {result.device_name}")
    compiled = {rung.batch: rung for rung in result.rungs if rung.name == "compiled"}
    if 1 in compiled:
        report.at_most("a picture at batch 1 (ms)", compiled[1].ms_median, TARGET_MS)
    if 8 in compiled:
        took = 1 / compiled[8].pictures_per_second
        report.at_most("seconds a picture at batch 8", took, 1 / TARGET_PICTURES_PER_SECOND)


if __name__ == "__main__":
    raise SystemExit(main())
