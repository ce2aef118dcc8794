"""-g, -t and -r: which of the broker's names they mean, in a namespace too."""

import pytest

from orderly.cli.selection import Names
from orderly.cli.settings import CommonOptions
from orderly.errors import ConfigError

GROUPS = ["shop%billing", "shop%shipping", "bank%shipping", "shipping", "ship.ping"]


def chosen(names, namespace=""):
    selection = names.selection(CommonOptions(namespace=namespace))
    return [name for name in GROUPS if selection.group(name)]


@pytest.mark.parametrize(
    ("names", "namespace", "found"),
    [
        (Names(), "", GROUPS),
        (Names(("shipping",)), "", ["shipping"]),
        (Names(("ship*",)), "", ["shipping", "ship.ping"]),
        (Names(("shop%*", "shipping")), "", ["shop%billing", "shop%shipping", "shipping"]),
        (Names(("ship.ping",), regex=True), "", ["ship.ping"]),
        (Names(("ship.?ping",), regex=True), "", ["shipping", "ship.ping"]),
        (Names(("ship",), regex=True), "", []),
        (Names(), "shop", ["shop%billing", "shop%shipping"]),
        (Names(regex=True), "shop", ["shop%billing", "shop%shipping"]),
        (Names(("shipping",)), "shop", ["shop%shipping"]),
        (Names(("s*",)), "shop", ["shop%shipping"]),
        (Names(("s.*|b.*",), regex=True), "shop", ["shop%billing", "shop%shipping"]),
    ],
)
def test_which_groups(names, namespace, found):
    assert chosen(names, namespace) == found


def test_topics_are_chosen_alike():
    selection = Names(topics=("ord*",)).selection(CommonOptions(namespace="shop"))
    assert selection.topic("shop%orders")
    assert not selection.topic("shop%audit")
    assert not selection.topic("orders")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (Names(("(",), regex=True), "not a regular expression"),
        (Names(topics=("[",), regex=True), "not a regular expression"),
        (Names(("not a name",)), "group"),
        (Names(topics=("späte",)), "topic"),
    ],
)
def test_what_is_no_name_is_refused(names, said):
    with pytest.raises(ConfigError, match=said):
        names.selection(CommonOptions(namespace=""))
