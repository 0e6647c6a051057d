"""What the lab can use beyond its own code: its licence, where it lies, whether it is whole.

Some of it comes with the lab; the rest a teacher fetches, once, with the licence read: nothing here
is ever downloaded by a student's click. Needs no torch.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from core.activities.attack import LITE_0, LITE_1, RESNET_18
from core.activities.make_images import MINI_TURBO, SD_TURBO
from core.context import never
from core.models import judge
from core.models.classifier_files import LITE_FILES, RESNET_FILE
from core.models.download import FetchFailed, Origin, Proof, download, look_up
from core.models.image_models import image_models
from core.models.stored_blocks import stored_blocks
from core.problems import Notice, Problem
from core.settings import LabSettings

TAESD, DIGIT_JUDGE = "taesd", "digit-judge"

HUB = "https://huggingface.co"
# The hub is asked for one revision of each, so that no later change slips in.
SD_TURBO_HOME = ("stabilityai/sd-turbo", "b261bac6fd2cf515557d5d0707481eafa0485ec2")
TAESD_HOME = ("madebyollin/taesd", "614f76814bbe30edbe2e627ace1c2234c81a2c0e")
SD_TURBO_FILES = (
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "tokenizer/merges.txt",
    "tokenizer/special_tokens_map.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/vocab.json",
    "unet/config.json",
    "vae/config.json",
    "vae/diffusion_pytorch_model.fp16.safetensors",
    "text_encoder/model.fp16.safetensors",
    "unet/diffusion_pytorch_model.fp16.safetensors",
    "model_index.json",  # last: it is what makes the folder a model, see image_models
)
RESNET_SHA256 = "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"

MIB = 2**20
SPARE_MIB = 256  # of the disk that a download leaves free
RECORD = "fetched.json"  # beside the files: when they came, and how each was proven

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Licence:
    """Under which terms something may be used."""

    name: str
    page: str
    accept: bool = False  # no free licence: a teacher reads and accepts `asset.terms.<id>` first


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file to be fetched."""

    name: str  # below the asset's folder
    address: str
    sha256: str | None = None  # where it is known for sure; else the server's own is asked for


@dataclass(frozen=True, slots=True)
class Asset:
    """One thing that the lab can use; `asset.use.<id>` in the catalogues says what for."""

    id: str
    folder: Path | None  # where it lies or would lie; None: its package is not installed
    mib: float  # on disk, about
    licence: Licence
    page: str  # where it comes from
    whole: Callable[[Path], bool]  # whether its folder holds all of it
    files: tuple[RemoteFile, ...] = ()  # empty: comes with the lab


class State(StrEnum):
    """`asset.state.<value>` in the catalogues names it."""

    HERE = "here"
    BEGUN = "begun"  # a fetch was stopped; the next one goes on from there
    BROKEN = "broken"  # something is there, but not whole
    MISSING = "missing"


def assets(settings: LabSettings) -> dict[str, Asset]:
    """Everything by its id, those that come with the lab first."""
    everything = (
        Asset(
            id=MINI_TURBO,
            folder=image_models(settings)[MINI_TURBO].folder,
            mib=23,
            licence=Licence("MIT", "LICENSE"),
            page="core/models/mini_turbo",
            whole=_is_pipeline,
        ),
        Asset(
            id=DIGIT_JUDGE,
            folder=judge.WEIGHTS.parent,
            mib=judge.weights_bytes() / MIB,
            licence=Licence("MIT", "LICENSE"),
            page="core/models/judge/MODEL_CARD.md",
            whole=lambda folder: (folder / judge.WEIGHTS.name).is_file(),
        ),
        _packaged(LITE_0, mib=18),
        _packaged(LITE_1, mib=21),
        _fetched(
            settings,
            SD_TURBO,
            mib=2_462,
            licence=Licence(
                "Stability AI Community License",
                f"{HUB}/{SD_TURBO_HOME[0]}/blob/main/LICENSE.md",
                accept=True,
            ),
            page=f"{HUB}/{SD_TURBO_HOME[0]}",
            files=_on_the_hub(*SD_TURBO_HOME, SD_TURBO_FILES),
        ),
        _fetched(
            settings,
            TAESD,
            mib=9.4,
            licence=Licence("MIT", f"{HUB}/{TAESD_HOME[0]}"),
            page=f"{HUB}/{TAESD_HOME[0]}",
            files=_on_the_hub(*TAESD_HOME, ("config.json", "diffusion_pytorch_model.safetensors")),
        ),
        _fetched(
            settings,
            RESNET_18,
            mib=44.7,
            licence=Licence("BSD-3", "https://github.com/pytorch/vision/blob/main/LICENSE"),
            page="https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.resnet18.html",
            files=(
                RemoteFile(
                    RESNET_FILE,
                    f"https://download.pytorch.org/models/{RESNET_FILE}",
                    RESNET_SHA256,
                ),
            ),
        ),
    )
    return {asset.id: asset for asset in everything}


