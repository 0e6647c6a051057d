"""The text-to-image model in memory: loading it, and drawing with it.

A pipeline has one owner, the worker of the lane that draws; requests of all students go through it
one batch at a time. Every picture starts from noise of its own seed, made on the CPU, so that it
depends neither on the pictures beside it nor on the batch's size nor on the device's random
numbers. Alone or in a batch, what differs is rounding: at most `TOLERANCE` of 255 in any pixel.
"""

from __future__ import annotations

import functools
import gc
import logging
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoPipelineForText2Image
from diffusers.utils import logging as diffusers_logging
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from transformers.utils import logging as transformers_logging

from core.activities.make_images import MINI_TURBO, BlockFacts
from core.context import Context
from core.events import AnyEvent, Measured, Staged
from core.labs.device import give_memory_back, wait_for
from core.labs.picture_graphs import PictureGraph
from core.models.image_models import ImageModel
from core.models.in_memory import models_in_memory
from core.models.mini_turbo.obey import load_judge
from core.models.mini_turbo.words import understand
from core.problems import Problem

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]  # latents, time, words -> answer
Decode = Callable[[Tensor], Tensor]  # latents -> pictures (B, 3, height, width), about -1..1
Pixels = NDArray[np.uint8]  # (height, width, 3)
Pictures = NDArray[np.uint8]  # (N, height, width, 3)

# Of 255, between the same sentence and seed alone and in a batch. Libraries choose other kernels
# for other sizes: float32 on a CPU rounds a level apart, half precision on a card a few more.
TOLERANCE = {"cpu": 1, "cuda": 16}

MIB = 2**20
BLOCKS = ("tokenizer", "text_encoder", "unet", "vae", "scheduler")  # in the order of their work
GRAPH_SIZES = (1, 2, 4, 8, 16, 32)  # batches that are captured; others are filled up to the next

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """One picture to be drawn."""

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the scheduler's plan, from one noise level to the next."""

    time: Tensor  # (), as the U-Net is told it, on the device
    sigma: float
    next_sigma: float


