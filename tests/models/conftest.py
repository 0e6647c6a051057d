"""For the tests of models: weights that are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the weights of all stages of mini-turbo, tiny, two steps each."""
    import torch

    from core.models.mini_turbo.train import STAGES, train
    from tests.models.tiny_training import HOW, made_up_material, tiny_run

    out = tmp_path_factory.mktemp("trained")
    with torch.random.fork_rng(devices=[]):
        for stage in STAGES:
            train(stage, tiny_run(out), made_up_material(), HOW)
    return out
