"""A pipeline of mini-turbo's classes that has learnt nothing: for tests of everything around it."""

from __future__ import annotations

from pathlib import Path

import torch

from core.models.mini_turbo.blocks import (
    TINY,
    build_pipeline,
    build_text_encoder,
    build_unet,
    build_vae,
    train_tokenizer,
)

SENTENCES = ["a red sneaker on a white background", "một chiếc váy màu tím trên nền vàng"] * 50


def make_tiny_pipeline(folder: Path) -> None:
    """Write a whole folder of diffusers: seeded weights, 64x64 pictures; loads in a blink.

    PyTorch's own random numbers stay where they are.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokenizer = train_tokenizer(SENTENCES)
        pipeline = build_pipeline(
            tokenizer, build_text_encoder(len(tokenizer), TINY), build_unet(TINY), build_vae(TINY)
        )
    pipeline.to(torch.float16)
    pipeline.save_pretrained(folder)
