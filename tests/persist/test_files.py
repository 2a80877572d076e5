"""Single files: links, permissions, pipes, devices, and names that cannot be written."""

import errno
import io
import os
import pickle
import re
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from isoweave._files import NewFile, WriteError, append_text, atomic_write, check_writable, write_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and permissions")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "y.txt"


def write_half(path, error):
    with atomic_write(path) as file:
        file.write(b"half")
        file.flush()
        raise error


def n_descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_an_exception_in_the_block_keeps_the_old_file(path):
    path.write_text("old")
    before = n_descriptors()
    for kind in (RuntimeError, KeyboardInterrupt, OSError):
        with pytest.raises(kind, match="^not ours$"):
            write_half(path, kind("not ours"))
        assert path.read_text() == "old"
        assert list(path.parent.iterdir()) == [path]
    write_text(path, "new\n")
    for text in ("er\n", "", "é\n"):
        append_text(path, text)
    assert path.read_text(encoding="utf-8") == "new\ner\né\n"
    assert n_descriptors() == before


@pytest.mark.parametrize("is_nameless", [True, False])
def test_the_name_appears_only_when_the_file_is_complete(path, monkeypatch, is_nameless):
    """Elsewhere than on Linux, and on network folders, the new file is hidden until then."""
    if not is_nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    for text in (b"first", b"second"):
        with atomic_write(path) as file:
            file.write(text)
            hidden = [entry.name for entry in path.parent.iterdir() if entry != path]
            assert path.exists() == (text == b"second")
            assert is_nameless or re.fullmatch(r"\.y\.txt\.[0-9a-f]{8}\.isoweave-tmp", *hidden)
        assert (path.read_bytes(), list(path.parent.iterdir())) == (text, [path])
    taken, free = NewFile(path), NewFile(path.with_name("other"))
    with pytest.raises(FileExistsError):
        taken.publish(is_new=True)
    free.publish(is_new=True)
    for new in (taken, free):
        new.release()
    assert path.read_bytes() == b"second"
    assert {entry.name for entry in path.parent.iterdir()} == {"y.txt", "other"}


def test_what_libraries_do_with_a_file(path):
    with atomic_write(path) as file:
        file.write(b"a___")
        file.seek(1)
        file.write(b"bcd")
        assert file.tell() == 4
        file.close()
    assert path.read_bytes() == b"abcd"
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        text.write("é\r\n\n")
        text.detach()
    assert path.read_bytes() == "é\r\n\n".encode()
    with atomic_write(path) as file:
        # numpy would write to it in C, where a full disk gives an error without a reason.
        with pytest.raises(OSError, match="fileno"):
            file.fileno()
        np.save(file, np.arange(1000))
    # Kept after the end, it writes nowhere: not even to what has its descriptor by then.
    with path.with_name("other.txt").open("wb") as other:
        file.write(b"late")
        file.flush()
        other.write(b"mine")
    assert path.with_name("other.txt").read_bytes() == b"mine"
    assert np.load(path).sum() == 499_500


def test_permissions_and_links(path, monkeypatch):
    old = os.umask(0o027)
    try:
        write_text(path, "")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o755)
    link = path.parent / "folder" / "link.txt"
    link.parent.mkdir()
    link.symlink_to(path)
    for text in ("new", "old"):
        write_text(link, text)
        assert (link.is_symlink(), path.read_text(), len(list(link.parent.iterdir()))) == (True, text, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    (path.parent / "loop").symlink_to("loop")
    with pytest.raises(WriteError, match="symbolic links"):
        write_text(path.parent / "loop", "")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do anything
    for write in (lambda: write_text(path, "new"), lambda: check_writable(path)):
        with pytest.raises(WriteError, match=r"y\.txt: it is write-protected\.$"):
            write()
    assert path.read_text() == "old"


def test_pipes_get_everything_at_the_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    # Opening the pipe, which nobody reads yet, would wait for ever.
    with pytest.raises(RuntimeError, match="no"):
        write_half(tmp_path / "pipe", RuntimeError("no"))
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_text(tmp_path / "pipe", "x" * 300_000)
    reader.join(timeout=600)
    assert found == [b"x" * 300_000]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_devices(tmp_path):
    with pytest.raises(WriteError, match=r"cannot write /dev/full: no space is left on the device"):
        write_text("/dev/full", "text")
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    # Open files by their number: what they hold already stays.
    code = (
        "import sys\nfrom isoweave._files import write_text\nfor name in sys.argv[1:]: write_text(name, '+')"
    )
    names = [name for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1") if os.path.exists(name)]
    (tmp_path / "log").write_bytes(b"before ")
    with (tmp_path / "log").open("ab") as log:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        subprocess.run([sys.executable, "-c", code, *names], stdout=log, env=environment, check=True)
    assert (tmp_path / "log").read_bytes() == b"before " + b"+" * len(names)


NAMES = {
    ".": (errno.EISDIR, "it is a folder"),
    "none/y.txt": (errno.ENOENT, "folder .*none does not exist"),
    "file/y.txt": (errno.ENOTDIR, ".*file is not a folder"),
    "x" * 300: (errno.ENAMETOOLONG, "the name is too long"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").write_text("")
    path, (code, reason) = tmp_path / name, NAMES[name]
    for write in (lambda: write_text(path, ""), lambda: check_writable(path)):
        with pytest.raises(WriteError, match=rf"^cannot write {path}: {reason}\.$") as caught:
            write()
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert (type(error), error.errno, error.filename) == (WriteError, code, str(path))
            assert str(error) == str(caught.value)
    with pytest.raises(WriteError, match=f"cannot write {path}: "):
        append_text(path, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    write_text(tmp_path / ("é" * 127), "text")  # the longest that fits


def test_a_library_that_catches_everything_hides_no_error(path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda fd, data: os.stat("/no/such/file"))
    with pytest.raises(WriteError, match=r"y\.txt: folder .* does not exist\."):  # noqa: SIM117
        with atomic_write(path) as file, suppress(OSError):
            file.write(b"x" * 5_000_000)
    assert list(path.parent.iterdir()) == []
