"""Images without an engine: a root file system that is a directory, a tar of one, or an image that was saved to a file.

    $XDG_CACHE_HOME/proctor/images/
        <digest>/rootfs         what it unpacks to
        <digest>/config.json    its variables, work directory and user
        <digest>.lock           held by whoever unpacks it
        .new-<digest>-<token>/  being unpacked; what a process left that ended, the next one removes
        digests/                digests of files, by their path

An entry can be removed at any time that no sandbox uses it: it is made anew. Everything here blocks, for a thread.
"""

from __future__ import annotations

import json
import os
import posixpath
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from proctor.errors import Fault, describe
from proctor.plugins.api import Say
from proctor.providers._copying import open_regular
from proctor.providers.rootfs import cache as root_cache
from proctor.providers.rootfs import oci
from proctor.providers.rootfs.digests import digest_of_folder, identity, remembered
from proctor.providers.rootfs.layouts import FolderLayout, Layout, TarLayout
from proctor.providers.rootfs.region import PIECE_BYTES, Budget, Damaged, Region
from proctor.providers.rootfs.streams import Expanded
from proctor.providers.rootfs.tar import Tar
from proctor.providers.rootfs.unpack import Unpacker


@dataclass(frozen=True)
class ImageConfig:
    """What an image says of the commands in it; nothing where it is only files."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str | None = None
    user: str | None = None


def digest_of(image: str) -> str | None:
    """Return what an image is known by; None where it is missing. Raises `Fault` (image.build_failed) if it is damaged.

    That is the digest of the manifest for this machine, or the sha256 of a tar, or of all names, sizes and times in a
    directory.
    """
    path = os.path.realpath(image)
    with _faults(image):
        if not os.path.exists(path):
            return None
        if os.path.isdir(path):
            if _is_layout(path):
                with closing(FolderLayout(path)) as layout:
                    return oci.find_image(layout).digest
            return digest_of_folder(path)
        return remembered(root_cache.digests(), path, lambda: _digest_of_tar(path))


def prepare(image: str, say: Say) -> str:
    """Return the directory of the root file system of an image, unpacked if that was not done yet.

    A directory is used as it is. Two processes unpack nothing twice: the second waits. Whatever `say` raises ends the
    work and leaves nothing. Raises `Fault`: image.missing, or image.build_failed for one that is damaged, for another
    kind of machine, more than it may be, or where the machine does not let it be unpacked.
    """
    path = os.path.realpath(image)
    with _faults(image):
        if os.path.isdir(path) and not _is_layout(path):
            return path
        digest = digest_of(image)
        if digest is None:
            raise Fault("image.missing", f"there is no image {image}: no such file or directory")
        before = identity(path)

        def unpack(folder: str) -> None:
            _unpack(path, folder, digest, say)
            if identity(path) != before:
                raise Damaged("it changed while it was unpacked")

        return root_cache.made(digest.partition(":")[2], unpack, say) + "/rootfs"


def config_of(image: str) -> ImageConfig:
    """Return what an image says of its commands; `image` may be what `prepare` returned for it."""
    path = os.path.realpath(image)
    with _faults(image):
        if os.path.isdir(path) and not _is_layout(path):
            return _kept_config(path)
        if not os.path.exists(path):
            raise Fault("image.missing", f"there is no image {image}: no such file or directory")
        with _layout(path) as layout:
            return ImageConfig() if layout is None else _config(oci.find_image(layout).config)


@contextmanager
def _faults(image: str) -> Generator[None]:
    """Raise as `Fault` what is wrong with an image."""
    try:
        yield
    except Damaged as error:
        raise Fault("image.build_failed", f"image {image} cannot be used: {error}") from error
    except OSError as error:
        raise Fault("image.build_failed", f"image {image} could not be unpacked: {describe(error)}") from error


def _is_layout(path: str) -> bool:
    return os.path.isfile(f"{path}/oci-layout") and os.path.isfile(f"{path}/index.json")


@contextmanager
def _opened(path: str) -> Generator[Region]:
    descriptor = open_regular(path, os.O_RDONLY)
    try:
        yield Region(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


@contextmanager
def _layout(path: str, budget: Budget | None = None) -> Generator[Layout | None]:
    """Yield the files of an image; None for a tar that is a root file system.

    A compressed archive is expanded to a file without a name first, of which nothing is left, come what may.
    """
    with ExitStack() as stack:
        if os.path.isdir(path):
            yield stack.enter_context(closing(FolderLayout(path)))
            return
        region = stack.enter_context(_opened(path))
        stream = stack.enter_context(closing(Expanded(region, Budget(path, _say_nothing))))
        if not _holds_image(stream):
            yield None
            return
        if stream.compressed:
            expanded = stack.enter_context(tempfile.TemporaryFile(dir=root_cache.images()))
            whole = stack.enter_context(closing(Expanded(region, budget or Budget(path, _say_nothing))))
            while data := whole.read(PIECE_BYTES):
                expanded.write(data)
            expanded.flush()
            region = Region(expanded.fileno(), 0, expanded.tell())
        yield TarLayout(region)


def _say_nothing(line: str) -> None:
    """Nobody waits for it."""


def _holds_image(stream: Expanded) -> bool:
    """Say whether a tar holds the files of an image, and not those of a root file system."""
    for member in Tar(stream, may_end_early=True):
        if (found := oci.like_an_image(member.name)) is not None:
            return found
    return False


def _digest_of_tar(path: str) -> str:
    with _layout(path) as layout:
        if layout is not None:
            return oci.find_image(layout).digest
    with _opened(path) as region:
        return f"sha256:{region.digest()}"


def _unpack(path: str, folder: str, digest: str, say: Say) -> None:
    """Unpack an image into `folder`, with its configuration beside it."""
    budget = Budget(os.path.basename(path), say)
    os.mkdir(f"{folder}/rootfs", 0o755)
    root = os.open(f"{folder}/rootfs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        unpacker = Unpacker(root, budget, say)
        with _layout(path, budget) as layout:
            if layout is None:
                with _opened(path) as region, closing(Expanded(region, budget)) as stream:
                    unpacker.layer(Tar(stream), of_image=False)
                    stream.drain()
                config = ImageConfig()
            else:
                config = _unpack_image(oci.find_image(layout), digest, unpacker, budget, say)
        unpacker.finish()
        if not budget.files or not os.listdir(root):
            raise Damaged("it holds no files that can be unpacked")
    finally:
        os.close(root)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"env": dict(config.env), "workdir": config.workdir, "user": config.user}, file)


def _unpack_image(image: oci.Image, digest: str, unpacker: Unpacker, budget: Budget, say: Say) -> ImageConfig:
    if image.digest != digest:
        raise Damaged("it changed while it was unpacked")
    if image.machine not in (None, oci.this_machine()):
        say(f"the image is for {image.machine}, and this machine is {oci.this_machine()}")
    for number, layer in enumerate(image.layers, 1):
        say(f"unpacking layer {number} of {len(image.layers)}: {layer.blob.size_bytes / 1e6:,.1f} MB")
        try:
            layer.verify()
            with closing(Expanded(layer.blob, budget)) as stream:
                unpacker.layer(Tar(stream, may_end_early=True), of_image=True)
                stream.drain()
            if stream.digest != layer.tar_sha256:
                raise Damaged("the digest of its tar is not the one that the configuration names")
        except Damaged as error:
            raise Damaged(f"layer {number} of {len(image.layers)}: {error}") from error
    return _config(image.config)


def _config(found: Mapping[str, Any]) -> ImageConfig:
    """Return what the configuration of an image says; what makes no sense in it is as good as not there."""
    listed, workdir, user = found.get("Env"), found.get("WorkingDir"), found.get("User")
    pairs = [each for each in cast("list[Any]", listed) if isinstance(each, str)] if isinstance(listed, list) else []
    env = {
        name: value
        for name, equals, value in (pair.partition("=") for pair in pairs)
        if name and equals and "\0" not in name + value
    }
    return ImageConfig(
        env,
        workdir if isinstance(workdir, str) and posixpath.isabs(workdir) and "\0" not in workdir else None,
        user if isinstance(user, str) and user and "\0" not in user else None,
    )


def _kept_config(root: str) -> ImageConfig:
    """Return the configuration beside a root file system of the cache; any other directory has none."""
    entry, name = os.path.split(root)
    if name != "rootfs" or os.path.dirname(entry) != root_cache.images():
        return ImageConfig()
    try:
        with open(f"{entry}/config.json", encoding="utf-8") as file:
            found: Any = json.load(file)
            return ImageConfig(found["env"], found["workdir"], found["user"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"its configuration is gone ({error}): remove {entry}") from error