def state_of(asset: Asset) -> State:
    """Whether it is here and whole, by names and sizes; `fetch` reads the bytes themselves."""
    if asset.folder is None:
        return State.MISSING
    if asset.whole(asset.folder):
        return State.HERE
    if asset.files and _beside(asset.folder, "part").is_dir():
        return State.BEGUN
    there = asset.folder.is_dir() and any(asset.folder.iterdir())
    return State.BROKEN if there and asset.files else State.MISSING


class FetchedFile(msgspec.Struct, frozen=True):
    """How one file was proven."""

    size: int
    checksum: str
    origin: Origin


class Record(msgspec.Struct, frozen=True):
    """What `RECORD` holds beside fetched files."""

    asset: str
    fetched_at: float  # Unix time
    licence: str
    accepted: bool  # by whoever fetched it
    files: dict[str, FetchedFile]


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a fetch is, all files together."""

    file: str
    done: int  # bytes
    total: int
    seconds_left: float | None


def ignore(_told: object) -> None:
    pass


def free_mib(folder: Path) -> float:
    return shutil.disk_usage(folder).free / MIB


def fetch(
    asset: Asset,
    settings: LabSettings,
    *,
    accepted: bool = False,
    on_progress: Callable[[FetchProgress], None] = ignore,
    on_notice: Callable[[Notice], None] = ignore,
    stopped: Callable[[], bool] = never,
    free: Callable[[Path], float] = free_mib,
) -> bool:
    """Bring all files of `asset` to its folder. For teachers: callers make sure of that.

    What is there already is read and kept, or told (`on_notice`) and removed; what an earlier
    fetch left is continued. The folder appears when everything is in it. False: stopped before.

    Raises Problem where it may not be done (licence, offline, nothing to fetch), and FetchFailed
    where it did not work.
    """
    if not asset.files or asset.folder is None:
        raise Problem("problem.asset_ships", asset=asset.id)
    if settings.offline:
        raise Problem("problem.asset_offline", asset=asset.id)
    if asset.licence.accept and not accepted:
        raise Problem(
            "problem.asset_licence",
            asset=asset.id,
            licence=asset.licence.name,
            page=asset.licence.page,
        )
    try:
        asset.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(_beside(asset.folder, "lock"), timeout=0):
            return _Fetch(asset, asset.folder, on_progress, on_notice, stopped).run(accepted, free)
    except Timeout:
        raise FetchFailed("problem.asset_busy", asset=asset.id) from None
    except OSError as error:
        _log.warning("fetching %s: %r", asset.id, error)
        reason = error.strerror or type(error).__name__
        raise FetchFailed(
            "problem.asset_disk", folder=str(asset.folder.parent), reason=reason
        ) from None


class _Fetch:
    """One fetch under way; the lock is held."""

    def __init__(
        self,
        asset: Asset,
        folder: Path,
        on_progress: Callable[[FetchProgress], None],
        on_notice: Callable[[Notice], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._asset, self._folder = asset, folder
        self._staging = _beside(folder, "part")
        self._on_progress, self._on_notice, self._stopped = on_progress, on_notice, stopped

    def run(self, accepted: bool, free: Callable[[Path], float]) -> bool:
        proofs: dict[RemoteFile, Proof] = {}
        for file in self._asset.files:
            if self._stopped():
                return False
            proofs[file] = look_up(file.address, file.sha256)
        missing = [file for file in self._asset.files if not self._is_here(file, proofs[file])]
        done = {file: self._bytes_of(file) for file in missing}
        self._make_room(sum(proofs[file].size - done[file] for file in missing), free)

        total = sum(proof.size for proof in proofs.values())
        before = total - sum(proofs[file].size for file in missing)
        clock = _Clock(before + sum(done.values()), total)
        for file in missing:
            later = sum(done[other] for other in missing if other is not file)

            def tell(here: int, file: RemoteFile = file, elsewhere: int = before + later) -> None:
                left = clock.seconds_left(elsewhere + here)
                self._on_progress(FetchProgress(file.name, elsewhere + here, total, left))

            if not self._bring(file, proofs[file], tell):
                return False
            done[file] = proofs[file].size
        self._settle(_record(self._asset, accepted, proofs))
        return True

    def _is_here(self, file: RemoteFile, proof: Proof) -> bool:
        """Whether the right bytes lie in the folder or are staged; wrong ones are removed."""
        for path in (self._folder / file.name, self._staging / file.name):
            if proof.holds(path):
                return True
            if path.exists():
                path.unlink()
                self._on_notice(Notice("problem.asset_broken", {"file": str(path)}))
        return False

    def _bytes_of(self, file: RemoteFile) -> int:
        part = self._part(file)
        return part.stat().st_size if part.exists() else 0

    def _make_room(self, needed: int, free: Callable[[Path], float]) -> None:
        room = free(self._folder.parent)
        if needed / MIB + SPARE_MIB > room:
            raise FetchFailed(
                "problem.asset_space",
                folder=str(self._folder.parent),
                needed=needed / MIB + SPARE_MIB,
                free=room,
            )

    def _bring(self, file: RemoteFile, proof: Proof, tell: Callable[[int], None]) -> bool:
        """Stage one file. False: stopped. Raises FetchFailed where it is not what it should be."""
        part = self._part(file)
        part.parent.mkdir(parents=True, exist_ok=True)
        if not download(file.address, proof, part, on_bytes=tell, stopped=self._stopped):
            return False
        if not proof.holds(part):
            part.unlink()
            raise FetchFailed("problem.asset_checksum", file=file.name)
        part.replace(self._staging / file.name)
        return True

    def _part(self, file: RemoteFile) -> Path:
        return self._staging / f"{file.name}.part"

    def _settle(self, record: Record) -> None:
        """Put what is staged in its place: at once where nothing lies there yet."""
        self._staging.mkdir(exist_ok=True)
        (self._staging / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
        if not self._folder.exists():
            self._staging.replace(self._folder)
            return
        for name in (*(file.name for file in self._asset.files), RECORD):
            if (self._staging / name).exists():
                (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self._staging / name).replace(self._folder / name)
        shutil.rmtree(self._staging)


class _Clock:
    """How long the rest takes, by what came so far."""

    def __init__(self, begun_with: int, total: int) -> None:
        self._begun_with, self._total = begun_with, total
        self._start = time.monotonic()

    def seconds_left(self, done: int) -> float | None:
        seconds = time.monotonic() - self._start
        if seconds < 1 or done <= self._begun_with:  # too early to say
            return None
        return (self._total - done) * seconds / (done - self._begun_with)


def _record(asset: Asset, accepted: bool, proofs: dict[RemoteFile, Proof]) -> Record:
    return Record(
        asset=asset.id,
        fetched_at=time.time(),
        licence=asset.licence.name,
        accepted=accepted,
        files={
            file.name: FetchedFile(proof.size, proof.checksum, proof.origin)
            for file, proof in proofs.items()
        },
    )


def read_record(folder: Path) -> Record | None:
    """How the files of a folder were fetched; None where they were put there by hand."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def _packaged(name: str, *, mib: float) -> Asset:
    """A classifier inside a package of its own."""
    package, file = LITE_FILES[name]
    return Asset(
        id=name,
        folder=_package_folder(package),
        mib=mib,
        licence=Licence("Apache 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
        page=f"https://github.com/ml-illustrated/{package}",
        whole=lambda folder: (folder / "models" / file).is_file(),
    )


def _fetched(
    settings: LabSettings,
    name: str,
    *,
    mib: float,
    licence: Licence,
    page: str,
    files: tuple[RemoteFile, ...],
) -> Asset:
    """An asset that is fetched to a folder of its own."""

    def whole(folder: Path) -> bool:
        record = read_record(folder)
        sizes = {} if record is None else {name: f.size for name, f in record.files.items()}
        return all(_has(folder / file.name, sizes.get(file.name)) for file in files)

    return Asset(name, settings.models / name, mib, licence, page, whole, files)


def _has(path: Path, size: int | None) -> bool:
    """A file of this size; of any size but none where that is not known."""
    there = path.stat().st_size if path.is_file() else 0
    return there > 0 if size is None else there == size


def _on_the_hub(name: str, revision: str, files: tuple[str, ...]) -> tuple[RemoteFile, ...]:
    """`HF_ENDPOINT` names a mirror of the hub, as it does for the hub's own tools."""
    hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
    return tuple(RemoteFile(file, f"{hub}/{name}/resolve/{revision}/{file}") for file in files)


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f"{folder.name}.{kind}")


def _package_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def _is_pipeline(folder: Path) -> bool:
    try:
        parameters = {block.name: block.parameters for block in stored_blocks(folder)}
        return all(parameters[block] for block in ("text_encoder", "unet", "vae"))
    except (OSError, ValueError, KeyError):
        return False
