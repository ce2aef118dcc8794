"""Files beside their target: whole or not there, and nobody chooses where they are written."""

import errno
import os
import stat

import pytest

from orderly.durable_file import FOR_ALL, replacing, synced


@pytest.fixture
def target(tmp_path):
    return tmp_path / "room" / "file"


@pytest.fixture
def victim(target):
    """What somebody would have us write to."""
    target.parent.mkdir()
    found = target.parent.parent / "victim"
    found.write_text("precious")
    return found


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_that_waits_for_us_is_not_followed(target, victim, link):
    getattr(target, link)(victim)
    with synced(target) as file:
        file.write(b"ours")
    assert victim.read_text() == "precious"
    assert not target.is_symlink()
    assert target.read_text() == "ours"


def test_one_that_comes_in_between_is_an_error(target, victim, monkeypatch):
    monkeypatch.setattr(type(target), "unlink", lambda self, **_: self.symlink_to(victim))
    with pytest.raises(FileExistsError), synced(target):
        pytest.fail("it was opened")
    assert victim.read_text() == "precious"


def test_what_cannot_be_removed_is_an_error(target):
    target.mkdir(parents=True)
    with pytest.raises(OSError) as raised, synced(target):
        pytest.fail("it was opened")
    assert raised.value.errno in {errno.EISDIR, errno.EPERM}


@pytest.mark.usefixtures("victim")
def test_what_a_process_that_died_left_is_no_obstacle(target):
    target.write_text("half, and longer")
    with synced(target) as file:
        file.write(b"whole")
    assert target.read_text() == "whole"


@pytest.mark.parametrize("write", [synced, replacing])
@pytest.mark.usefixtures("victim")
def test_it_is_its_owners_unless_others_are_to_read_it(target, write):
    umask = os.umask(0o022)
    try:
        for mode, found in (((), 0o600), ((FOR_ALL,), 0o644)):
            with write(target, *mode) as file:
                assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == found
            assert stat.S_IMODE(target.stat().st_mode) == found
    finally:
        os.umask(umask)


def write_half(path):
    with replacing(path) as file:
        file.write(b"half")
        raise LookupError


@pytest.mark.usefixtures("victim")
def test_what_is_to_be_replaced_stays_until_the_new_one_is_whole(target):
    target.write_text("old")
    with pytest.raises(LookupError):
        write_half(target)
    assert list(target.parent.iterdir()) == [target]
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]
    assert target.read_text() == "new"
