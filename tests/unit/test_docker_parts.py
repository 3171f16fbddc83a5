"""The parts of provider `docker` that need no engine: scripts, outputs, archives, listings."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.plugins.api import ExecLimits, LeftOut
from proctor.providers._tar_out import opened, take_files
from proctor.providers.docker import scripts
from proctor.providers.docker.listing import LIST, Entry, ListingChanged, choose, parse, requests
from proctor.providers.docker.output import Output

TOKEN = "0123456789abcdef"

# ---------------------------------------------------------------------------------------------------------- outputs


def end_word(token: str, status: int, how: str) -> bytes:
    return f"\x1eproctor:{token}:{status}:{how}\x1e".encode()


@given(st.binary(max_size=200), st.binary(max_size=50), st.lists(st.integers(0, 300), max_size=8))
def test_output_ends_with_the_word_of_its_end_however_it_is_cut(said: bytes, later: bytes, cuts: list[int]) -> None:
    """What is like the word, and is not, is output."""
    said += b"\x1eproctor:" + TOKEN[:5].encode()
    whole = said + end_word(TOKEN, 7, "returned") + later
    told: list[tuple[str, bytes]] = []
    output = Output(TOKEN, 10_000, None, lambda stream, data: told.append((stream, data)))
    places = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        output.feed(1, whole[begin:end])
    assert output.end is None, "only one of two streams has ended"
    output.feed(2, end_word(TOKEN, 7, "returned"))
    assert output.end is not None
    assert (output.end.exit_code, output.end.signal) == (7, None)
    assert output.stdout.kept == said
    assert b"".join(data for _, data in told) == said
    assert output.stderr.kept == b""


def test_output_without_the_word_comes_whole() -> None:
    output = Output(TOKEN, 10_000, None, None)
    output.feed(1, b"cut off \x1eproctor:")
    output.finish()
    assert (output.end, output.stdout.kept) == (None, b"cut off \x1eproctor:")


def test_output_beyond_its_limit_is_noticed() -> None:
    output = Output(TOKEN, 4, 5, None)
    output.feed(1, b"12345")
    assert not output.exceeded
    output.feed(2, b"123456")
    assert output.exceeded
    assert (output.stderr.kept, output.stderr.dropped) == (b"1256", 2)


@pytest.mark.parametrize("status", [5, 128, 999])
def test_a_word_that_the_command_wrote_itself_tells_no_signal_that_cannot_be(status: int) -> None:
    output = Output(TOKEN, 10_000, None, None)
    for stream in (1, 2):
        output.feed(stream, end_word(TOKEN, status, "signalled"))
    assert output.end is not None
    assert 1 <= (output.end.signal or 1) <= 127
    assert output.end.exit_code in (None, status)


# ---------------------------------------------------------------------------------------------------------- scripts

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]}")
    return words


def run(shell: list[str], tmp_path: Path, *words: str, limits: ExecLimits | None = None) -> tuple[Output, str]:
    own = scripts.command_words(TOKEN, str(tmp_path), list(words), limits or ExecLimits())
    own = [" ".join(shell) if word == "/bin/sh" else word for word in own]
    own[2] = own[2].replace("/bin/sh", " ".join(shell))
    done = subprocess.run([*shell, *own[1:]], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=100)
    output = Output(TOKEN, 100_000, None, None)
    output.feed(1, done.stdout)
    output.feed(2, done.stderr)
    output.finish()
    return output, output.stderr.kept.decode()


@pytest.mark.parametrize(
    ("command", "exit_code", "signal"),
    [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("exit 137", 137, None),
        ("exit 143", 143, None),
        ("kill -9 $$", None, 9),
        ("kill -15 $$", None, 15),
        ("kill -11 $$", None, 11),
        ("echo Killed >&2; exit 137", 137, None),
        ("kill -2 $$", 130, None),  # as in a shell: nothing tells it from `exit 130`
    ],
)
def test_every_shell_tells_a_signal_from_a_number(
    shell: list[str], tmp_path: Path, command: str, exit_code: int | None, signal: int | None
) -> None:
    output, _ = run(shell, tmp_path, "sh", "-c", command)
    assert output.end is not None
    assert (output.end.exit_code, output.end.signal) == (exit_code, signal)


def test_what_keeps_a_shell_from_running_words_is_told(shell: list[str], tmp_path: Path) -> None:
    words = scripts.command_words(TOKEN, str(tmp_path), ["true"], ExecLimits())
    words[6] = "echo cannot fork"
    done = subprocess.run([*shell, *words[1:]], capture_output=True, check=False)
    output = Output(TOKEN, 10_000, None, None)
    output.feed(1, done.stdout)
    output.feed(2, done.stderr)
    assert output.end == (126, False)
    assert (output.stdout.kept, output.stderr.kept) == (b"", b"cannot fork\n")


def test_every_shell_runs_words_as_they_are(shell: list[str], tmp_path: Path) -> None:
    output, said = run(shell, tmp_path, "printf", "%s|%s", "$HOME", "a  'b'\n;*")
    assert output.stdout.kept == b"$HOME|a  'b'\n;*"
    assert said == ""
    output, said = run(shell, tmp_path, "no-such-program-here")
    assert output.end is not None
    assert output.end.exit_code == 127
    assert "no-such-program-here" in said
    output, said = run(shell, tmp_path / "missing", "true")
    assert output.end is not None
    assert output.end.exit_code == 127
    assert "missing" in said


def test_every_shell_limits_files(shell: list[str], tmp_path: Path) -> None:
    command = "head -c 1000000 /dev/zero > big"
    output, _ = run(shell, tmp_path, "sh", "-c", command, limits=ExecLimits(file_bytes=100_000))
    assert output.end is not None
    assert output.end.exit_code != 0
    assert (tmp_path / "big").stat().st_size <= 100_000


# --------------------------------------------------------------------------------------------------------- archives


def archive(*members: tuple[str, bytes | tarfile.TarInfo]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if isinstance(content, bytes):
                info.size = len(content)
                made.addfile(info, io.BytesIO(content))
            else:
                made.addfile(info)
    buffer.seek(0)
    return buffer


def special(kind: bytes, linkname: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, linkname
    return info


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def test_170_nothing_is_written_outside_of_the_target(tmp_path: Path) -> None:
    """Whatever an archive calls its members, only what was asked for is written, where it belongs."""
    names = ["../../x", "/abs/x", "out/../../x", "C:\\x", "out/a\\..\\..\\x", "out/" + "n" * 5000, "out/fine"]
    members = [(name, b"content") for name in names]
    links = [
        ("out/link", special(tarfile.SYMTYPE, "/etc/passwd")),
        ("out/hard", special(tarfile.LNKTYPE, "/etc/passwd")),
        ("out/device", special(tarfile.CHRTYPE)),
        ("out/pipe", special(tarfile.FIFOTYPE)),
    ]
    wanted = dict.fromkeys(["x", "../x", "../../x", "fine", "link", "hard", "device", "pipe", "n" * 5000], 100)
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    taken = take_files(archive(*members, *links), str(target), wanted)
    assert taken.files == {"fine"}
    assert tree(tmp_path) == {"deep/target/fine"}
    assert (target / "fine").read_bytes() == b"content"


def test_172_a_file_that_is_larger_than_was_said_does_not_come(tmp_path: Path) -> None:
    taken = take_files(archive(("out/a", b"12345"), ("out/b", b"123")), str(tmp_path), {"a": 4, "b": 3})
    assert (taken.files, taken.left) == ({"b"}, {"a": 5})
    assert tree(tmp_path) == {"b"}


def test_172_an_archive_that_breaks_off_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    whole = archive(("out/a", b"1" * 3_000_000)).getvalue()
    taken = take_files(io.BytesIO(whole[:2_000_000]), str(tmp_path), {"a": 10_000_000})
    assert (taken.files, taken.left) == (set(), {"a": 10_000_000})
    assert tree(tmp_path) == set()


def test_172_a_header_that_has_no_end_is_not_read() -> None:
    """Names are read into memory, so that an archive could fill it by the header of one file."""
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    source = io.BytesIO(header.tobuf(tarfile.GNU_FORMAT) + bytes(100 << 20))
    with pytest.raises(tarfile.ReadError, match="longer than it may be"):
        opened(source).next()
    assert source.tell() <= 2 << 20


def test_hard_links_in_an_archive_come_as_files(tmp_path: Path) -> None:
    linked = special(tarfile.LNKTYPE, "out/a")
    taken = take_files(archive(("out/a", b"content"), ("out/b", linked)), str(tmp_path), {"a": 7, "b": 7})
    assert taken.files == {"a", "b"}
    assert (tmp_path / "b").read_bytes() == b"content"


def test_zeros_take_no_room(tmp_path: Path) -> None:
    taken = take_files(archive(("out/zeros", bytes(8 << 20))), str(tmp_path), {"zeros": 8 << 20})
    assert taken.files == {"zeros"}
    found = (tmp_path / "zeros").stat()
    assert (found.st_size, found.st_blocks) == (8 << 20, 0)


# --------------------------------------------------------------------------------------------------------- listings


def listed(path: Path) -> bytes:
    done = subprocess.run(["sh", "-c", LIST, "proctor", path], capture_output=True, check=False)
    assert done.returncode == 0
    return done.stdout


def test_a_listing_has_every_name_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "line\nbreak"
    names = ["plain", "with blank", "-dash", "line\nbreak", "back\\slash", "é", "*", "sub/deeper/file"]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"12345")
    (root / "empty").mkdir()
    (root / "link").symlink_to("plain")
    found = parse(str(root), listed(root))
    assert found.root == str(root)
    assert {entry.name: entry.size_bytes for entry in found.files} == dict.fromkeys(names, 5)
    assert set(found.folders) == {"sub", "sub/deeper", "empty"}
    single = parse(str(root / "plain"), listed(root / "plain"))
    assert (single.single, single.files[0].size_bytes) == (True, 5)


def test_a_listing_of_an_empty_directory_is_empty(tmp_path: Path) -> None:
    found = parse(str(tmp_path), listed(tmp_path))
    assert (found.root, found.folders, found.files) == (str(tmp_path), (), ())


@pytest.mark.parametrize("printed", [b"", b"x", b"d\n", b"d\n/a\n.\0\0./a\0\0", b"d\n/a\n.\0\0./a\0\0" + b"1 1\n2 2\n"])
def test_a_listing_that_does_not_fit_together_is_no_listing(printed: bytes) -> None:
    with pytest.raises(ListingChanged):
        parse("/a", printed)


@pytest.mark.parametrize("name", [b"./../x", b"./a/../../x", b"/x", b"..", b"x", b"./", b".//x", b"./a/."])
def test_170_a_listing_of_names_that_lead_out_is_no_listing(name: bytes) -> None:
    """Whoever is root in a container can have replaced `find` and the shell: these names become paths here."""
    with pytest.raises(ListingChanged, match="leads out"):
        parse("/a", b"d\n/a\n.\0" + name + b"\0\0./b\0\0" + b"1 8\n")
    with pytest.raises(ListingChanged, match="leads out"):
        parse("/a", b"d\n/a\n.\0\0" + name + b"\0\0" + b"1 8\n")


@pytest.mark.parametrize("size", [b"-5 8", b"5", b"5 8 8", b"x 8", b"9" * 5000 + b" 8"])
def test_a_listing_of_sizes_that_cannot_be_is_no_listing(size: bytes) -> None:
    """A size below zero would make room for what is beyond the limit."""
    for printed in (b"d\n/a\n.\0\0./b\0\0" + size + b"\n", b"f " + size + b"\n"):
        with pytest.raises(ListingChanged, match="size"):
            parse("/a", printed)


def test_a_listing_has_no_more_entries_than_there_is_memory_for() -> None:
    with pytest.raises(ListingChanged, match="more than 1,000,000"):
        parse("/a", b"d\n/a\n.\0" + b"./b\0" * 1_000_001)


def test_files_with_holes_are_left_out_and_counted(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 34)
    (tmp_path / "small").write_bytes(b"1")
    chosen, left_out = choose(parse(str(tmp_path), listed(tmp_path)).files, None, None)
    assert chosen == {"small": 1}
    assert left_out == LeftOut(1, 1 << 34)


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(NAMES, st.integers(0, 1000), max_size=12).map(
    lambda files: {
        name: size for name, size in files.items() if not any(other.startswith(f"{name}/") for other in files)
    }
)


@given(FILES, st.none() | st.integers(0, 3000), st.none() | st.integers(0, 8), st.sampled_from([0, 600, 10**9]))
def test_what_is_asked_for_has_all_that_is_chosen(
    files: dict[str, int], max_bytes: int | None, max_files: int | None, generous_bytes: int
) -> None:
    entries = [Entry(name, size, has_holes=False) for name, size in files.items()]
    chosen, left_out = choose(entries, max_bytes, max_files)
    assert sum(chosen.values()) <= (max_bytes if max_bytes is not None else 10**9)
    assert len(chosen) <= (max_files if max_files is not None else 10**9)
    assert len(chosen) + left_out.files == len(files)
    assert sum(chosen.values()) + left_out.size_bytes == sum(files.values())
    listing = parse("/r", _printed(files))
    asked = list(requests(listing, chosen, generous_bytes))
    assert len(set(asked)) == len(asked)
    for name in chosen:
        above = [one for one in asked if one in ("", name) or name.startswith(f"{one}/")]
        assert len(above) == 1, f"{name} comes once, by {above}"
    dropped = [name for name in files if name not in chosen and any(_covers(one, name) for one in asked)]
    if generous_bytes == 0 and dropped:
        wanted = sum(size + 512 for name, size in chosen.items())
        assert sum(files[name] + 512 for name in dropped) <= wanted, "what is not wanted is not more than what is"


def _covers(asked: str, name: str) -> bool:
    return asked in ("", name) or name.startswith(f"{asked}/")


def _printed(files: dict[str, int]) -> bytes:
    names = "".join(f"./{name}\0" for name in files)
    sizes = "".join(f"{size} {-(-size // 512)}\n" for size in files.values())
    return f"d\n/r\n.\0\0{names}\0{sizes}".encode()


def test_nobody_is_root_of_what_is_made(tmp_path: Path) -> None:
    """The work directory of a user other than root belongs to that user."""
    place, own = tmp_path / "some" / "where", f"{os.getuid()}:{os.getgid()}"
    done = subprocess.run(["sh", "-c", scripts.OWN_DIRECTORY, "proctor", place, own], capture_output=True, check=True)
    assert done.stdout.decode().split() == [str(os.getuid()), str(os.getgid())]
    assert place.is_dir()
