"""Single files: links, permissions, pipes, devices, and names that cannot be written."""

from __future__ import annotations

import errno
import gc
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

posix = pytest.mark.skipif(os.name != "posix", reason="pipes and devices")


def test_name_appears_only_when_complete(tmp_path):
    path = tmp_path / "y.txt"
    with atomic_write(path) as file:
        file.write(b"all")
        assert not path.exists()
    assert path.read_bytes() == b"all"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, OSError])
def test_an_exception_in_the_block_keeps_the_old_file(tmp_path, kind):
    path = tmp_path / "y.txt"
    path.write_text("old")

    def write_half():
        with atomic_write(path) as file:
            file.write(b"half")
            file.flush()
            raise kind("not ours")

    with pytest.raises(kind, match="^not ours$"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_library_may_close_the_file(tmp_path):
    with atomic_write(tmp_path / "y.txt") as file:
        file.write(b"all")
        file.close()
    assert (tmp_path / "y.txt").read_bytes() == b"all"


def test_the_file_can_be_sought(tmp_path):
    with atomic_write(tmp_path / "y.txt") as file:
        file.write(b"a___")
        file.seek(1)
        file.write(b"bcd")
        assert file.tell() == 4
    assert (tmp_path / "y.txt").read_bytes() == b"abcd"


def test_no_library_gets_at_the_descriptor(tmp_path):
    """numpy would write to it in C, where a full disk gives an error without a reason."""
    with atomic_write(tmp_path / "y.npy") as file:
        with pytest.raises(OSError, match="fileno"):
            file.fileno()
        np.save(file, np.arange(1000))
    assert np.load(tmp_path / "y.npy").sum() == 499_500


def test_a_failed_write_is_reported_even_if_a_library_loses_it(tmp_path, monkeypatch):
    real = os.write

    def fail(fd, data):
        if len(data) > 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    def write_and_lose():
        with atomic_write(tmp_path / "y.txt") as file, suppress(OSError):
            file.write(b"x" * 5_000_000)

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(WriteError, match="no space is left on the device"):
        write_and_lose()
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_file_object_writes_nowhere(tmp_path):
    kept = []
    with atomic_write(tmp_path / "y.txt") as file:
        kept.append(file)
    with (tmp_path / "other.txt").open("wb") as other:  # very likely with the same descriptor
        kept[0].write(b"late")
        kept[0].flush()
        other.write(b"mine")
    assert (tmp_path / "other.txt").read_bytes() == b"mine"
    assert (tmp_path / "y.txt").read_bytes() == b""


@pytest.mark.parametrize("is_nameless", [True, False])
def test_without_files_that_have_no_name(tmp_path, monkeypatch, is_nameless):
    """Elsewhere than on Linux, and on network folders, the new file is hidden until it is complete."""
    if not is_nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "y.txt"
    for text in (b"first", b"second"):
        with atomic_write(path) as file:
            file.write(text)
            hidden = [entry.name for entry in tmp_path.iterdir() if entry != path]
            assert is_nameless or re.fullmatch(r"\.y\.txt\.[0-9a-f]{8}\.isoweave-tmp", *hidden)
        assert (path.read_bytes(), len(list(tmp_path.iterdir()))) == (text, 1)
    for name, is_taken in ((path, True), (tmp_path / "new", False)):
        new = NewFile(name)
        new.file.write(b"third")
        if is_taken:
            with pytest.raises(FileExistsError):
                new.publish(is_new=True)
        else:
            new.publish(is_new=True)
        new.release()
    assert (path.read_bytes(), (tmp_path / "new").read_bytes()) == (b"second", b"third")
    assert len(list(tmp_path.iterdir())) == 2


def test_no_descriptors_are_left_open(tmp_path):
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("needs /proc")
    gc.collect()
    before = len(os.listdir(folder))
    for _ in range(20):
        write_text(tmp_path / "y.txt", "text")
        append_text(tmp_path / "z.txt", "text")
        with pytest.raises(RuntimeError, match="no"), atomic_write(tmp_path / "y.txt"):
            raise RuntimeError("no")
    assert len(os.listdir(folder)) == before


@posix
class TestPermissions:
    def test_new_files_follow_the_umask(self, tmp_path):
        old = os.umask(0o027)
        try:
            write_text(tmp_path / "y.txt", "")
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "y.txt").stat().st_mode) == 0o640

    @pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
    def test_replaced_files_keep_theirs(self, tmp_path, mode):
        (tmp_path / "y.txt").write_text("old")
        (tmp_path / "y.txt").chmod(mode)
        write_text(tmp_path / "y.txt", "new")
        assert stat.S_IMODE((tmp_path / "y.txt").stat().st_mode) == mode

    def test_write_protected_files_stay(self, tmp_path, monkeypatch):
        (tmp_path / "y.txt").write_text("old")
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do anything
        for write in (
            lambda: write_text(tmp_path / "y.txt", "new"),
            lambda: check_writable(tmp_path / "y.txt"),
        ):
            with pytest.raises(WriteError, match=r"y\.txt: it is write-protected\.$"):
                write()
        assert (tmp_path / "y.txt").read_text() == "old"


