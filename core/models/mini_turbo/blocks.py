"""The four blocks and the scheduler, in the classes sd-turbo uses; every size is an argument."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

SEATS = 77  # tokens of a sentence, padding included, as in CLIP
END_OF_WORD = "</w>"
LATENT_CHANNELS = 4
SHRINK = 4  # a latent is this much narrower than its picture: the VAE halves twice


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the blocks are. The defaults are what ships: 11.5 million parameters."""

    pixels: int = 64
    text_width: int = 192
    text_layers: int = 4
    text_heads: int = 4
    unet_channels: tuple[int, int, int] = (96, 144, 144)
    unet_heads: int = 3
    vae_channels: tuple[int, int, int] = (32, 64, 64)
    norm_groups: int = 16

    @property
    def latent(self) -> int:
        """Height and width of a latent."""
        return self.pixels // SHRINK


SHIPPED = Sizes()
TINY = Sizes(  # for tests: the same shapes of everything, next to no parameters
    text_width=32,
    text_layers=1,
    text_heads=2,
    unet_channels=(8, 16, 16),
    unet_heads=2,
    vae_channels=(8, 8, 8),
    norm_groups=4,
)


def train_tokenizer(sentences: Iterable[str], *, vocabulary: int = 1_600) -> CLIPTokenizer:
    """CLIP's byte-level BPE with pieces learnt from `sentences`: at most `vocabulary` of them.

    No word is unknown to it: what it has never seen falls into single letters or bytes.
    """
    clip = CLIPTokenizer().backend_tokenizer  # for the way it cuts a sentence into words
    learning = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=END_OF_WORD))
    learning.normalizer, learning.pre_tokenizer = clip.normalizer, clip.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        end_of_word_suffix=END_OF_WORD,
        special_tokens=[],
        min_frequency=40,  # rarer pieces are mistypings
        show_progress=False,
    )
    learning.train_from_iterator(sentences, trainer)

    return tokenizer_of(_merges(learning))


def tokenizer_of(merges: list[tuple[str, str]]) -> CLIPTokenizer:
    """The tokenizer that its merges describe, most common ones first."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys(
        [
            *letters,
            *(letter + END_OF_WORD for letter in letters),
            *(left + right for left, right in merges),
        ]
    )
    # The end comes last: CLIP's encoder reads the sentence's vector at the highest id it knows.
    tokens = [*pieces, "<|startoftext|>", "<|endoftext|>"]
    vocab = {token: place for place, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=SEATS)


def _merges(trained: Tokenizer) -> list[tuple[str, str]]:
    """The merges that a tokenizer has learnt, first ones first."""
    kept = json.loads(trained.to_str())["model"]["merges"]
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in kept)
    return [(left, right) for left, right in pairs]


def build_text_encoder(vocabulary: int, sizes: Sizes = SHIPPED) -> CLIPTextModel:
    """Token ids (B, 77) -> one vector a token (B, 77, text_width)."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary,
            hidden_size=sizes.text_width,
            intermediate_size=sizes.text_width * 4,
            projection_dim=sizes.text_width,
            num_hidden_layers=sizes.text_layers,
            num_attention_heads=sizes.text_heads,
            max_position_embeddings=SEATS,
            hidden_act="gelu",
            bos_token_id=vocabulary - 2,
            eos_token_id=vocabulary - 1,
            pad_token_id=vocabulary - 1,
        )
    )


def build_unet(sizes: Sizes = SHIPPED) -> UNet2DConditionModel:
    """Noisy latents (B, 4, 16, 16), levels (B,), words (B, 77, width) -> v, shaped as latents."""
    return UNet2DConditionModel(
        sample_size=sizes.latent,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        block_out_channels=sizes.unet_channels,
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=sizes.text_width,
        attention_head_dim=sizes.unet_heads,  # diffusers means the number of heads
        use_linear_projection=True,
        norm_num_groups=sizes.norm_groups,
    )


def build_vae(sizes: Sizes = SHIPPED) -> AutoencoderKL:
    """Pictures (B, 3, 64, 64) in -1..1 <-> latents (B, 4, 16, 16).

    The training folds the latents' mean and spread into the two 1x1 convolutions, so the scaling
    factor, 0.18215 for sd-turbo, is 1.
    """
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=sizes.vae_channels,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=sizes.norm_groups,
        sample_size=sizes.pixels,
        scaling_factor=1.0,
    )


def build_scheduler() -> EulerDiscreteScheduler:
    """sd-turbo's, but for the prediction.

    At the first noise level (14.6) an error in predicted noise grows 14.6-fold on its way into the
    picture; with v, one step is nearly "picture = minus the network's answer".
    """
    return EulerDiscreteScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        num_train_timesteps=1_000,
        prediction_type="v_prediction",
        timestep_spacing="trailing",
        steps_offset=1,
        interpolation_type="linear",
    )


def build_pipeline(
    tokenizer: CLIPTokenizer,
    text_encoder: CLIPTextModel,
    unet: UNet2DConditionModel,
    vae: AutoencoderKL,
) -> StableDiffusionPipeline:
    """The blocks as diffusers' pipeline; its `save_pretrained` writes the folder."""
    return StableDiffusionPipeline(
        tokenizer=tokenizer,
        text_encoder=text_encoder.eval(),
        unet=unet.eval(),
        vae=vae.eval(),
        scheduler=build_scheduler(),
        safety_checker=None,  # the lab checks prompts; there is nothing here it could draw
        feature_extractor=None,
        image_encoder=None,
        requires_safety_checker=False,
    )
