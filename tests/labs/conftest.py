from __future__ import annotations

import pytest

from core.models.image_models import ImageModel


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> ImageModel:
    """mini-turbo's classes, tiny and untrained. What stays loaded serves the next test too."""
    from tests.labs.picture_lab import tiny_model  # only whoever asks for it waits for diffusers

    return tiny_model(tmp_path_factory.mktemp("model"))
