"""The blocks of a pipeline, counted from the headers of its files: nothing is loaded, no torch."""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

from core.activities.make_images import BlockFacts
from core.models.image_models import INDEX

BLOCKS = ("tokenizer", "text_encoder", "unet", "vae", "scheduler")  # in the order of their work
BYTES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8}  # of one number, as safetensors names its kinds
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
MIB = 2**20
LONGEST_HEADER = 100 * MIB  # more is no safetensors file


def stored_blocks(folder: Path) -> tuple[BlockFacts, ...]:
    """Counted from the headers of the weight files: kind, parameters, MiB on disk, dtype.

    Raises OSError, ValueError or KeyError where the folder is not a pipeline of diffusers with
    weights in safetensors.
    """
    index = json.loads((folder / INDEX).read_text("utf-8"))
    return tuple(_block(folder / name, str(index[name][1])) for name in BLOCKS)


def _block(folder: Path, kind: str) -> BlockFacts:
    files = sorted(folder.glob("*.safetensors"))
    if any(".fp16." in file.name for file in files):  # the variant that is loaded
        files = [file for file in files if ".fp16." in file.name]
    tensors = [tensor for file in files for tensor in _tensors(file)]
    return BlockFacts(
        name=folder.name,
        kind=kind,
        parameters=sum(count for count, _ in tensors),
        mib=sum(count * BYTES[dtype] for count, dtype in tensors) / MIB,
        dtype=", ".join(sorted({DTYPES[dtype] for _, dtype in tensors})),
    )


def _tensors(file: Path) -> list[tuple[int, str]]:
    """How many numbers of which kind each float tensor of a safetensors file holds."""
    with file.open("rb") as opened:
        start = opened.read(8)
        if len(start) < 8:
            raise ValueError(f"{file} is too short for a safetensors file")
        (length,) = struct.unpack("<Q", start)
        if length > LONGEST_HEADER:
            raise ValueError(f"{file} is no safetensors file")
        header: dict[str, Any] = json.loads(opened.read(length))
    return [
        (prod(tensor["shape"]), tensor["dtype"])
        for name, tensor in header.items()
        if name != "__metadata__" and tensor["dtype"] in BYTES  # neither notes nor whole numbers
    ]
