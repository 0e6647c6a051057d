"""The machine: its packages, its device, its meter, and the room that is left."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import itertools
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from msgspec.structs import asdict
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from core.activities import ACTIVITIES
from core.activities.base import Lane
from core.activities.make_images import MODEL_MIB
from core.events import Progressed
from core.labs.device import wait_for
from core.models.image_models import default_image_model
from core.preflight.classroom.bench import ClassroomBench
from core.preflight.classroom.findings import Findings
from core.preflight.gate import Cell, Judging, PreflightResult
from core.problems import Problem
from core.telemetry.nvml import GpuAbsent, as_text, nvml_session
from core.telemetry.probe import Probe
from core.telemetry.readings import Reading

MIB = 2**20

# Packages

NVML, NOT_NVML = "nvidia-ml-py", "pynvml"  # both are imported as pynvml
NVML_FILE = "pynvml.py"
LISTED = 12  # packages in the table, at most

Installed = dict[str, importlib.metadata.Distribution]  # canonical name -> what is there


def packages(bench: ClassroomBench) -> Judging:
    """Everything that the app needs, and what that needs in turn, beside the tested versions."""
    yield Progressed(0, 1)
    found = Findings()
    try:
        direct, pins = _requirements(bench.direct), _requirements(bench.lock)
    except Problem as problem:
        found.red(problem.notice.key, "classroom.hint.checkout", **problem.notice.facts)
        return found.judgement(problem.notice.key)
    installed = _installed(bench)
    needed = _needed(direct, installed)
    tested: dict[str, str] = {canonicalize_name(pin.name): _pinned(pin) for pin in pins}

    missing = sorted(needed - installed.keys())
    outside = sorted(
        name
        for one in direct
        if (name := canonicalize_name(one.name)) in installed
        and not one.specifier.contains(_version(installed[name]), prereleases=True)
    )
    other = sorted(
        name
        for name in needed & installed.keys() & tested.keys()
        if _version(installed[name]) != tested[name]
    )
    unlocked = sorted((needed & installed.keys()) - tested.keys())
    found.figure("classroom.packages.needed", len(needed))
    found.figure("classroom.packages.missing", len(missing), "", 0)
    found.figure("classroom.packages.other", len(other), "", 0)
    found.figure("classroom.packages.unlocked", len(unlocked), "", 0)
    found.figure("classroom.packages.python", platform.python_version(), "", "3.11+")
    rows: list[tuple[Cell, ...]] = [
        (name, installed[name].version if name in installed else None, tested.get(name))
        for name in dict.fromkeys((*missing, *outside, *other, *unlocked))
    ]
    found.table(
        "classroom.packages.table",
        ("classroom.column.package", "classroom.column.here", "classroom.column.tested"),
        rows[:LISTED],
    )

    if missing:
        names = ", ".join(missing[:LISTED])
        found.red("classroom.packages.red_missing", "classroom.hint.install", names=names)
    if outside:
        names = ", ".join(f"{name} {installed[name].version}" for name in outside)
        found.red("classroom.packages.red_outside", "classroom.hint.install", names=names)
    _judge_pynvml(installed, found)
    if other or unlocked:
        count = len(other) + len(unlocked)
        found.amber("classroom.packages.amber_other", "classroom.hint.install", count=count)
    return found.judgement("classroom.packages.green", count=len(needed))


def _requirements(path: Path) -> list[Requirement]:
    """Those of a file that are for this machine. Raises Problem where it cannot be read."""
    try:
        lines = [line.partition(" #")[0].strip() for line in path.read_text("utf-8").splitlines()]
        wanted = [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]
        return [one for one in wanted if one.marker is None or one.marker.evaluate()]
    except (OSError, ValueError, InvalidRequirement) as error:
        reason = str(error).splitlines()[0]
        raise Problem("classroom.packages.red_file", file=path.name, reason=reason) from None


def _pinned(pin: Requirement) -> str:
    return next((Version(one.version).public for one in pin.specifier), "")


def _version(distribution: importlib.metadata.Distribution) -> str:
    """Without the part that names a build, such as +cpu: the lock has none either."""
    return Version(distribution.version).public


def _installed(bench: ClassroomBench) -> Installed:
    everywhere = importlib.metadata.distributions
    there = everywhere() if bench.site is None else everywhere(path=list(bench.site))
    found: Installed = {}
    for one in there:
        found.setdefault(canonicalize_name(one.name), one)  # the first is the one imported
    return found


def _needed(direct: list[Requirement], installed: Installed) -> set[str]:
    """Names of all that the direct requirements need, as far as what is installed tells."""
    needed: set[str] = set()
    seen: set[tuple[str, tuple[str, ...]]] = set()
    todo = list(direct)
    while todo:
        one = todo.pop()
        name, extras = canonicalize_name(one.name), tuple(sorted(one.extras))
        needed.add(name)
        if (name, extras) in seen or name not in installed:
            continue
        seen.add((name, extras))
        for text in installed[name].requires or ():
            further = Requirement(text)
            marker = further.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                todo.append(further)
    return needed


def _judge_pynvml(installed: Installed, found: Findings) -> None:
    """The module pynvml has to be nvidia-ml-py's own; a package of that name overwrites it."""
    if NVML not in installed:
        return  # told as missing
    whole = _is_own(installed[NVML])
    found.figure("classroom.packages.pynvml", whole, "", True)
    if not whole:
        found.red("classroom.packages.red_pynvml", "classroom.hint.pynvml")
    elif NOT_NVML in installed:
        found.amber("classroom.packages.amber_pynvml", "classroom.hint.pynvml")


