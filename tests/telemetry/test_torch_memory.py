"""PyTorch's memory, counted without asking the driver."""

import gc

import torch

from core.telemetry.torch_memory import live_tensors


def test_tensors_that_live_are_counted_and_shared_storage_once():
    count, mib = live_tensors("cpu")
    whole = torch.zeros(2**20)  # 4 MiB
    half = whole[: 2**19]
    assert live_tensors("cpu") == (count + 2, mib + 4)
    del whole, half
    assert live_tensors("cpu") == (count, mib)
    assert live_tensors("meta") == (0, 0.0)


def test_tensors_that_were_frozen_with_a_large_model_are_counted_and_stay_frozen():
    _, mib = live_tensors("cpu")
    model = torch.nn.Linear(1_024, 1_024, bias=False)  # 4 MiB
    gc.freeze()
    try:
        assert live_tensors("cpu")[1] == mib + 4
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    del model


def test_without_pytorch_there_is_nothing_to_count():
    assert live_tensors("cpu", modules={}) == (0, 0.0)
