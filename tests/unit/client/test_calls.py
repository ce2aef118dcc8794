from __future__ import annotations

import pytest

from orderly.client.calls import failure
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    GroupNotFound,
    NoPermission,
    OffsetNotFound,
    TopicNotFound,
)
from orderly.protocol.frame import RemotingCommand

KINDS = {
    1: BrokerError,
    2: BrokerBusy,
    3: BrokerError,
    13: BrokerError,
    14: BrokerUnavailable,
    16: NoPermission,
    17: TopicNotFound,
    22: OffsetNotFound,
    24: BrokerError,
    26: GroupNotFound,
    29: BrokerError,
    206: BrokerError,
    215: BrokerBusy,
    1500: BrokerUnavailable,
    4711: BrokerError,
}
RETRIABLE = {2, 14, 215, 1500}
SUSPECT_ROUTE = {14, 16, 17, 1500}


def reply(code, remark=None):
    return RemotingCommand(code, flag=1, remark=remark)


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
def test_each_code_has_its_error(code, kind):
    error = failure(reply(code, "because"), "1.2.3.4:5", "the lock of group 'g'")
    assert type(error) is kind
    assert (error.code, error.remark, error.address) == (code, "because", "1.2.3.4:5")
    assert error.retriable is (code in RETRIABLE)
    assert error.refresh_route is (code in SUSPECT_ROUTE)


@pytest.mark.parametrize("code", KINDS)
def test_the_text_names_whom_what_the_code_and_the_remark(code):
    text = str(failure(reply(code, "because"), "1.2.3.4:5", "the lock of group 'g'"))
    for part in ("1.2.3.4:5", "the lock of group 'g'", f"code {code}", "because"):
        assert part in text


def test_a_remark_acts_on_no_terminal():
    error = failure(reply(1, "\x1b[2J\u202eevil"), "a:1", "x")
    assert str(error).isprintable()
    assert error.remark == "\x1b[2J\u202eevil"


def test_a_remark_is_shown_in_one_line_and_kept_whole():
    remark = "java.lang.NullPointerException\n\tat X\n" * 50
    error = failure(reply(1, remark), "a:1", "x")
    assert "\n" not in str(error)
    assert len(str(error)) < 400
    assert error.remark == remark


def test_no_remark_is_an_empty_one():
    error = failure(reply(2), "a:1", "x")
    assert error.remark == ""
    assert "None" not in str(error)


@pytest.mark.parametrize(
    ("remark", "advice"),
    [
        ("username cannot be null.", "set access_key and secret_key (ORDERLY_ACCESS_KEY"),
        ("check signature failed.", "check secret_key"),
        ("User:app is not found.", "check access_key"),
        ("User:app is disabled.", "mqadmin updateUser"),
        (
            "User:app has no permission to access Topic:t from 10.0.0.1, no matched policies.",
            "mqadmin updateAcl",
        ),
        ("the broker[broker-a] sending message is forbidden", "permissions of broker and topic"),
        (None, "permissions of broker and topic"),
    ],
)
def test_a_refusal_says_which_setting_it_hangs_on(remark, advice):
    assert advice in str(failure(reply(16, remark), "a:1", "a send"))


@pytest.mark.parametrize(
    ("remark", "advice"),
    [
        ("No accessKey is configured", "set access_key and secret_key"),
        ("Check signature failed for accessKey=app", "check secret_key"),
        ("No acl config for app", "check access_key"),
        ("No default permission for topic:t", "mqadmin updateAclConfig"),
        ("Need admin permission for request code=17, but accessKey=app is not", "plain_acl.yml"),
    ],
)
def test_acl_1_refuses_by_an_exception(remark, advice):
    """As broker 5.1.4 does: with the code of a failure inside."""
    told = f"org.apache.rocketmq.acl.common.AclException: {remark}, org.apache.rocketmq.acl.X(X:1)"
    error = failure(reply(1, told), "a:1", "a send")
    assert isinstance(error, NoPermission)
    assert advice in str(error)


def test_only_of_a_refusal_the_remark_chooses_the_advice():
    assert "access_key" not in str(failure(reply(1, "check signature failed."), "a:1", "x"))