def _is_own(distribution: importlib.metadata.Distribution) -> bool:
    """Whether the module's file is the one that was installed with this package."""
    for file in distribution.files or ():
        if str(file) == NVML_FILE and file.hash is not None:
            try:
                content = Path(str(file.locate())).read_bytes()
            except OSError:
                return False
            digest = hashlib.new(file.hash.mode, content).digest()
            return base64.urlsafe_b64encode(digest).decode().rstrip("=") == file.hash.value
    return True  # this installer has kept no record


# Device

SIDE = 512  # of the matrices that are multiplied
ERROR = 1e-4  # that is allowed beside double precision, of the largest value


def device(bench: ClassroomBench) -> Judging:
    """A product that is computed for certain, and what the device says of itself."""
    yield Progressed(0, 2)
    found = Findings()
    error, first_ms, again_ms = _product(bench.device)
    yield Progressed(1, 2)
    found.figure("classroom.device.name", _name(bench))
    found.figure("classroom.device.error", error, "", ERROR)
    found.figure("classroom.device.first", first_ms, "ms")
    found.figure("classroom.device.again", again_ms, "ms")
    found.figure("classroom.device.torch", str(torch.__version__))
    if not error <= ERROR:  # NaN too
        found.red("classroom.device.red_wrong", "classroom.hint.device", error=f"{error:.2g}")
    if bench.on_gpu:
        _judge_card(bench, found)
        return found.judgement("classroom.device.green", name=_name(bench))
    _judge_cpu(bench, found)
    return found.judgement("classroom.device.amber_cpu", name=_name(bench))


def _name(bench: ClassroomBench) -> str:
    return torch.cuda.get_device_name(bench.device) if bench.on_gpu else bench.context.machine.cpu


def _product(device: torch.device) -> tuple[float, float, float]:
    """Error beside double precision on the CPU; milliseconds of the first product and the next."""
    matrix = torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    right = matrix.double() @ matrix.double()
    there = matrix.to(device)
    times = []
    for _ in range(2):
        began = time.perf_counter()
        product = there @ there
        wait_for(device)
        times.append(1000 * (time.perf_counter() - began))
    error = (product.cpu().double() - right).abs().max() / right.abs().max()
    return float(error), times[0], times[1]


def _judge_cpu(bench: ClassroomBench, found: Findings) -> None:
    """No card in use: is there none, is it hidden on purpose, or can PyTorch not use it?"""
    cards = bench.context.machine.gpus
    # A worker is told its one device by this variable; the engine gives none where settings say so.
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == "" or bench.lab.devices == "cpu"
    found.figure("classroom.device.cards", len(cards))
    if not cards:
        reason = bench.context.machine.gpu_absence or "absent.no_gpu"
        found.figure("classroom.device.why", reason)
        found.amber("classroom.device.amber_cpu", "classroom.hint.cpu", name=_name(bench))
    elif hidden or torch.cuda.is_available():
        card = cards[0].name
        found.amber("classroom.device.amber_unused", "classroom.hint.unused", card=card)
    else:
        found.figure("classroom.device.built_for", torch.version.cuda or "-")
        card = cards[0].name
        found.red("classroom.device.red_blind", "classroom.hint.blind", card=card)


