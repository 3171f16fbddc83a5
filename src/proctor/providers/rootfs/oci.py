"""Finds the image of this machine in an OCI layout or an archive of `docker save`, and checks every digest of it.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import json
import platform
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from proctor.providers.rootfs.layouts import Layout
from proctor.providers.rootfs.region import Damaged, Region

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_LAYERS = 1000
_MAX_INDEXES = 5
_DIGEST = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
_LIKE_AN_IMAGE = re.compile(r"(blobs|oci-layout|index\.json|manifest\.json|repositories|[0-9a-f]{64}(\.json|\.tar)?)")
_MACHINES = {
    "x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm", "i686": "386", "i386": "386",
    "loongarch64": "loong64", "mips64": "mips64le",
}  # fmt: skip
"""What Go calls a machine, where that is another word than the kernel's."""


@dataclass(frozen=True)
class Layer:
    """A layer: what is to be unpacked, the digest of that if it has one, and the sha256 of the tar in it."""

    blob: Region
    digest: str | None
    tar_sha256: str

    def verify(self) -> None:
        """Raise `Damaged` unless the digest is that of the bytes."""
        if self.digest is not None:
            _verify(self.blob, self.digest)


@dataclass(frozen=True)
class Image:
    """An image for this machine. `digest` is of its manifest, or of its configuration where there is none."""

    digest: str
    config: Mapping[str, Any]
    layers: tuple[Layer, ...]
    machine: str | None


def like_an_image(name: str) -> bool | None:
    """Say whether a tar whose first member has this name holds the files of an image; None for `.`, which tells not."""
    first = posixpath.normpath(name).split("/")[0]
    return None if first == "." else _LIKE_AN_IMAGE.fullmatch(first) is not None


def find_image(layout: Layout) -> Image:
    """Return the image for this machine. Raises `Damaged` where there is none, or more than one."""
    if layout.file("index.json") is not None:
        return _of_index(layout)
    if layout.file("manifest.json") is not None:
        return _of_docker(layout)
    raise Damaged("it has neither an index.json nor a manifest.json")


def _of_index(layout: Layout) -> Image:
    listed = _json(layout, "index.json")
    for _ in range(_MAX_INDEXES):
        descriptor = _for_this_machine(_objects(listed, "manifests", "index.json"))
        digest = _digest(descriptor)
        found = _json_blob(layout, descriptor)
        if "manifests" not in found:
            break
        listed = found
    else:
        raise Damaged("its indexes lead to further indexes without end")
    if "layers" not in found:
        raise Damaged(f"{digest} is no manifest of an image")
    config = _json_blob(layout, _object(found.get("config"), f"config of {digest}"))
    layers: list[tuple[Region, str | None]] = [
        (_blob(layout, each), _digest(each)) for each in _objects(found, "layers", digest)
    ]
    return _image(digest, config, layers)


def _of_docker(layout: Layout) -> Image:
    listed = _json(layout, "manifest.json")
    if not isinstance(listed, list) or len(cast("list[Any]", listed)) != 1:
        raise Damaged("its manifest.json does not name exactly one image: save one image to each file")
    manifest = _object(cast("list[Any]", listed)[0], "manifest.json")
    name = str(manifest.get("Config"))
    if (found := layout.file(name)) is None:
        raise Damaged(f"{name!r}, which its manifest.json names, is missing")
    names = manifest.get("Layers")
    if not isinstance(names, list):
        raise Damaged("its manifest.json names no layers")
    layers: list[tuple[Region, str | None]] = []
    for each in map(str, cast("list[Any]", names)):
        if (layer := layout.file(each)) is None:
            raise Damaged(f"{each!r}, which its manifest.json names, is missing")
        layers.append((layer, None))  # the digests of the tars in them are in the configuration
    return _image(f"sha256:{found.digest()}", _object(_parse(found, name), name), layers)


