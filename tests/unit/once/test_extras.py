"""Without its extra a store says what to install; the rule needs none."""

import sys

import pytest

import orderly.once


@pytest.mark.parametrize(
    ("name", "home", "library", "extra"),
    [
        ("Once", "orderly.once.sql", "sqlalchemy", "once"),
        ("RedisOnce", "orderly.once.redis", "redis", "redis"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, name, home, library, extra):
    monkeypatch.delitem(sys.modules, home, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"`pip install .*\[{extra}\]'`"):
        getattr(orderly.once, name)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Onse"):
        orderly.once.Onse  # noqa: B018