def _judge_card(bench: ClassroomBench, found: Findings) -> None:
    facts = torch.cuda.get_device_properties(bench.device)
    own, built_for = (facts.major, facts.minor), torch.cuda.get_arch_list()
    mig = (bench.gpu_uuid or "").startswith("MIG-") or " MIG " in facts.name
    wsl = "microsoft" in platform.release().lower()
    found.figure("classroom.device.memory", facts.total_memory / MIB, "mib")
    found.figure("classroom.device.driver", _driver() or None)
    found.figure("classroom.device.built_for", torch.version.cuda or "-")
    found.figure("classroom.device.capability", f"{own[0]}.{own[1]}")
    found.figure("classroom.device.mig", mig, "", False)
    found.figure("classroom.device.wsl", wsl, "", False)
    if not _is_served(own, built_for):
        capability = f"{own[0]}.{own[1]}"
        found.red("classroom.device.red_capability", "classroom.hint.blind", capability=capability)
    if mig or wsl:
        kind = "MIG" if mig else "WSL"
        found.amber("classroom.device.amber_partial", "classroom.hint.partial", kind=kind)


def _is_served(own: tuple[int, int], built_for: list[str]) -> bool:
    """Whether PyTorch holds kernels for this capability: of the same major number and not a later
    minor one, or intermediate code that the driver finishes."""
    for one in built_for:
        kind, _, digits = one.partition("_")
        number = "".join(filter(str.isdigit, digits))
        if len(number) < 2:
            continue
        theirs = int(number[:-1]), int(number[-1])
        if kind == "compute" and theirs <= own:
            return True
        if kind == "sm" and theirs[0] == own[0] and theirs[1] <= own[1]:
            return True
    return not built_for


def _driver() -> str:
    try:
        with nvml_session() as nvml:
            asked: Any = nvml
            return as_text(asked.nvmlSystemGetDriverVersion())
    except GpuAbsent:
        return ""


# Meter

READINGS = 9  # that are waited for
LONGEST_WATCH = 8.0  # seconds
COST_READINGS = 10
JITTER, COST = 50.0, 5.0  # percent: of the period; of one core
ON_EVERY_MACHINE = ("cpu_percent", "host_cpu_percent", "ram_mib")
ON_EVERY_CARD = ("gpu_percent", "card_used_mib")


def meter(bench: ClassroomBench) -> Judging:
    """The meter of this very process: what it reads, how evenly, and what it costs."""
    found = Findings()
    period, watched = bench.lab.sample_seconds, bench.context.meter
    began = watched.seconds
    needed = min(READINGS * period, LONGEST_WATCH)
    while watched.seconds - began < needed:
        time.sleep(min(0.1, period))
        yield Progressed(round(1000 * (watched.seconds - began)), round(1000 * needed))
    readings = [one for one in watched.history if one.seconds > began]
    gaps = [1000 * (b.seconds - a.seconds) for a, b in itertools.pairwise(readings)]
    cost_ms = _cost_ms(bench)
    found.figure("classroom.meter.readings", len(readings), "", round(needed / period))
    if not gaps:
        found.red("classroom.meter.red_still", "classroom.hint.meter", seconds=needed)
        return found.judgement("classroom.meter.green")

    median = statistics.median(gaps)
    jitter = max(abs(gap - median) for gap in gaps)
    share = 100 * cost_ms / (1000 * period)
    found.figure("classroom.meter.period", median, "ms", 1000 * period)
    found.figure("classroom.meter.jitter", jitter, "ms", JITTER / 100 * 1000 * period)
    found.figure("classroom.meter.cost", cost_ms, "ms")
    found.figure("classroom.meter.share", share, "percent", COST)
    absent = _signals(bench, readings, found)

    lacking = [name for name in ON_EVERY_MACHINE if name in absent]
    if lacking:
        signal = f"classroom.signal.{lacking[0]}"
        found.red("classroom.meter.red_signal", "classroom.hint.meter", signal=signal)
    if median > 2000 * period:
        found.red("classroom.meter.red_slow", "classroom.hint.meter", period=median)
    dark = [name for name in ON_EVERY_CARD if bench.on_gpu and name in absent]
    if dark:
        signal = f"classroom.signal.{dark[0]}"
        found.amber(
            "classroom.meter.amber_signal",
            "classroom.hint.partial",
            signal=signal,
            reason=absent[dark[0]],
        )
    if share > COST:
        found.amber("classroom.meter.amber_cost", "classroom.hint.period", share=share)
    if jitter > JITTER / 100 * 1000 * period:
        found.amber("classroom.meter.amber_uneven", "classroom.hint.busy", jitter=jitter)
    return found.judgement("classroom.meter.green", period=median, share=share)


