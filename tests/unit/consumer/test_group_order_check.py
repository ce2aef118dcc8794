"""Who else is in the group: each is asked once, and who does not answer stops nobody."""

from types import SimpleNamespace

import pytest
from structlog.testing import CapturingLogger

from orderly.client import preflight
from orderly.consumer.group_order_check import GroupOrderCheck
from orderly.errors import BrokerError, ConfigError, RequestTimeout
from orderly.protocol.members import RunningInfo
from orderly.protocol.statistics import ConsumerConnection, ConsumerConnections

ME = "me@1"
HANGS = RequestTimeout("no answer")


class Group:
    """The members, by client id: a language, or the order that a member of ours tells."""

    def __init__(self):
        self.members = {ME: "queue"}
        self.asked = []
        self.fail = None

    def running_info(self, group, client_id):
        self.asked.append(client_id)
        told = self.members.get(client_id, ConfigError("no such member is online"))
        if isinstance(told, Exception):
            raise told
        return RunningInfo({"order": told} if told else {})

    def connections(self, group="g"):
        if self.fail:
            raise self.fail
        connections = tuple(
            ConsumerConnection(name, "", told if told in ("JAVA", "GO") else "PYTHON", 0)
            for name, told in self.members.items()
        )
        return ConsumerConnections(connections, "", "", "", {})


@pytest.fixture
def group():
    return Group()


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.fixture
def new(group, log):
    def new(order):
        admin = SimpleNamespace(consumer_connections=group.connections)
        client = SimpleNamespace(client_id=ME, admin=admin, groups=group)
        return GroupOrderCheck(client, "g", order, log)

    return new


def events(log):
    return [call.method_name for call in log.calls]


@pytest.mark.parametrize("told", [HANGS, BrokerError("it refused", code=1)])
def test_who_does_not_answer_is_a_warning_and_is_not_asked_again(told, new, group, log):
    group.members["other@2"] = told
    company = new("key")
    company.changed(group.members)
    group.members["fine@3"] = "key"
    company.changed(group.members)
    assert company.mixed == ()
    assert group.asked == ["other@2", "fine@3"]
    assert events(log) == ["warning"]
    assert log.calls[0].kwargs["member"] == "other@2"


def test_only_new_members_are_asked(new, group):
    company = new("key")
    group.members["a@2"] = "key"
    company.changed(group.members)
    assert company.mixed == ()
    group.members["b@3"] = "key"
    company.changed(group.members)
    assert company.mixed == ()
    company.changed(group.members)
    assert company.mixed == ()
    assert group.asked == ["a@2", "b@3"]
    del group.members["a@2"]
    company.changed(group.members)
    group.members["a@2"] = "queue"  # a client id is never used twice, but who leaves is forgotten
    company.changed(group.members)
    assert company.mixed == ("a@2 (order='queue')",)


def test_a_wrong_member_is_one_error_event_and_stays_named_until_it_leaves(new, group, log):
    company = new("key")
    group.members["java@2"] = "JAVA"
    company.changed(group.members)
    assert company.mixed == ("java@2 (JAVA)",)
    group.members["fine@3"] = "key"
    company.changed(group.members)
    assert company.mixed == ("java@2 (JAVA)",)
    assert events(log) == ["error"]
    del group.members["java@2"]
    company.changed(group.members)
    assert company.mixed == ()
    assert events(log) == ["error"]


def test_a_member_over_grpc_is_one_though_nobody_can_ask_it(new, group):
    company = new("key")
    group.members["host@24357@0@dn5itc746cue"] = HANGS
    company.changed(group.members)
    assert company.mixed == ("host@24357@0@dn5itc746cue (gRPC)",)
    assert group.asked == []


def test_a_broker_that_does_not_tell_its_members_is_a_warning(new, group, log):
    company = new("key")
    group.members["java@2"] = "JAVA"
    group.fail = HANGS
    company.changed(group.members)
    assert company.mixed == ()
    company.changed(group.members)
    assert company.mixed == ()
    assert events(log) == ["warning"]
    group.fail = None
    group.members["fine@3"] = "key"
    company.changed(group.members)
    assert company.mixed == ("java@2 (JAVA)",), "at the next change"


def test_members_that_hang_do_not_add_up(new, group, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(preflight, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    group.members |= {f"hangs@{n}": HANGS for n in range(9)}
    answer = group.running_info

    def after_ten_seconds(*args):
        clock[0] += 10
        return answer(*args)

    group.running_info = after_ten_seconds
    company = new("key")
    company.changed(group.members)
    assert len(group.asked) == 1
    group.members["one_more@10"] = "key"
    company.changed(group.members)
    assert len(set(group.asked)) == 2, "the next one is asked at the next change"
