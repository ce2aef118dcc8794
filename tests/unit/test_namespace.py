"""Names with and without their namespace (the cases of Java's NamespaceUtil)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.namespace import unwrap, wrap

names = st.text("abc-_", min_size=1, max_size=8)
kinds = st.sampled_from(["", "%RETRY%", "%DLQ%"])


@pytest.mark.parametrize(
    ("bare", "wrapped"),
    [
        ("orders", "shop%orders"),
        ("%RETRY%shipping", "%RETRY%shop%shipping"),
        ("%DLQ%shipping", "%DLQ%shop%shipping"),
    ],
)
def test_the_prefix_goes_behind_the_kind(bare, wrapped):
    assert wrap("shop", bare) == wrapped
    assert unwrap("shop", wrapped) == bare


@given(kinds, names, names)
def test_there_and_back(kind, namespace, name):
    assert unwrap(namespace, wrap(namespace, kind + name)) == kind + name
    assert wrap(namespace, wrap(namespace, kind + name)) == wrap(namespace, kind + name)


@given(kinds, names)
def test_without_a_namespace_nothing_changes(kind, name):
    assert wrap("", kind + name) == unwrap("", kind + name) == kind + name


def test_a_name_of_another_namespace_is_left_alone():
    assert unwrap("shop", "bank%orders") == "bank%orders"
