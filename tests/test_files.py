"""Files are written whole, or not at all."""

import itertools

import pytest

from neuralstream.files import write_whole


def test_a_file_takes_the_place_of_the_old_one(tmp_path):
    """With its permissions, also while it is written; nothing else is left in the folder."""
    file = tmp_path / "memory.jsonl"
    file.write_text("old")
    file.chmod(0o600)

    def private():
        assert {some.stat().st_mode & 0o777 for some in tmp_path.iterdir()} == {0o600}
        yield b"lines\n"

    write_whole(file, itertools.chain([b"new\n"], private()))
    assert file.read_text() == "new\nlines\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_what_breaks_off_leaves_the_old_file(tmp_path):
    """An error while it is written changes nothing, and leaves nothing behind."""
    file = tmp_path / "memory.jsonl"
    file.write_text("old")

    def breaks():
        yield b"half"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(file, breaks())
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