@posix
class TestLinks:
    def test_they_keep_pointing(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link.txt").symlink_to(tmp_path / "real" / "y.txt")
        for text in ("new", "newer"):
            write_text(tmp_path / "link.txt", text)
            assert (tmp_path / "link.txt").is_symlink()
            assert (tmp_path / "real" / "y.txt").read_text() == text
            assert len(list((tmp_path / "real").iterdir())) == 1

    def test_loops_are_an_error(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(WriteError, match="too many symbolic links"):
            write_text(tmp_path / "a", "")


@posix
class TestStreams:
    """Whatever is not a file gets everything at the end, and is never replaced by one."""

    def test_pipes(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        found = []
        reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
        reader.start()
        write_text(tmp_path / "pipe", "x" * 300_000)
        reader.join(timeout=30)
        assert found == [b"x" * 300_000]
        assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)

    def test_a_full_device(self):
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full")
        with pytest.raises(WriteError, match=r"cannot write /dev/full: no space is left on the device"):
            write_text("/dev/full", "text")

    def test_a_null_device(self):
        write_text("/dev/null", "text")
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)

    CODE = "from isoweave._files import atomic_write\nwith atomic_write({!r}) as f:\n    f.write(b'all')\n"

    @pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
    def test_standard_output(self, tmp_path, name):
        if not os.path.exists(name):
            pytest.skip(f"no {name}")
        command = [sys.executable, "-c", self.CODE.format(name)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, capture_output=True, env=environment, check=True)
        assert done.stdout == b"all"
        with (tmp_path / "log").open("ab") as log:
            log.write(b"before ")
            log.flush()
            subprocess.run(command, stdout=log, env=environment, check=True)
        assert (tmp_path / "log").read_bytes() == b"before all"

    def test_nothing_is_sent_after_an_error(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")

        def write_half():
            with atomic_write(tmp_path / "pipe") as file:
                file.write(b"half")
                raise RuntimeError("no")

        # Opening the pipe, which nobody reads, would wait for ever.
        with pytest.raises(RuntimeError, match="no"):
            write_half()


NAMES = {
    "a folder": (".", errno.EISDIR, "it is a folder"),
    "no such folder": ("none/y.txt", errno.ENOENT, "folder .*none does not exist"),
    "a file for a folder": ("file/y.txt", errno.ENOTDIR, ".*file is not a folder"),
    "a long name": ("x" * 300, errno.ENAMETOOLONG, "the name is too long"),
}


@posix
@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be_written(tmp_path, name):
    given, code, reason = NAMES[name]
    (tmp_path / "file").write_text("")
    path = tmp_path / given
    for write in (lambda: write_text(path, ""), lambda: check_writable(path)):
        with pytest.raises(WriteError, match=rf"^cannot write {path}: {reason}\.$") as caught:
            write()
        assert caught.value.errno == code
        assert caught.value.filename == str(path)
    with pytest.raises(WriteError, match=f"cannot write {path}: "):
        append_text(path, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@posix
def test_no_permission(tmp_path, monkeypatch):
    def refuse(path, flags, mode=0o777, *, dir_fd=None):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteError, match=f"y.txt: no permission to write in {tmp_path}"):
        write_text(tmp_path / "y.txt", "")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(WriteError, match=f"y.txt: no permission to write in {tmp_path}"):
        check_writable(tmp_path / "y.txt")


def test_long_names_that_fit_can_be_written(tmp_path):
    for name in ("x" * 255, "é" * 127):
        write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_error_is_an_oserror_that_can_be_pickled():
    error = WriteError(errno.ENOSPC, "no space", "y.txt")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, OSError)
    assert str(again) == "cannot write y.txt: no space."
    assert (again.errno, again.strerror, again.filename) == (errno.ENOSPC, "no space", "y.txt")


def test_unknown_errors_keep_their_text(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WriteError, match=r"y\.txt: Invalid cross-device link\."):
        write_text(tmp_path / "y.txt", "")


def test_append(tmp_path):
    for text in ("a\n", "", "é\n"):
        append_text(tmp_path / "log", text)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "a\né\n"


def test_write_text_writes_utf8_as_it_is(tmp_path):
    write_text(tmp_path / "y.txt", "é\r\n\n")
    assert (tmp_path / "y.txt").read_bytes() == "é\r\n\n".encode()


def test_text_wrappers_work(tmp_path):
    with atomic_write(tmp_path / "y.txt") as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        text.write("é\n")
        text.detach()
    assert (tmp_path / "y.txt").read_bytes() == "é\n".encode()