def _image(digest: str, config: Mapping[str, Any], layers: list[tuple[Region, str | None]]) -> Image:
    if len(layers) > MAX_LAYERS:
        raise Damaged(f"it has {len(layers):,} layers, at most {MAX_LAYERS:,} can be")
    found = _object(config.get("rootfs"), "rootfs of its configuration").get("diff_ids")
    ids = cast("list[Any]", found) if isinstance(found, list) else []
    if len(ids) != len(layers):
        raise Damaged(f"it has {len(layers)} layers and the digests of {len(ids)}")
    for each in ids:
        if not isinstance(each, str) or not re.fullmatch("sha256:[0-9a-f]{64}", each):
            raise Damaged(f"{each!r} is no digest of a layer")
    pairs = zip(layers, ids, strict=True)
    own = config.get("config")
    machine = config.get("architecture")
    return Image(
        digest,
        cast("Mapping[str, Any]", own) if isinstance(own, dict) else {},
        tuple(Layer(blob, own_digest, each.removeprefix("sha256:")) for (blob, own_digest), each in pairs),
        machine if isinstance(machine, str) else None,
    )


def this_machine() -> str:
    """Return what images call the kind of this machine, such as amd64."""
    found = platform.machine().lower()
    return _MACHINES.get(found, found)


def _for_this_machine(descriptors: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the one manifest for this machine; one without a platform is for any."""
    wanted = f"linux/{this_machine()}"
    found: dict[str, Mapping[str, Any]] = {}
    others = set[str]()
    for each in descriptors:
        platform_ = _object(each.get("platform") or {}, "platform of its index")
        name = f"{platform_.get('os')}/{platform_.get('architecture')}"
        if not platform_ or name == wanted or len(descriptors) == 1:
            found[_digest(each)] = each
        elif name != "unknown/unknown":  # that is what says how an image was made
            others.add(name)
    if not found:
        raise Damaged(f"it is for {', '.join(sorted(others)) or 'nothing'}; this machine is {wanted}")
    variants = [str(_object(each.get("platform") or {}, "platform").get("variant") or "") for each in found.values()]
    if len(set(variants)) < len(found):
        raise Damaged(f"it holds {len(found)} images: save one image to each file")
    return min(zip(variants, found.values(), strict=True), key=lambda pair: pair[0])[1]


def _digest(descriptor: Mapping[str, Any]) -> str:
    found = descriptor.get("digest")
    if not isinstance(found, str) or not _DIGEST.fullmatch(found):
        raise Damaged(f"{found!r} is no digest")
    return found


def _blob(layout: Layout, descriptor: Mapping[str, Any]) -> Region:
    """Return a blob whose bytes are those that its digest is of."""
    digest = _digest(descriptor)
    algorithm, _, digits = digest.partition(":")
    if (found := layout.file(f"blobs/{algorithm}/{digits}")) is None:
        raise Damaged(f"blob {digest} is missing")
    if found.size_bytes != descriptor.get("size"):
        raise Damaged(f"blob {digest} has {found.size_bytes:,} bytes, not {descriptor.get('size')!r}")
    return found


def _verify(blob: Region, digest: str) -> None:
    algorithm, _, digits = digest.partition(":")
    if blob.digest(algorithm) != digits:
        raise Damaged(f"blob {digest} is damaged: that is not the digest of its bytes")


def _json_blob(layout: Layout, descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
    digest, blob = _digest(descriptor), _blob(layout, descriptor)
    found = _parse(blob, digest)
    _verify(blob, digest)
    return _object(found, digest)


def _json(layout: Layout, name: str) -> Any:
    found = layout.file(name)
    assert found is not None
    return _parse(found, name)


def _parse(region: Region, name: str) -> Any:
    if region.size_bytes > MAX_JSON_BYTES:
        raise Damaged(f"{name} has {region.size_bytes:,} bytes, at most {MAX_JSON_BYTES:,} can be")
    try:
        return json.loads(region.again().read(region.size_bytes))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name} is no JSON: {error}") from error


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Damaged(f"{name} is no object")
    return cast("Mapping[str, Any]", value)


def _objects(value: Any, key: str, name: str) -> list[Mapping[str, Any]]:
    found = _object(value, name).get(key)
    if not isinstance(found, list) or not found:
        raise Damaged(f"{name} has no {key}")
    return [_object(each, f"{key} of {name}") for each in cast("list[Any]", found)]