def _signals(bench: ClassroomBench, readings: list[Reading], found: Findings) -> dict[str, str]:
    """Tell of every signal; those that are absent, with the reason."""
    reasons = bench.context.meter.absences.reasons
    last: dict[str, float | None] = {}
    for reading in readings:
        known = {name: value for name, value in asdict(reading).items() if value is not None}
        last = {**dict.fromkeys(asdict(reading)), **last, **known}
    del last["seconds"]
    absent = {
        name: reasons.get(name, "absent.error") for name, value in last.items() if value is None
    }
    found.table(
        "classroom.meter.table",
        ("classroom.column.signal", "classroom.column.value", "classroom.column.state"),
        [
            (f"classroom.signal.{name}", value, absent.get(name, "classroom.meter.present"))
            for name, value in last.items()
        ],
    )
    return absent


def _cost_ms(bench: ClassroomBench) -> float:
    """CPU time of one reading, by the clock of this thread."""
    probe = Probe(gpu_uuid=bench.gpu_uuid)
    try:
        probe.read(0.0)  # the first one opens what the others find open
        began = time.thread_time()
        for number in range(COST_READINGS):
            probe.read(float(number))
        return 1000 * (time.thread_time() - began) / COST_READINGS
    finally:
        probe.close()


# Space

WRITTEN = 4 * MIB  # bytes of the file that is written and read again


def space(bench: ClassroomBench) -> Judging:
    """Room on the disk where the lab writes, in the computer's memory, and on the card."""
    yield Progressed(0, 1)
    found = Findings()
    cache = bench.lab.cache
    try:
        cache.mkdir(parents=True, exist_ok=True)
        ms = _written_and_read(cache)
        free = psutil.disk_usage(str(cache)).free / MIB
    except OSError as error:
        reason = error.strerror or type(error).__name__
        found.figure("classroom.space.folder", str(cache))
        found.red(
            "classroom.space.red_folder", "classroom.hint.folder", folder=str(cache), reason=reason
        )
    else:
        found.figure("classroom.space.folder", str(cache))
        found.figure("classroom.space.disk", free, "mib", bench.disk_wished_mib)
        found.figure("classroom.space.write", ms, "ms")
        if free < bench.disk_mib:
            found.red("classroom.space.red_disk", "classroom.hint.disk", free=free)
        elif free < bench.disk_wished_mib:
            found.amber("classroom.space.amber_disk", "classroom.hint.disk", free=free)

    ram = min(psutil.virtual_memory().available / MIB, bench.context.machine.ram_mib)
    found.figure("classroom.space.ram_total", bench.context.machine.ram_mib, "mib")
    found.figure("classroom.space.ram", ram, "mib", bench.ram_wished_mib)
    if ram < bench.ram_mib:
        found.red("classroom.space.red_ram", "classroom.hint.ram", free=ram)
    elif ram < bench.ram_wished_mib:
        found.amber("classroom.space.amber_ram", "classroom.hint.ram", free=ram)
    if bench.on_gpu:
        _judge_card_memory(bench, found)
    return found.judgement("classroom.space.green", ram=ram)


def _written_and_read(folder: Path) -> float:
    """Milliseconds until some MiB are on the disk and back. Raises OSError."""
    content = os.urandom(WRITTEN)
    began = time.perf_counter()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        if file.read() != content:
            raise OSError(5, "what was written reads differently")
    return 1000 * (time.perf_counter() - began)


def _judge_card_memory(bench: ClassroomBench, found: Findings) -> None:
    """What is free beside this process, and what a training and a drawing worker need together."""
    free, total = (size / MIB for size in torch.cuda.mem_get_info(bench.device))
    free += torch.cuda.memory_reserved(bench.device) / MIB  # our own cache is given back
    train, draw = lane_mib(Lane.TRAIN), lane_mib(Lane.INFER) + image_model_mib(bench)
    found.figure("classroom.space.card_total", total, "mib")
    found.figure("classroom.space.card", free, "mib", train + draw)
    if free < train:
        found.red("classroom.space.red_card", "classroom.hint.card", free=free, needed=train)
    elif free < train + draw:
        found.amber(
            "classroom.space.amber_card", "classroom.hint.card", free=free, needed=train + draw
        )


def lane_mib(lane: Lane) -> float:
    """What the largest job of a lane needs on a card, preflight itself left out."""
    return max(
        activity.need_mib
        for activity in ACTIVITIES.values()
        if activity.lane is lane and activity.result is not PreflightResult
    )


def image_model_mib(bench: ClassroomBench) -> float:
    """What the image model in use takes on a card; 0 where there is none."""
    name = default_image_model(bench.lab)
    return float(MODEL_MIB[name]) if name else 0.0
