"""What a package says of its compiled files, or without any; a built one is in tests/compiled."""

from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from orderly import compiled

SUFFIX = EXTENSION_SUFFIXES[0]
OTHER = ".cpython-399-x86_64-linux-gnu.so"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package whose list names two files, which are there; the library is any module."""
    package = tmp_path / "orderly"
    package.mkdir()
    monkeypatch.setattr(compiled, "_FOLDER", package)
    monkeypatch.setattr(compiled, "LIBRARY", "json")
    write(package, SUFFIX)
    return package


def write(package, suffix):
    names = [f"orderly/lanes{suffix}", f"library{suffix}"]
    (package / compiled.MARKER).write_text("".join(f"{name}\n" for name in names))
    for name in names:
        (package.parent / name).touch()


def test_without_a_list_it_is_pure(folder):
    (folder / compiled.MARKER).unlink()
    assert compiled.load() is False


def test_in_a_zip_it_is_pure(folder, monkeypatch):
    monkeypatch.setattr(compiled, "_FOLDER", folder / compiled.MARKER)  # a file, as a zip is
    assert compiled.load() is False


def test_with_all_that_is_listed_it_is_compiled(folder):
    assert compiled.load() is True


def test_a_file_that_is_missing_is_named_with_what_to_do(folder):
    (folder / f"lanes{SUFFIX}").unlink()
    with pytest.raises(
        ImportError, match=r"lacks orderly/lanes\..* \(1 of 2 files\).*Install it again"
    ):
        compiled.load()


def test_files_for_another_python_are_refused(folder):
    write(folder, OTHER)
    with pytest.raises(ImportError, match="or this is another Python"):
        compiled.load()


def test_a_library_that_cannot_be_loaded_keeps_its_cause(folder, monkeypatch):
    monkeypatch.setattr(compiled, "LIBRARY", "no_such_library")
    with pytest.raises(ImportError, match="cannot be loaded") as found:
        compiled.load()
    assert isinstance(found.value.__cause__, ModuleNotFoundError)
