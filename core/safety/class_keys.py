"""The class's own keys: a root that vouches, and a leaf that signs pictures.

Made once for each installation and kept in two files that only their owner may read, `root.pem`
and `leaf.pem`, each a private key and its certificate. The root's certificate is public, and is all
that somebody else needs to recognise this class's pictures. What C2PA wants of the two is in its
specification, under "X.509 Certificates": https://spec.c2pa.org.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from core.problems import Problem

ROOT_FILE, LEAF_FILE, LOCK_FILE = "root.pem", "leaf.pem", "keys.lock"
LOCK_SECONDS = 30.0  # for another process that is making the keys; that takes milliseconds

# Without a timestamp server nobody can prove when a picture was signed, so it is recognised only
# while the certificate that signed it is valid: the leaf lasts longer than anybody's studies.
ROOT_LIFE = datetime.timedelta(days=20 * 365)
LEAF_LIFE = datetime.timedelta(days=5 * 365)
RENEW_BEFORE = datetime.timedelta(days=30)
CLOCKS_DIFFER = datetime.timedelta(days=1)  # a checker's clock may be behind ours

OWNER_FILE, OWNER_FOLDER = 0o600, 0o700

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)  # a key must not end in a log line by its repr
class Pair:
    """A private key and the certificate of its public half."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode("ascii")

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def ends_within(self, time: datetime.timedelta, now: datetime.datetime) -> bool:
        return self.certificate.not_valid_after_utc < now + time


@dataclass(frozen=True, slots=True, repr=False)
class ClassKeys:
    root: Pair
    leaf: Pair

    @property
    def owner(self) -> str:
        """The name under which pictures are signed, such as "GPU lab class 3F2A-91C0"."""
        names = self.leaf.certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        return str(names[0].value) if names else ""


def open_keys(folder: Path, *, now: datetime.datetime | None = None) -> ClassKeys:
    """The keys in `folder`, made or renewed where needed; one process at a time does so.

    Raises Problem where the folder cannot be used, and where its files are not what was put there.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    try:
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        _only_for_owner(folder, OWNER_FOLDER)
        with FileLock(folder / LOCK_FILE, timeout=LOCK_SECONDS, mode=OWNER_FILE):
            return _read_or_make(folder, now)
    except OSError as error:  # a lock that nobody gives back ends here as well
        _log.error("the keys folder %s cannot be used: %s", folder, error)
        raise Problem("problem.keys_folder") from None


def new_keys(*, now: datetime.datetime | None = None, owner: str | None = None) -> ClassKeys:
    """Keys that are kept nowhere. Anybody may call himself `owner`: that is why keys matter."""
    now = now or datetime.datetime.now(datetime.UTC)
    root = _new_root(now, owner)
    return ClassKeys(root, _new_leaf(root, now))


def _read_or_make(folder: Path, now: datetime.datetime) -> ClassKeys:
    root, leaf = _read(folder / ROOT_FILE), _read(folder / LEAF_FILE)
    if root is None and leaf is not None:
        _log.error("%s holds %s without %s", folder, LEAF_FILE, ROOT_FILE)
        raise Problem("problem.keys_broken", file=ROOT_FILE)
    if leaf is not None and root is not None:
        try:
            leaf.certificate.verify_directly_issued_by(root.certificate)
        except (InvalidSignature, ValueError, TypeError):
            _log.error("in %s, %s was not issued by %s", folder, LEAF_FILE, ROOT_FILE)
            raise Problem("problem.keys_broken", file=LEAF_FILE) from None
    if root is None or root.ends_within(RENEW_BEFORE, now):
        root, leaf = _new_root(now), None
        _write(folder / ROOT_FILE, root)
        _log.info("a new class root was made in %s", folder)
    if leaf is None or leaf.ends_within(RENEW_BEFORE, now):
        leaf = _new_leaf(root, now)
        _write(folder / LEAF_FILE, leaf)
        _log.info("a new signing certificate was made in %s", folder)
    return ClassKeys(root, leaf)


# Certificates


def _new_root(now: datetime.datetime, owner: str | None = None) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(owner or f"GPU lab class {_mark(key)}", "root")
    critical = [x509.BasicConstraints(True, 0), _usage(key_cert_sign=True, crl_sign=True)]
    return _certified(key, name, None, (now, now + ROOT_LIFE), critical=critical)


def _new_leaf(root: Pair, now: datetime.datetime) -> Pair:
    """ES256, for signing documents and mail: the uses that C2PA asks for."""
    owner = root.certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value
    return _certified(
        ec.generate_private_key(ec.SECP256R1()),
        _name(str(owner), "pictures"),
        root,
        (now, min(now + LEAF_LIFE, root.certificate.not_valid_after_utc)),
        critical=[x509.BasicConstraints(False, None), _usage(digital_signature=True)],
        others=[x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])],
    )


def _certified(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    issuer: Pair | None,  # None: itself
    valid: tuple[datetime.datetime, datetime.datetime],
    *,
    critical: Iterable[x509.ExtensionType],
    others: Iterable[x509.ExtensionType] = (),
) -> Pair:
    issuer_key = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0] - CLOCKS_DIFFER)
        .not_valid_after(valid[1])
    )
    whose = (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    )
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    for extension in (*others, *whose):
        builder = builder.add_extension(extension, critical=False)
    return Pair(key, builder.sign(issuer_key, hashes.SHA256()))


def _name(owner: str, role: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, owner),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{owner}, {role}"),
        ]
    )


def _mark(key: ec.EllipticCurvePrivateKey) -> str:
    """Eight figures of the public key, by which people tell two classes apart."""
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    figures = hashlib.sha256(public).hexdigest().upper()
    return f"{figures[:4]}-{figures[4:8]}"


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# Files


def _read(path: Path) -> Pair | None:
    """The pair in a file, None where there is no file. Raises Problem for anything else in it."""
    try:
        held = path.read_bytes()
    except FileNotFoundError:
        return None
    _only_for_owner(path, OWNER_FILE)
    try:
        key = load_pem_private_key(held, password=None)
        certificate = x509.load_pem_x509_certificate(held)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        _log.error("%s does not hold a key and its certificate", path)
        raise Problem("problem.keys_broken", file=path.name) from None
    # The errors' own words stay unread above: they may quote what the file holds.
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != _public(certificate):
        _log.error("the key in %s is not that of the certificate beside it", path)
        raise Problem("problem.keys_broken", file=path.name)
    return Pair(key, certificate)


def _public(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _write(path: Path, pair: Pair) -> None:
    """The file is there whole or not at all, and at no moment readable by others."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE), "wb") as file:
        file.write(pair.key_pem + pair.certificate_pem.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _only_for_owner(path: Path, mode: int) -> None:
    if os.name == "posix" and path.stat().st_mode & 0o777 & ~mode:
        _log.warning("%s was open to others; now it is its owner's alone", path)
        path.chmod(mode)
