"""Students with measured runs, for tests: the figures are those of the lab's own recordings."""

from __future__ import annotations

import io

import msgspec
from msgspec.structs import replace
from PIL import Image

from core.activities.make_images import ImageMade, MakeImagesResult, MakeImagesSettings
from core.engine.view import JobState, JobView
from core.recordings import replays
from core.telemetry.readings import Gpu, Machine, Recording, SummaryRow

CARD = Gpu(uuid="GPU-1", name="Test Card 12G", total_mib=12_288)
PC = Machine(cpu="Test CPU", cores=8, ram_mib=16_384, gpus=(CARD,))
HOSTILE = "<script>alert(1)</script> & 'a sneaker'"


def picture(shade: int = 128) -> bytes:
    file = io.BytesIO()
    Image.new("L", (4, 4), shade).save(file, "PNG")
    return file.getvalue()


def recorded_job(activity: str, *, student: str, number: int = 1) -> JobView:
    """A finished run with the settings and figures of the recording of this activity."""
    replay = replays(activity)[0]
    return JobView(
        id=f"{student}-{activity}-{number}",
        student=student,
        activity=activity,
        settings=replay.settings,
        state=JobState.DONE,
        device=CARD.uuid,
        submitted_at=1_790_000_000.0 + 60 * number,
        rows=replay.rows,
        recordings=replay.recordings,
        result={**replay.values, "device_name": CARD.name},
        pictures={"grid": picture()} if activity == "train-gan" else {},
    )


def drawing_job(*, student: str, prompt: str = HOSTILE, number: int = 1) -> JobView:
    """Two pictures of one sentence, drawn on the processor: nothing is known of a card."""
    settings = MakeImagesSettings(prompt=prompt, count=2)
    result = MakeImagesResult(
        model="mini-turbo",
        images=tuple(ImageMade(seed, 0.6, f"image-{seed}.png") for seed in range(2)),
        together=4,
        students=2,
        load_seconds=None,
        device_name=PC.cpu,
    )
    return JobView(
        id=f"{student}-make-images-{number}",
        student=student,
        activity="make-images",
        settings=msgspec.to_builtins(settings),
        state=JobState.DONE,
        device="cpu",
        submitted_at=1_790_000_500.0 + 60 * number,
        rows=(SummaryRow("draw", 1.25, cpu_percent_mean=181.5, samples=9),),
        result=msgspec.to_builtins(result),
        pictures={"image-0": picture(10), "image-1": picture(20)},
    )


def stopped_job(*, student: str) -> JobView:
    """A run of Part 1 that was stopped after its first section."""
    job = recorded_job("cpu-vs-gpu", student=student, number=2)
    first: tuple[Recording, ...] = job.recordings[:1]
    return replace(job, state=JobState.STOPPED, rows=(), recordings=first, result=None)
