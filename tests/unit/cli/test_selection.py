"""-g, -t and -r: which of the broker's names they mean, in a namespace too."""

import pytest

from orderly.cli.selection import Names, complete_group
from orderly.cli.settings import Settings
from orderly.errors import ConfigError, RequestTimeout

GROUPS = ["shop%billing", "shop%shipping", "bank%shipping", "shipping", "ship.ping"]


def chosen(names, namespace=""):
    selection = names.selection(Settings(namespace=namespace))
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
    selection = Names(topics=("ord*",)).selection(Settings(namespace="shop"))
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
        names.selection(Settings(namespace=""))


class _Client:
    def __init__(self, groups):
        self._groups = groups

    def __enter__(self):
        if isinstance(self._groups, Exception):
            raise self._groups
        return self

    def __exit__(self, *_):
        pass

    @property
    def admin(self):
        return self

    def groups(self):
        return tuple(self._groups)


@pytest.mark.parametrize(
    ("groups", "begun", "completed"),
    [
        (GROUPS, "", ["billing", "shipping"]),
        (GROUPS, "sh", ["shipping"]),
        (RequestTimeout("gone"), "", []),
    ],
)
def test_names_are_completed_as_they_are_typed(monkeypatch, groups, begun, completed):
    class Context:
        def ensure_object(self, kind):
            return kind(namespace="shop")

    monkeypatch.setattr(Settings, "client", lambda _settings, _patience: _Client(groups))
    assert complete_group(Context(), None, begun) == completed
