"""Part 3: settings and results of making pictures from words."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, Lane, Limit, OneOf, TextLimit, Together

MINI_TURBO, SD_TURBO = "mini-turbo", "sd-turbo"
IMAGE_MODELS = (MINI_TURBO, SD_TURBO)

# GPU memory in MiB: what a model takes once loaded, and what drawing takes on top, the CUDA
# context included. For sd-turbo in half precision: 2.47 GB reserved after loading, about 3.5 GB
# of the card while it draws; 1 GB of margin.
MODEL_MIB = {MINI_TURBO: 100, SD_TURBO: 2_600}
RUN_MIB = 1_900

PROMPT_CHARACTERS = 300
MOST_TOGETHER = 32  # pictures of different students in one batch; a smaller card halves it itself

Prompt = Annotated[str, TextLimit(PROMPT_CHARACTERS)]
Model = Annotated[str, OneOf(IMAGE_MODELS)]
Seed = Annotated[int, Limit(0, 9_999)]

EXAMPLE = "a red sneaker on a white background"


class MakeImagesSettings(ActivitySettings, frozen=True):
    """Part 3: `count` pictures of one sentence, with seeds `seed`, `seed` + 1, ..."""

    prompt: Prompt = EXAMPLE
    seed: Seed = 0
    count: Annotated[int, Limit(1, 8)] = 1
    steps: Annotated[int, Limit(1, 4)] = 1
    model: Model = MINI_TURBO


class ImageMade(msgspec.Struct, frozen=True):
    """One picture of a job."""

    seed: int
    seconds: float  # from the start of the run that drew it until it was a finished picture
    file: str  # its name when saved: the name of its `Drawn` event and ".png"
    obeyed: dict[str, bool] = {}  # what the judge sees of what was asked; empty: nobody judges


class MakeImagesResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "make-images". `Drawn`: "image-0", "image-1", ..."""

    model: str
    images: tuple[ImageMade, ...]
    together: int  # pictures, of all students, that were drawn in this run
    students: int  # that it served
    load_seconds: float | None  # None: the model was in memory already
    device_name: str


class BlockFacts(msgspec.Struct, frozen=True):
    """One block of a loaded pipeline, counted on the loaded module itself."""

    name: str  # "tokenizer", "text_encoder", "unet", "vae" or "scheduler"
    kind: str  # its class
    parameters: int  # 0 for a block without weights
    mib: float  # that its weights take in memory
    dtype: str  # "float16", or "" where there are no weights


class EightPicturesSettings(ActivitySettings, frozen=True):
    """The lab's own run: four sentences, eight pictures, seeds one after another."""

    prompt_1: Prompt = "a red sneaker on a white background"
    prompt_2: Prompt = "một chiếc váy màu tím trên nền vàng"
    prompt_3: Prompt = "a green handbag on a pink background"
    prompt_4: Prompt = "chữ số bảy màu trắng trên nền xanh dương"
    seed: Seed = 0
    model: Model = MINI_TURBO

    @property
    def prompts(self) -> tuple[str, ...]:
        return self.prompt_1, self.prompt_2, self.prompt_3, self.prompt_4


class EightPicturesResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "eight-pictures". Sections: "load", "first", "draw"."""

    model: str
    blocks: tuple[BlockFacts, ...]
    load_seconds: float
    first_seconds: float  # the warm-up picture, a row of its own: the first costs more
    images: tuple[ImageMade, ...]
    reserved_mib: float | None  # by PyTorch after loading; None on a CPU
    device_name: str


class PictureInsideSettings(ActivitySettings, frozen=True):
    """How one picture comes about: words, noise, latent, picture; with 1, 2 and 4 steps."""

    prompt: Prompt = EXAMPLE
    seed: Seed = 0
    model: Model = MINI_TURBO


class PictureInsideResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "picture-inside".

    `Drawn`: "noise" and "latent" (their channels side by side), "steps-1", "steps-2", "steps-4".
    """

    model: str
    tokens: tuple[str, ...]  # the pieces that the tokenizer cuts the sentence into
    seats: int  # that the text encoder has, padding included
    blocks: tuple[BlockFacts, ...]
    latent_shape: tuple[int, int, int]  # channels, height, width
    pixels: int
    seconds: dict[str, float]  # of "text", "unet" and "vae" for one picture with one step
    steps: tuple[int, ...]  # step counts drawn side by side
    device_name: str


class ImageSpeedSettings(ActivitySettings, frozen=True):
    """A ladder of ways to draw faster, each measured beside the plain one."""

    model: Model = MINI_TURBO
    repeats: Annotated[int, Limit(3, 30)] = 5


class PreparePicturesSettings(ActivitySettings, frozen=True):
    """Before the class: the model in memory, compiled where this device can."""

    model: Model = MINI_TURBO


class PreparePicturesResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "prepare-pictures"."""

    model: str
    seconds: float
    not_compiled: str | None  # catalogue id of the reason; None: compiled
    device_name: str


class Rung(msgspec.Struct, frozen=True):
    """One way of drawing, measured: warmed up, synchronised, repeated."""

    name: str  # "plain", "cached_words", "channels_last", "graph", "compiled" or "small_vae"
    batch: int
    ms_median: float  # for one batch
    ms_low: float
    ms_high: float
    pictures_per_second: float
    difference: float  # largest difference of a pixel from the plain way's, 0 to 1


class ImageSpeedResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "image-speed"."""

    model: str
    rungs: tuple[Rung, ...]
    skipped: dict[str, str]  # name of a rung -> catalogue id of the reason
    copy_mib: float  # that one copy of the model takes
    device_name: str


def _model(settings: object) -> tuple[str, int]:
    name = str(getattr(settings, "model", MINI_TURBO))
    return name, MODEL_MIB[name]


MAKE_IMAGES = Activity(
    id="make-images",
    settings=MakeImagesSettings,
    entry="core.labs.make_images:run",
    lane=Lane.INFER,
    need_mib=RUN_MIB,
    work=("count", "steps"),
    result=MakeImagesResult,
    together=Together(
        entry="core.labs.make_images:run_together",
        alike=("model", "steps"),
        weight="count",
        most=MOST_TOGETHER,
    ),
    model=_model,
)
EIGHT_PICTURES = Activity(
    id="eight-pictures",
    settings=EightPicturesSettings,
    entry="core.labs.eight_pictures:run",
    lane=Lane.INFER,
    need_mib=RUN_MIB,
    work=(),
    result=EightPicturesResult,
    model=_model,
)
PICTURE_INSIDE = Activity(
    id="picture-inside",
    settings=PictureInsideSettings,
    entry="core.labs.picture_inside:run",
    lane=Lane.INFER,
    need_mib=RUN_MIB,
    work=(),
    result=PictureInsideResult,
    recorded=False,
    model=_model,
)
IMAGE_SPEED = Activity(
    id="image-speed",
    settings=ImageSpeedSettings,
    entry="core.labs.image_speed:run",
    lane=Lane.INFER,
    need_mib=RUN_MIB,
    work=("repeats",),
    result=ImageSpeedResult,
    metered=False,
    model=_model,
)
PREPARE_PICTURES = Activity(
    id="prepare-pictures",
    settings=PreparePicturesSettings,
    entry="core.labs.prepare_pictures:run",
    lane=Lane.INFER,
    need_mib=RUN_MIB,
    work=(),
    result=PreparePicturesResult,
    recorded=False,
    model=_model,
)
