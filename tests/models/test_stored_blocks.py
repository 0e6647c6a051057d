"""Blocks of a pipeline, counted from files that are never loaded."""

from __future__ import annotations

import json
import struct

import pytest

from core.models.image_models import INDEX
from core.models.stored_blocks import BLOCKS, stored_blocks


def test_blocks_are_counted_from_the_headers_of_files(tmp_path):
    kinds = {block: ["diffusers", "Kind"] for block in BLOCKS}
    (tmp_path / INDEX).write_text(json.dumps(kinds))
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "weight": {"dtype": "F16", "shape": [30, 10], "data_offsets": [0, 600]},
            "places": {"dtype": "I64", "shape": [1, 77], "data_offsets": [600, 1216]},
        }
    ).encode()
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    unet = stored_blocks(tmp_path)[2]
    assert (unet.name, unet.parameters, unet.dtype) == ("unet", 300, "float16")
    assert unet.mib == pytest.approx(600 / 2**20)


@pytest.mark.parametrize("start", [b"", b"\xff" * 8])
def test_a_file_that_is_none_of_safetensors_is_refused(tmp_path, start):
    (tmp_path / INDEX).write_text(json.dumps({block: ["", ""] for block in BLOCKS}))
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "model.safetensors").write_bytes(start)
    with pytest.raises(ValueError, match="safetensors"):
        stored_blocks(tmp_path)


def test_the_variant_that_is_loaded_is_counted_alone(tmp_path):
    (tmp_path / INDEX).write_text(json.dumps({block: ["", ""] for block in BLOCKS}))
    (tmp_path / "vae").mkdir()
    for name, dtype in (("model.fp16", "F16"), ("model", "F32")):
        header = json.dumps({"weight": {"dtype": dtype, "shape": [5]}}).encode()
        file = tmp_path / "vae" / f"{name}.safetensors"
        file.write_bytes(struct.pack("<Q", len(header)) + header)
    vae = stored_blocks(tmp_path)[3]
    assert (vae.parameters, vae.dtype) == (5, "float16")
