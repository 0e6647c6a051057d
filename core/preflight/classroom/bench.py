"""What the gates of one run share: settings, context, and the places that they look at.

Tests point a bench at broken places, or let it make broken networks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from core.activities.preflight import ClassroomSettings
from core.context import Context
from core.labs.dcgan import BATCH, NOISE, Gan
from core.labs.loading import prepared_batches
from core.safety import prompts
from core.settings import LabSettings
from core.telemetry.nvml import same_uuid

ROOT = Path(__file__).parents[3]


class ClassroomBench:
    """One run's. What is written here in the class is what the lab itself uses."""

    lock: Path = ROOT / "requirements.lock"
    direct: Path = ROOT / "requirements.txt"
    site: Sequence[str] | None = None  # where packages are looked for; None: where Python does
    rules: Path = prompts.BUILT_IN
    batch = BATCH  # pictures of a step; a test takes fewer
    disk_mib = 300.0  # prepared digits, results, uploads
    disk_wished_mib = 1_024.0
    ram_mib = 1_500.0  # one worker that trains beside one that draws
    ram_wished_mib = 4_096.0
    lesson_minutes = 90.0
    measured_seconds = 5.0  # of each rate, at least,
    measured_steps = 6  # and so many steps
    warm_up_steps = 2  # before them

    def __init__(self, settings: ClassroomSettings, context: Context) -> None:
        self.settings = settings
        self.context = context
        self.device = torch.device(context.device)

    @property
    def lab(self) -> LabSettings:
        return self.context.lab

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def gpu_uuid(self) -> str | None:
        """As NVML writes it; None on a CPU."""
        if not self.on_gpu:
            return None
        uuid = str(torch.cuda.get_device_properties(self.device).uuid)
        known = (gpu.uuid for gpu in self.context.machine.gpus)
        return next((one for one in known if same_uuid(one, uuid)), f"GPU-{uuid}")

    @property
    def address(self) -> str:
        """What students will type; this server's own where the settings name none; "": unknown.

        Streamlit's own variables tell a server's port; the page fills the setting in, since a
        worker cannot know how its server was started.
        """
        if self.settings.address.strip():
            return self.settings.address.strip()
        port = os.environ.get("STREAMLIT_SERVER_PORT", "")
        path = os.environ.get("STREAMLIT_SERVER_BASE_URL_PATH", "").strip("/")
        return f"http://localhost:{port}/{path}" if port.isdigit() else ""

    def make_gan(self) -> Gan:
        """Fresh networks; PyTorch's random numbers decide the weights."""
        return Gan(self.device)

    def seeded_gan(self, seed: int) -> Gan:
        torch.manual_seed(seed)
        return self.make_gan()

    def batches(self, count: int) -> Tensor:
        """(count, batch, 1, 28, 28) of the class's digits, on the device."""
        whole = prepared_batches(self.context.digits().images, count, device=self.device)
        return whole[:, : self.batch]

    def noise(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.batch, NOISE, 1, 1, generator=generator, device=self.device)


@contextmanager
def same_sums() -> Iterator[None]:
    """In this block cuDNN takes kernels that sum in the same order every time."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
