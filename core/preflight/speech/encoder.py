"""The encoder: timm's vision transformer with the settings that make it Audio-JEPA's.

Names, shapes and order of its 149 tensors are those of the released weights; its output is equal
to the public implementation's to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from core.preflight.speech import positions
from core.preflight.speech.front_end import BINS, ROWS

WIDTH, DEPTH, HEADS = 768, 12, 12
PATCH = (8, 32)  # rows (time) and bins (frequency)
POSITIONS, PATCH_WEIGHT = "pos_embed", "patch_embed.proj.weight"


class Encoder(VisionTransformer):
    """(B, 1, 256, 128) -> (B, tokens, width); with `kept`, only those tokens are looked at."""

    pos_embed: nn.Parameter

    def __init__(self, patch: tuple[int, int], width: int, depth: int, heads: int) -> None:
        super().__init__(
            img_size=(ROWS, BINS),
            patch_size=patch,
            in_chans=1,
            num_classes=0,
            global_pool="",
            class_token=False,
            embed_dim=width,
            depth=depth,
            num_heads=heads,
            qkv_bias=True,
            norm_layer=nn.LayerNorm,  # eps 1e-5; timm's own 1e-6 moves every output
            weight_init="skip",  # PyTorch's own, as the released training had it
        )
        self.grid = (ROWS // patch[0], BINS // patch[1])
        self.pos_embed = nn.Parameter(positions.table(width, *self.grid), requires_grad=False)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """`kept` (B, k): indices of the tokens that are gathered before the first block."""
        tokens = self.patch_embed(x) + self.pos_embed
        if kept is not None:
            tokens = torch.gather(tokens, 1, kept[..., None].expand(-1, -1, tokens.shape[-1]))
        looked: Tensor = self.norm(self.blocks(tokens))
        return looked


def build_encoder(
    patch: tuple[int, int] = PATCH,
    seed: int | None = None,
    width: int = WIDTH,
    depth: int = DEPTH,
    heads: int = HEADS,
) -> Encoder:
    """A fresh encoder; with a seed always the same one, whatever else draws numbers."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return Encoder(patch, width, depth, heads)


def resized_patch(weight: Tensor, patch: tuple[int, int]) -> Tensor:
    """The kernel of the patch convolution for patches of another shape, bicubic, not rescaled."""
    return nn.functional.interpolate(
        weight, size=patch, mode="bicubic", align_corners=False, antialias=False
    )


def _own(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def from_checkpoint(
    tensors: Mapping[str, Tensor],
    prefix: str,
    patch: tuple[int, int] = PATCH,
    heads: int = HEADS,
) -> tuple[Encoder, list[str], list[str]]:
    """An encoder by the loading rule, and which names were missing and unexpected.

    The table of positions is never taken from the file: of another grid it may fit, and be wrong.
    """
    state = _own(tensors, prefix)
    state.pop(POSITIONS)
    state[PATCH_WEIGHT] = resized_patch(state[PATCH_WEIGHT], patch)
    depth = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    encoder = Encoder(patch, int(state["norm.weight"].shape[0]), depth, heads)
    outcome: Any = encoder.load_state_dict(state, strict=False)
    return encoder, list(outcome.missing_keys), list(outcome.unexpected_keys)


def assembled(
    tensors: Mapping[str, Tensor],
    prefix: str,
    patch: tuple[int, int] = PATCH,
    grid: tuple[int, int] = (32, 4),
) -> dict[str, Tensor]:
    """The encoder's tensors put together without any module: what the loading has to come to."""
    state = _own(tensors, prefix)
    state[PATCH_WEIGHT] = resized_patch(state[PATCH_WEIGHT], patch)
    state[POSITIONS] = positions.table(state[POSITIONS].shape[-1], *grid)
    return state


def fingerprint(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over name, type, shape and bytes of every tensor, in the order of their names."""
    print_ = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        print_.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        print_.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return print_.hexdigest()
