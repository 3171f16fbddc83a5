"""Makes images by hand: tars, layers, and the blobs of OCI archives."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import platform
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Member = tuple[tarfile.TarInfo, bytes]

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout,
}

OCI = "application/vnd.oci.image."
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def member(name: str, content: bytes | None = None, **attributes: Any) -> Member:
    """Return a file with a content, or whatever `type` says."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    info.mtime = 1_700_000_000
    for each, value in attributes.items():
        setattr(info, each, value)
    info.size = len(content or b"")
    return info, content or b""


def folder(name: str, mode: int = 0o755) -> Member:
    return member(name, type=tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def tar_of(members: Iterable[Member], form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def tar_of_files(files: Mapping[str, bytes]) -> bytes:
    return tar_of(member(name, content) for name, content in files.items())


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Blobs:
    """Files of an OCI layout."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(self, content: bytes, **more: Any) -> dict[str, Any]:
        """Add a blob and return its descriptor."""
        digest = sha256(content)
        self.files[f"blobs/sha256/{digest[7:]}"] = content
        return {"mediaType": OCI + "layer.v1.tar", "digest": digest, "size": len(content), **more}

    def add_json(self, content: Any, **more: Any) -> dict[str, Any]:
        return self.add(json.dumps(content).encode(), **more)

    def image(
        self,
        layers: Iterable[bytes],
        config: Mapping[str, Any] | None = None,
        compress: Callable[[bytes], bytes] = bytes,
        machine: str = MACHINE,
        **more: Any,
    ) -> dict[str, Any]:
        """Add an image of layers, and return the descriptor of its manifest."""
        tars = list(layers)
        about = {
            "architecture": machine,
            "os": "linux",
            "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [sha256(tar) for tar in tars]},
        }
        described = [self.add(compress(tar)) for tar in tars]
        told = self.add_json(about, mediaType=OCI + "config.v1+json")
        kind = OCI + "manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": kind, "config": told, "layers": described}
        return self.add_json(manifest, mediaType=kind, **more)

    def index(self, *manifests: dict[str, Any]) -> None:
        self.files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()

    def archive(self, path: Path) -> str:
        path.write_bytes(tar_of_files(self.files))
        return str(path)


def oci_archive(path: Path, *layers: bytes, config: Mapping[str, Any] | None = None, compress: str = "plain") -> str:
    """Write an archive of one image."""
    blobs = Blobs()
    blobs.index(blobs.image(layers, config, COMPRESSIONS[compress]))
    return blobs.archive(path)


def docker_archive(path: Path, *layers: bytes, config: Mapping[str, Any] | None = None) -> str:
    """Write what `docker save` does, old and new: files named by digests, and a manifest.json at the end."""
    about = {"architecture": MACHINE, "config": config or {}, "rootfs": {"diff_ids": [sha256(tar) for tar in layers]}}
    name = hashlib.sha256(json.dumps(about).encode()).hexdigest() + ".json"
    files = {f"{hashlib.sha256(tar).hexdigest()}/layer.tar": tar for tar in layers}
    manifest = [{"Config": name, "RepoTags": ["x:1"], "Layers": list(files)}]
    files[name] = json.dumps(about).encode()
    path.write_bytes(tar_of_files({**files, "manifest.json": json.dumps(manifest).encode()}))
    return str(path)


def tree(root: Path | str) -> dict[str, tuple[str, int, bytes | str | None]]:
    """Return kind, mode and content of every path below `root`: where a link leads is its content."""
    found: dict[str, tuple[str, int, bytes | str | None]] = {}
    for top, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(top, name)
            mode = path.lstat().st_mode & 0o7777
            if path.is_symlink():
                made = ("link", 0, os.readlink(path))
            elif path.is_dir():
                made = ("folder", mode, None)
            else:
                made = ("file", mode, path.read_bytes()) if path.is_file() else ("other", mode, None)
            found[str(path.relative_to(root))] = made
    return found