class ImagePipeline:
    """One loaded model on one device."""

    def __init__(self, pipe: Any, model: ImageModel, device: torch.device) -> None:
        self.model, self.device = model, device
        self.tokenizer: Any = pipe.tokenizer
        self.text_encoder: Any = pipe.text_encoder
        self.unet: Any = pipe.unet
        self.vae: Any = pipe.vae
        self.scheduler: Any = pipe.scheduler
        self.graphs = device.type == "cuda"  # draw by replaying captured graphs
        self.predict, self.decode = self.own_blocks()  # what `denoise` and `develop` call
        self._sizes: tuple[int, ...] = GRAPH_SIZES
        self._judge = load_judge(model.folder, device) if model.id == MINI_TURBO else None
        self._captured: dict[tuple[int, int], PictureGraph] = {}  # (pictures, steps) -> its graph
        self._pool: Any = None  # of memory, for all graphs
        self._plans: dict[int, tuple[Step, ...]] = {}

    @classmethod
    def load(cls, model: ImageModel, device: torch.device) -> ImagePipeline:
        """From the model's folder alone, never from the network; half precision on a card.

        Raises Problem where the folder cannot be read as such a model.
        """
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        diffusers_logging.disable_progress_bar()  # type: ignore[no-untyped-call,unused-ignore]
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call,unused-ignore]
        try:
            pipe = AutoPipelineForText2Image.from_pretrained(
                model.folder,
                # Always: without it each library keeps what it likes, and the blocks do not fit.
                dtype=dtype,
                variant=model.variant,
                local_files_only=True,
                use_safetensors=True,  # no pickle: nothing to execute in the files
                low_cpu_mem_usage=False,  # would ask for another library
                safety_checker=None,  # the lab checks the words; these models have no such block
                requires_safety_checker=False,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            log.warning("the model in %s cannot be loaded: %s", model.folder, error)
            raise Problem("problem.image_model_broken", model=model.id) from None
        pipe.to(device)
        for block in (pipe.text_encoder, pipe.unet, pipe.vae):
            block.eval().requires_grad_(False)
        loaded = cls(pipe, model, device)
        found = next(loaded.unet.parameters()).dtype
        if found != dtype:  # a renamed argument once left float32, at twice the memory
            raise AssertionError(f"the U-Net is {found}, asked for was {dtype}")
        return loaded

    # --- what it is ---

    def blocks(self) -> tuple[BlockFacts, ...]:
        """The blocks as they lie in memory."""
        return tuple(_facts(name, getattr(self, name)) for name in BLOCKS)

    @property
    def seats(self) -> int:
        """Tokens of a sentence, padding included."""
        return int(self.tokenizer.model_max_length)

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        shrink = 2 ** (len(self.vae.config.block_out_channels) - 1)
        side = self.model.pixels // shrink
        return int(self.unet.config.in_channels), side, side

    @property
    def most_at_once(self) -> int:
        """Pictures in a batch. A CPU gains little by large ones, and the first come later."""
        if self.device.type == "cuda":
            return min(self.model.most_at_once, max(self._sizes))
        return min(self.model.most_at_once, 8 if self.model.pixels <= 128 else 1)

    # --- drawing ---

    @torch.inference_mode()
    def draw(self, orders: Sequence[Order], steps: int = 1) -> Pictures:
        """The pictures of one batch, in the order of the orders; returns when they are done.

        Raises torch.OutOfMemoryError where so many at once are too many.
        """
        ids = self.ids([order.prompt for order in orders])
        noise = self.noise([order.seed for order in orders])
        if self.graphs:
            pictures = self._replayed(ids, noise, steps)
        else:
            pictures = self.picture(ids.to(self.device), noise.to(self.device), steps)
        drawn: Pictures = pictures.cpu().numpy()  # waits for the device
        return drawn

    def obeyed(self, prompt: str, picture: Pixels) -> dict[str, bool]:
        """What the judge sees of what was asked; empty where there is no judge."""
        if self._judge is None:
            return {}
        return self._judge.look(Image.fromarray(picture)).obeys(understand(prompt).asked)

    def ids(self, prompts: Sequence[str]) -> Tensor:
        """Sentences -> token ids (B, seats), on the CPU; what is too long is cut off."""
        tokens = self.tokenizer(
            list(prompts),
            padding="max_length",
            max_length=self.seats,
            truncation=True,
            return_tensors="pt",
        )
        ids: Tensor = tokens.input_ids
        return ids

    def noise(self, seeds: Sequence[int]) -> Tensor:
        """Seeds -> noise (B, channels, height, width) in float32, on the CPU, each of its own."""
        generators = (torch.Generator().manual_seed(seed) for seed in seeds)
        return torch.stack([torch.randn(self.latent_shape, generator=each) for each in generators])

    def picture(self, ids: Tensor, noise: Tensor, steps: int) -> Tensor:
        """Token ids and noise -> pictures (B, height, width, 3), uint8; all on the device."""
        return self.develop(self.denoise(self.read(ids), noise, steps))

    def read(self, ids: Tensor) -> Tensor:
        """Token ids (B, seats) -> one vector a token (B, seats, width)."""
        words: Tensor = self.text_encoder(ids)[0]
        return words

    def denoise(self, words: Tensor, noise: Tensor, steps: int) -> Tensor:
        """Noise -> latents, by as many calls of the U-Net as there are steps (Euler's method).

        diffusers' EulerDiscreteScheduler makes the plan. Its arithmetic is repeated here, since
        its own counts steps in Python and reads the device, which a CUDA graph cannot hold.
        """
        x = noise * float(self.scheduler.init_noise_sigma)
        for step in self.plan(steps):
            scaled = x / (step.sigma**2 + 1) ** 0.5
            answer = self.predict(scaled.to(words.dtype), step.time, words).float()
            clean = self._cleaned(x, answer, step.sigma)
            x = x + (x - clean) / step.sigma * (step.next_sigma - step.sigma)
        return x

    def _cleaned(self, x: Tensor, answer: Tensor, sigma: float) -> Tensor:
        """The picture that the U-Net believes to be behind the noise."""
        if self.scheduler.config.prediction_type == "epsilon":  # it names the noise
            return x - answer * sigma
        root: float = (sigma**2 + 1) ** 0.5
        return x / (sigma**2 + 1) - answer * (sigma / root)  # "v_prediction"

    def develop(self, latents: Tensor) -> Tensor:
        """Latents -> pictures (B, height, width, 3): -1..1 becomes 0..255, the rest is cut."""
        decoded = self.decode(latents.to(self.unet.dtype)).float()
        return decoded.mul(127.5).add(127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1)

    def plan(self, steps: int) -> tuple[Step, ...]:
        """The scheduler's noise levels for so many steps; made once, since graphs point at it."""
        if steps not in self._plans:
            self.scheduler.set_timesteps(steps, device=self.device)
            sigmas = self.scheduler.sigmas.tolist()
            self._plans[steps] = tuple(
                Step(time, sigma, next_sigma)
                for time, sigma, next_sigma in zip(
                    self.scheduler.timesteps.clone(), sigmas[:-1], sigmas[1:], strict=True
                )
            )
        return self._plans[steps]

    # --- graphs ---

    def _replayed(self, ids: Tensor, noise: Tensor, steps: int) -> Tensor:
        count = len(ids)
        size = min((size for size in self._sizes if size >= count), default=count)
        filling = [count - 1] * (size - count)  # the last once more: thrown away below
        places = [*range(count), *filling]
        graph = self.graph(size, steps)
        return graph.replay(ids[places], noise[places])[:count]

    def graph(self, size: int, steps: int) -> PictureGraph:
        """The graph of so many pictures; its first use captures it, which takes a second or so."""
        key = size, steps
        if key not in self._captured:
            self.plan(steps)  # a capture may not copy from the CPU
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._captured[key] = PictureGraph(
                functools.partial(self.picture, steps=steps),
                ids=self.ids([""] * size).to(self.device),
                noise=self.noise(range(size)).to(self.device),
                pool=self._pool,
            )
        return self._captured[key]

    def own_blocks(self) -> tuple[Predict, Decode]:
        """U-Net and VAE as they were loaded."""
        return functools.partial(_predicted, self.unet), functools.partial(_decoded, self.vae)

    def draw_with(
        self, predict: Predict, decode: Decode, sizes: tuple[int, ...] = GRAPH_SIZES
    ) -> None:
        """Other writings of U-Net and VAE take over, such as ones compiled for these sizes."""
        self.forget_graphs()
        self.predict, self.decode, self._sizes = predict, decode, sizes

    def forget_graphs(self) -> None:
        """To be called before weights move or a block is exchanged: graphs hold addresses."""
        wait_for(self.device)
        self._captured.clear()
        self._pool = None  # PyTorch takes no pool again whose graphs are all gone


def _predicted(unet: Any, latents: Tensor, time: Tensor, words: Tensor) -> Tensor:
    answer: Tensor = unet(latents, time, encoder_hidden_states=words, return_dict=False)[0]
    return answer


def _decoded(vae: Any, latents: Tensor) -> Tensor:
    """Latents -> pictures (B, 3, height, width) in about -1..1."""
    decoded: Tensor = vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]
    return decoded


