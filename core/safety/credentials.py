"""Where a picture comes from: signing what leaves the lab, and reading what others have signed.

A picture is signed last, on the exact bytes that leave, by the rules of C2PA (https://spec.c2pa.org)
with the library c2pa-python. Trusted is one root only: this class's own. Nothing here ever uses the
network: no timestamp server, no revocation lists, no credential that lies elsewhere.

Measured on two CPU cores, 512 x 512 PNG: 1 ms to sign, 2 ms to check, 2.8 kB more.
"""

from __future__ import annotations

import datetime
import io
import json
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import c2pa

from core.problems import Problem
from core.safety.class_keys import ClassKeys, new_keys, open_keys
from core.safety.pictures import (
    CREDENTIAL_CHUNK,
    PNG,
    PNG_START,
    chunks,
    look_at,
)

PROGRAM = "GPU lab"  # the program that made the picture, as its credential names it
SOURCE_TYPES = "http://cv.iptc.org/newscodes/digitalsourcetype/"
TRAINED, ALGORITHM = "trainedAlgorithmicMedia", "algorithmicMedia"
PROMPT = "lab.prompt"  # the parameter of the action that made the picture

WORDS = 200  # characters of a stranger's text that are shown
PROMPT_WORDS = 600
MANIFEST_MIB = 4  # a credential that unpacks to more is not read

# What stays of a credential that cannot be read any more: labels of its boxes.
TRACES = (b"jumdc2pa", b"c2pa.claim", b"c2pa.signature", b"c2pa.assertions")
# Complaints about the signer, or about how he has worded things, rather than about the picture. Any
# change of the file brings others with it.
SIGNER_CODES = (
    "signingCredential.",
    "claimSignature.outsideValidity",
    "timeStamp.",
    "assertion.action.",
)
EXPIRED_CODES = ("claimSignature.outsideValidity", "signingCredential.expired")

NO_NETWORK: dict[str, Any] = {
    "version": 1,
    "core": {
        "allowed_network_hosts": [],
        "allow_redirects": False,
        "max_decompressed_manifest_size_in_mb": MANIFEST_MIB,
    },
    "verify": {"remote_manifest_fetch": False, "ocsp_fetch": False, "verify_after_sign": False},
    "builder": {"thumbnail": {"enabled": False}},
}


@dataclass(frozen=True, slots=True)
class Made:
    """What a credential says of a picture. The prompt only where whoever wrote it wants that."""

    model: str
    version: str
    made_at: float  # Unix time
    prompt: str | None = None
    title: str = ""  # usually the file's name
    source: str = TRAINED  # the last part of IPTC's name for the kind of source


class Kind(StrEnum):
    """What checking a file may come to."""

    OURS = "ours"  # signed with this class's key, and not a byte has changed since
    STRANGER = "stranger"  # whole and signed, by somebody whom this class does not know
    BROKEN = "broken"  # there is a credential, and it does not fit the file
    NONE = "none"  # no credential; that proves nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one file, and what its credential says. Empty where it says nothing."""

    kind: Kind
    signer: str = ""
    program: str = ""
    model: str = ""
    version: str = ""
    made_at: float | None = None  # Unix time
    prompt: str | None = None
    title: str = ""
    source: str = ""  # the last part of IPTC's name for the kind of source
    expired: bool = False  # the signer's certificate has ended, and no timestamp says more
    elsewhere: bool = False  # the file only says that its credential lies somewhere on the internet


class Authority:
    """Signs for this class, and recognises what it has signed. Safe to share between threads."""

    __slots__ = ("_keys", "_one_at_a_time", "_reading", "_signing")

    def __init__(self, keys: ClassKeys) -> None:
        self._keys = keys
        trust = {**NO_NETWORK, "trust": {"trust_anchors": self.root_pem}}
        info = c2pa.C2paSignerInfo(
            alg=b"es256",
            sign_cert=keys.leaf.certificate_pem.encode("ascii"),
            private_key=keys.leaf.key_pem,
            ta_url=None,
        )
        self._signing = c2pa.Context.from_dict(trust, signer=c2pa.Signer.from_info(info))
        self._reading = c2pa.Context.from_dict(trust)
        self._one_at_a_time = threading.Lock()  # large uploads are held in memory one by one

    @classmethod
    def open(cls, folder: Path, *, now: datetime.datetime | None = None) -> Authority:
        """The authority of this installation, whose keys lie in `folder`; made by the first to ask.

        A signing certificate about to end is renewed. Raises Problem where the keys are damaged or
        the folder cannot be used.
        """
        return cls(open_keys(folder, now=now))

    def impostor(self) -> Authority:
        """Somebody who calls himself the same, with keys of his own: to show what that gains."""
        return Authority(new_keys(owner=self.name))

    @property
    def name(self) -> str:
        """The name under which this class signs, such as "GPU lab class 3F2A-91C0"."""
        return self._keys.owner

    @property
    def root_pem(self) -> str:
        """The public certificate that others need to recognise this class's pictures."""
        return self._keys.root.certificate_pem

    def __repr__(self) -> str:
        return f"Authority({self.name!r})"

    def __reduce__(self) -> str:
        raise TypeError("the keys of an authority stay in its process")

    def sign(self, png: bytes, made: Made) -> bytes:
        """The same picture with a credential in it. Raises ValueError for what is not a PNG."""
        if not png.startswith(PNG_START):
            raise ValueError("only PNG files are signed here")
        out = io.BytesIO()
        with c2pa.Builder(_manifest(made), self._signing) as builder:
            builder.sign(PNG, io.BytesIO(png), out)
        return out.getvalue()

    def check(self, data: bytes) -> Finding:
        """Who has signed a file, and whether it is still what was signed.

        The file may come from anybody: its size is looked at before anything is decoded. Raises
        Problem for what is no PNG, JPEG or WebP, is too large, or is damaged and unsigned.
        """
        with self._one_at_a_time:
            try:
                mime = look_at(data).mime
            except Problem as problem:
                if problem.notice.key == "problem.picture_damaged" and _traces(data):
                    return Finding(Kind.BROKEN)
                raise
            return self._read(data, mime)

    def _read(self, data: bytes, mime: str) -> Finding:
        try:
            reader = c2pa.Reader.try_create(mime, io.BytesIO(data), None, self._reading)
            if reader is None:
                return Finding(Kind.BROKEN if _traces(data) else Kind.NONE)
            with reader:
                report = json.loads(reader.json())
        except c2pa.C2paError as error:
            if _traces(data):
                return Finding(Kind.BROKEN)
            if str(error).startswith("Remote"):
                return Finding(Kind.NONE, elsewhere=True)
            raise Problem("problem.picture_damaged") from None
        codes = set(_failures(report))
        return _finding(_kind(report, codes, data), report, codes)


