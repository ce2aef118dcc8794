"""Finding and loading librocketmq: one clear error each for what is wrong."""

import sys
from ctypes.util import find_library as find_installed

import pytest

from orderly.errors import NativeLibraryError
from orderly.native import library as library_module
from orderly.native.library import CONSUMING, PRODUCING, Library, find_library

LIBC = find_installed("c")


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.delenv("ORDERLY_LIBROCKETMQ", raising=False)
    monkeypatch.setattr(library_module, "find_installed", lambda _name: None)
    monkeypatch.setattr(library_module, "_USUAL", ())
    monkeypatch.setitem(sys.modules, "rocketmq", None)


@pytest.fixture
def no_binding(monkeypatch):
    monkeypatch.setattr(library_module, "find_spec", lambda _name: None)


def test_where_there_is_none_it_says_how_to_get_one(nothing_installed, no_binding):
    assert find_library() is None
    with pytest.raises(NativeLibraryError, match="apache/rocketmq-client-cpp") as caught:
        Library()
    assert "ORDERLY_LIBROCKETMQ" in str(caught.value)
    assert "OrderlyConsumer do not need it" in str(caught.value)


def test_the_variable_wins_even_if_it_names_nothing(nothing_installed, monkeypatch):
    monkeypatch.setattr(library_module, "find_installed", lambda _name: LIBC)
    monkeypatch.setenv("ORDERLY_LIBROCKETMQ", "/no/such/librocketmq.so")
    assert find_library() == "/no/such/librocketmq.so"
    with pytest.raises(NativeLibraryError, match=r"/no/such/librocketmq\.so cannot be loaded"):
        Library()


def test_the_one_within_the_python_binding_comes_before_the_systems(
    nothing_installed, monkeypatch, tmp_path
):
    (tmp_path / f"librocketmq{library_module._SUFFIX}").touch()
    binding = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(library_module, "find_spec", lambda _name: binding)
    monkeypatch.setattr(library_module, "find_installed", lambda _name: "librocketmq.so.2")
    assert find_library() == str(tmp_path / f"librocketmq{library_module._SUFFIX}")


def test_what_is_no_library_cannot_be_loaded(tmp_path):
    text = tmp_path / "librocketmq.so"
    text.write_text("not a library")
    with pytest.raises(NativeLibraryError, match="built for this machine") as caught:
        Library(str(text))
    assert isinstance(caught.value.__cause__, OSError)


def test_another_library_lacks_every_call():
    other = Library(LIBC)
    with pytest.raises(NativeLibraryError, match=r"lacks SendMessageOrderly\. It is too old"):
        other["SendMessageOrderly"]
    assert other.missing(PRODUCING) == tuple(PRODUCING)
    assert "GetMessageBody" not in other
    with pytest.raises(NativeLibraryError, match=r"lacks GetMessageTopic, .*not librocketmq"):
        other.require(CONSUMING)