def _facts(name: str, block: Any) -> BlockFacts:
    weights = list(block.parameters()) if isinstance(block, nn.Module) else []
    return BlockFacts(
        name=name,
        kind=type(block).__name__,
        parameters=sum(weight.numel() for weight in weights),
        mib=sum(weight.nbytes for weight in weights) / MIB,
        dtype=", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights})),
    )


class Owner:
    """Holds at most one pipeline, the one copy that serves everybody."""

    def __init__(self) -> None:
        self._pipeline: ImagePipeline | None = None

    def holds(self, model: ImageModel, device: torch.device) -> bool:
        held = self._pipeline
        return held is not None and (held.model, held.device) == (model, device)

    def pipeline(self, model: ImageModel, device: torch.device) -> ImagePipeline:
        """The model in memory, loaded if need be; another one goes first, with its memory."""
        if not self.holds(model, device):
            self.drop()
            self._pipeline = ImagePipeline.load(model, device)
            models_in_memory().note(model.id, self.drop)
            gc.collect()
            gc.freeze()  # a model is a million objects, to be walked after every job otherwise
        assert self._pipeline is not None
        return self._pipeline

    def drop(self) -> None:
        """Give the model's memory back."""
        if self._pipeline is None:
            return
        models_in_memory().gone(self._pipeline.model.id)
        device, self._pipeline = self._pipeline.device, None
        if "torch._dynamo" in sys.modules:  # what it compiled knows the weights
            torch.compiler.reset()
        gc.unfreeze()
        gc.collect()
        give_memory_back(device)


@functools.cache
def owner() -> Owner:
    """This process's owner of the model. Not `lru_cache(maxsize=1)` on the pipeline itself: that
    would let go of the old one only after loading the new one, and hold both for a moment."""
    return Owner()


def held(model: ImageModel, device: torch.device) -> ImagePipeline:
    """The pipeline of this process, loaded where it is not in memory yet."""
    return owner().pipeline(model, device)


def loading(
    model: ImageModel, context: Context, device: torch.device
) -> Generator[AnyEvent, None, ImagePipeline]:
    """The pipeline of this process; where it has to be loaded, under the meter and told."""
    if not owner().holds(model, device):
        yield Staged("stage.image_load")
        with context.meter.section("load") as section:
            held(model, device)
            wait_for(device)
        yield Measured(section.recording)
    return held(model, device)