def _manifest(made: Made) -> dict[str, Any]:
    when = datetime.datetime.fromtimestamp(made.made_at, datetime.UTC)
    action = {
        "action": "c2pa.created",
        "when": when.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "softwareAgent": {"name": made.model} | ({"version": made.version} if made.version else {}),
        "digitalSourceType": SOURCE_TYPES + made.source,
    }
    if made.prompt:
        action["parameters"] = {PROMPT: made.prompt}
    return {
        "claim_version": 2,
        "claim_generator_info": [{"name": PROGRAM}],
        "title": made.title or f"{made.model}.png",
        "format": PNG,
        "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}],
    }


def _kind(report: Mapping[str, Any], codes: set[str], data: bytes) -> Kind:
    # A credential has a few bytes of padding that its own signature leaves out. PNG's checksum
    # covers them, so that not one byte may change.
    if any(part.kind == CREDENTIAL_CHUNK and not part.whole for part in _parts(data)):
        return Kind.BROKEN
    state = report.get("validation_state")
    if state == "Trusted":
        return Kind.OURS
    if state == "Valid" or (codes and all(code.startswith(SIGNER_CODES) for code in codes)):
        return Kind.STRANGER
    return Kind.BROKEN


def _parts(data: bytes) -> Iterator[Any]:
    return chunks(data) if data.startswith(PNG_START) else iter(())


def _failures(report: Mapping[str, Any]) -> Iterator[str]:
    """The codes of all that the library complains about, in the picture and in its sources."""
    results = _as_dict(report.get("validation_results"))
    groups = [results.get("activeManifest")]
    for delta in _as_list(results.get("ingredientDeltas")):
        groups.append(_as_dict(delta).get("validationDeltas"))
    for group in groups:
        for failure in _as_list(_as_dict(group).get("failure")):
            yield str(_as_dict(failure).get("code"))


def _finding(kind: Kind, report: Mapping[str, Any], codes: set[str]) -> Finding:
    """The facts, as they stand in the newest credential; every one of them may be missing."""
    manifests = _as_dict(report.get("manifests"))
    manifest = _as_dict(manifests.get(str(report.get("active_manifest"))))
    signature = _as_dict(manifest.get("signature_info"))
    action = _making(manifest)
    agent, source = action.get("softwareAgent"), action.get("digitalSourceType")
    parameters = _as_dict(action.get("parameters"))
    programs = _as_list(manifest.get("claim_generator_info"))
    return Finding(
        kind,
        signer=_words(signature.get("issuer")) or _words(signature.get("common_name")),
        program=_words(_as_dict(next(iter(programs), None)).get("name"))
        or _words(manifest.get("claim_generator")),
        model=_words(_as_dict(agent).get("name")) or _words(agent),
        version=_words(_as_dict(agent).get("version")),
        made_at=_time(action.get("when")) or _time(signature.get("time")),
        prompt=_words(parameters.get(PROMPT), PROMPT_WORDS) or None,
        title=_words(manifest.get("title")),
        source=_words(source).rstrip("/").rpartition("/")[2],
        expired=any(code.startswith(EXPIRED_CODES) for code in codes),
    )


def _making(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The action by which the picture came about: "created", else the first that names a source."""
    actions = [
        _as_dict(action)
        for assertion in _as_list(manifest.get("assertions"))
        if str(_as_dict(assertion).get("label")).startswith("c2pa.actions")
        for action in _as_list(_as_dict(_as_dict(assertion).get("data")).get("actions"))
    ]
    created = [action for action in actions if action.get("action") == "c2pa.created"]
    sourced = [action for action in actions if action.get("digitalSourceType")]
    return next(iter(created + sourced + actions), {})


def _traces(data: bytes) -> bool:
    return any(trace in data for trace in TRACES)


def _as_dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: object, limit: int = WORDS) -> str:
    """A stranger's text on one line, without control and direction marks, and not too long."""
    if not isinstance(value, str):
        return ""
    cut = value[: 4 * limit]
    printable = "".join(c for c in cut if c.isspace() or unicodedata.category(c)[0] != "C")
    line = " ".join(printable.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _time(value: object) -> float | None:
    """Unix time of an ISO date and time; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
