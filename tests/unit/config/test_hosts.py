"""Which hosts a list allows: what is written, and nothing that only looks like it."""

import pytest

from orderly.config.client import parse_hosts
from orderly.errors import ConfigError

LIST = " Broker-1; *.mq.Example.com, 10.0.0.0/8;192.168.7.9;2001:db8::/32;::1 "


@pytest.mark.parametrize(
    "host",
    ["broker-1", "BROKER-1", "broker-1.", "a.mq.example.com", "b.a.mq.example.com", "10.9.8.7",
     "192.168.7.9", "[2001:db8::7]", "[::1]"],
)  # fmt: skip
def test_what_is_on_the_list_is_allowed(host):
    assert parse_hosts(LIST).allow(f"{host}:10911")


@pytest.mark.parametrize(
    "host",
    ["broker-2", "broker-1.evil.com", "mq.example.com", "evilmq.example.com", "10.evil.com",
     "a.mq.example.com.evil.com", "evil.com\0.mq.example.com", "evil.com/.mq.example.com",
     "11.0.0.1", "192.168.7.8", "010.0.0.1", "0x0a000001", "167772161", "[::ffff:10.0.0.1]",
     "[2001:db9::1]", "", "."],
)  # fmt: skip
def test_nothing_else_is(host):
    assert not parse_hosts(LIST).allow(f"{host}:10911")


@pytest.mark.parametrize("text", ["", " ", ";,;"])
def test_an_empty_list_is_none(text):
    assert parse_hosts(text) is None


@pytest.mark.parametrize(
    "text",
    ["*", "*.", "a*", "*.*.com", "10.0.0.1/8", "10.0.0.0/33", "host:10911", "http://host", "a b",
     "broker-1;*"],
)  # fmt: skip
def test_what_is_no_host_is_refused_and_shown(text):
    with pytest.raises(ConfigError, match="in broker_hosts is not a host"):
        parse_hosts(text)
