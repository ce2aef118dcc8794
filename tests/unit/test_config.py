"""Settings are checked when they are made; what is missing yet says so."""

import copy
import dataclasses
import json
import pickle
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.client.security import security_of
from orderly.config import (
    ClientConfig,
    ConsumerConfig,
    ParkLimits,
    ProducerConfig,
    check_group,
    check_offset,
    check_seconds,
    check_topic,
    parse_addresses,
    parse_consume_from,
    parse_position,
)
from orderly.config.consumer import BROKER_LEASE
from orderly.config.fields import FromEnv
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.protocol.signing import Credentials

EAST = timezone(timedelta(hours=2))
legal = st.text("%|abcXYZ019_-", min_size=1, max_size=120)


@given(legal)
def test_legal_names_pass_unchanged(name):
    assert check_topic(name) == check_group(name) == name


@pytest.mark.parametrize("name", ["", "a b", "ü", "a/b", "a.b", "a\n", None, 3, b"x", "a\x00"])
def test_illegal_names_are_refused(name):
    for check in (check_topic, check_group):
        with pytest.raises(ConfigError):
            check(name)


def test_names_have_the_brokers_limits():
    check_topic("t" * 127)
    check_group("g" * 120)
    with pytest.raises(ConfigError, match="127"):
        check_topic("t" * 128)
    with pytest.raises(ConfigError, match="120"):
        check_group("g" * 121)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("host:1", ("host:1",)),
        ("host", ("host:9876",)),
        ("a:1;b:2", ("a:1", "b:2")),
        (" a:1 , b ", ("a:1", "b:9876")),
        ("[::1]:1;[2001:db8::7]", ("[::1]:1", "[2001:db8::7]:9876")),
    ],
)
def test_name_servers(text, addresses):
    assert parse_addresses(text) == addresses
    assert ClientConfig(namesrv=text).addresses == addresses


@pytest.fixture
def zone_east(monkeypatch):
    """A local time ahead of UTC: the first day of the calendar has no UTC time there."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("text", ["", " ; ", ":1", "h:", "h:0", "h:65536", "h:x", "h:-1"])
def test_bad_name_servers(text, monkeypatch):
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    with pytest.raises(ConfigError):
        ClientConfig(namesrv=text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("http://mq-1:9876", "without http://"),
        ("https://mq-1", "without https://"),
        ("dns:///mq-1:8081", "without dns:///"),
        ("rocketmq://mq-1:9876/", "without rocketmq://"),
        ("202:202:0:0:0:0:81:1811", "as [202:202:0:0:0:0:81:1811]:9876"),
        ("::1", "as [::1]:9876"),
        ("202:202:0:0:0:0:81:1811:9876", "as [202:202:0:0:0:0:81:1811]:9876"),
        ("a:b:c", "write host:port"),
        ("[::1", "write host:port"),
        ("mq-1/9876", "write host:port"),
    ],
)
def test_what_is_no_address_is_told_with_what_to_write(text, remedy):
    with pytest.raises(ConfigError, match="is not a name server address") as raised:
        ClientConfig(namesrv=f"a:1;{text}")
    assert remedy in str(raised.value)


def test_the_environment_fills_in_and_explicit_values_win():
    env = {"ORDERLY_NAMESRV": "env:1", "ORDERLY_REQUEST_TIMEOUT": "7.5"}
    config = ClientConfig.from_env(env)
    assert (config.namesrv, config.request_timeout) == ("env:1", 7.5)
    assert ClientConfig.from_env(env, namesrv="mine:2").namesrv == "mine:2"


def test_an_unreadable_variable_is_named():
    with pytest.raises(ConfigError, match="ORDERLY_BATCH_SIZE"):
        ConsumerConfig.from_env({"ORDERLY_BATCH_SIZE": "many"})


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", "first"),
        ("LAST", "last"),
        ("CONSUME_FROM_FIRST_OFFSET", "first"),
        ("CONSUME_FROM_LAST_OFFSET", "last"),
        ("CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "last"),
        ("CONSUME_FROM_MIN_OFFSET", "last"),
        ("CONSUME_FROM_MAX_OFFSET", "last"),
        ("2013-01-01T05:00:00+00:00", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        ("2013-01-01T05:00:00Z", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        ("2013-01-01T07:00:00+02:00", datetime(2013, 1, 1, 5, tzinfo=UTC)),
    ],
)
def test_start_positions(text, start):
    assert parse_consume_from(text) == start


def test_javas_time_is_local():
    local = datetime(2013, 1, 1, 5, 30, 15).astimezone()
    assert parse_consume_from("20130101053015") == local


@pytest.mark.parametrize(
    "text",
    [
        "",
        "middle",
        "2013-13-01",
        "20131301000000",
        "1356998400",
        "0001-01-01T00:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
    ],
)
def test_bad_start_positions(text, zone_east):
    with pytest.raises(ConfigError, match="ISO 8601"):
        ConsumerConfig(consume_from=text)


@pytest.mark.parametrize(
    "setting",
    [
        {"batch_size": 0},
        {"batch_size": 1025},
        {"max_rate": 0},
        {"max_rate": 1 / 3601},
        {"order": "key", "max_rate_per_key": -1.0},
        {"max_rate_per_key": 1.0},
        {"suspend": 0.009},
        {"suspend": 31},
        {"min_workers": 3, "concurrency": 2},
        {"lock_interval": 30},
        {"pull_retry": 0},
        {"order": "random"},
        {"model": "multicast"},
        {"pull_threshold": 0},
        {"pull_threshold_bytes": 0},
    ],
    ids=str,
)
def test_bad_consumer_settings(setting):
    with pytest.raises(ConfigError):
        ConsumerConfig(**setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_suspend": 0.5},
        {"max_suspend": 3601},
        {"max_span": 0},
        {"executor": "greenlet"},
        {"concurrency": 0},
        {"handover_timeout": 0},
        {"force_unlock_after": 0},
    ],
    ids=str,
)
def test_bad_settings_by_key(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        ConsumerConfig(order="key", **setting)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"handler_timeout": 0}, "more than 0 seconds"),
        ({"handler_timeout": -1.0}, "more than 0 seconds"),
        ({"handler_timeout": "5"}, "a finite number or None"),
        ({"handler_timeout": 5, "on_hang": "kill"}, "'block' or 'exit'"),
        ({"on_hang": "exit"}, "needs handler_timeout"),
        ({"on_hang": "exit", "handler_timeout": 5, "executor": "process"}, "leave on_hang out"),
    ],
    ids=str,
)
def test_bad_settings_of_what_hangs(setting, says):
    with pytest.raises(ConfigError, match=says):
        ConsumerConfig(**setting)


def test_the_longest_wait_is_a_keys_own_or_a_short_one_of_the_whole_queue():
    assert ConsumerConfig(order="key").longest_suspend == 3600
    assert ConsumerConfig().longest_suspend == 30


@pytest.mark.parametrize(
    "setting",
    [{"max_suspend": 5.0}, {"max_span": 9}, {"create_state_topics": False},
     {"parking": ParkLimits(keys=1)}],
    ids=str,
)  # fmt: skip
def test_what_decides_nothing_by_queue_is_refused(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name} has no effect with order='queue'"):
        ConsumerConfig(**setting)
    assert ConsumerConfig(order="key", **setting)


def test_what_decides_nothing_in_broadcasting_is_refused():
    with pytest.raises(ConfigError, match="parks no key"):
        ConsumerConfig(order="key", model="broadcasting", instance="a", parking=ParkLimits(keys=1))


@pytest.mark.parametrize(
    "setting",
    [
        {"send_timeout": 0},
        {"retries": -1},
        {"max_message_size": 0},
        {"max_message_size": 16 * 1024 * 1024},
        {"batch_messages": 0},
        {"max_pending": 0},
        {"hold_failed_key": -1},
    ],
    ids=str,
)
def test_bad_producer_settings(setting):
    with pytest.raises(ConfigError):
        ProducerConfig(**setting)


def test_one_of_a_few_words_is_read_from_the_environment_and_nothing_else_is():
    env = {"ORDERLY_ORDER": "key", "ORDERLY_EXECUTOR": "process", "ORDERLY_ON_HANG": "block"}
    config = ConsumerConfig.from_env(env)
    assert (config.order, config.executor) == ("key", "process")
    with pytest.raises(ConfigError, match="ORDERLY_ORDER='keys' must be 'queue' or 'key'"):
        ConsumerConfig.from_env({"ORDERLY_ORDER": "keys"})


@pytest.mark.parametrize("kind", [list[str], str | None, Literal[1, 2], ConsumerConfig | None])
def test_a_field_that_nobody_could_check_fails_where_the_class_is_made(kind):
    with pytest.raises(TypeError, match=r"Config\.field: no rule says how to check"):
        type("Config", (FromEnv,), {"__annotations__": {"field": kind}})


WRONG = {
    "Literal": ["", "Queue", 3, None, b"queue", ["queue"]],
    "int": ["3", 3.0, True, None, b"3"],
    "float": ["3", float("nan"), float("inf"), True, None],
    "str": [9876, None, b"x", True],
}


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (config, field.name, value)
        for config in (ClientConfig, ProducerConfig, ConsumerConfig)
        for field in fields(config)
        for value in WRONG.get(str(field.type).partition("[")[0], [])
        if not (config is ClientConfig and value == "")  # which is a choice there
    ],
)
def test_every_field_refuses_a_wrong_type_and_is_named(config, field, value):
    needed = {"namesrv": "host:1"} if config is ClientConfig else {}
    with pytest.raises(ConfigError, match=field):
        config(**(needed | {field: value}))


def test_whole_seconds_may_be_ints():
    assert ProducerConfig(send_timeout=3).send_timeout == 3


@pytest.mark.parametrize(
    "setting",
    [{"close_timeout": -1}, {"lock_trust": 50.1}, {"lock_trust": 3600}, {"lock_trust": 20}],
    ids=str,
)
def test_a_lock_is_never_trusted_as_long_as_the_broker_keeps_it(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name):
        ConsumerConfig(**setting)


def test_the_longest_trust_leaves_time_before_the_broker_frees_the_lock():
    assert ConsumerConfig(lock_trust=50).lock_trust < BROKER_LEASE


@pytest.mark.parametrize("value", [9876, b"host:1", ["host:1"]])
def test_name_servers_are_text(value):
    with pytest.raises(ConfigError, match="host:9876"):
        ClientConfig(namesrv=value)


def test_the_error_names_what_was_read():
    with pytest.raises(ConfigError, match=r"^--from='yesterday' must be 'first', 'last' or"):
        parse_consume_from("yesterday", "--from")


@pytest.mark.parametrize(
    ("position", "meant"),
    [
        (0, 0),
        (-1, -1),
        ("first", "first"),
        ("2013-01-01T07:00:00+02:00", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        (datetime(2013, 1, 1, 7, tzinfo=EAST), datetime(2013, 1, 1, 5, tzinfo=UTC)),
    ],
    ids=str,
)
def test_positions_to_go_on_from(position, meant):
    assert parse_position(position) == meant


@pytest.mark.parametrize(
    "position", [True, 1.5, None, b"first", "yesterday", "7", datetime(1, 1, 1, tzinfo=EAST)]
)
def test_what_is_no_position_is_told_with_all_that_is_one(position):
    with pytest.raises(ConfigError, match=r"^position=.*an offset.*datetime.*'first'.*ISO 8601"):
        parse_position(position)


QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize("offset", [3, 9])
def test_both_ends_of_a_queue_are_in_it(offset):
    check_offset(QUEUE, offset, 3, 9)


@pytest.mark.parametrize("offset", [2, 10, -1])
def test_an_offset_a_queue_does_not_have_is_told_with_those_it_has(offset):
    with pytest.raises(ConfigError, match=f"offset {offset} .*orders/broker-a/0: it holds 3 to 9"):
        check_offset(QUEUE, offset, 3, 9)


@pytest.mark.parametrize("value", [0, -1, True, "1", float("nan"), float("inf"), 10**400])
def test_seconds_are_a_finite_number_above_0(value):
    with pytest.raises(ConfigError, match="timeout must be a number of seconds above 0"):
        check_seconds("timeout", value)
    assert check_seconds("timeout", 0.5) == 0.5


def test_a_start_position_is_text():
    for value in (None, datetime(2013, 1, 1, tzinfo=UTC)):
        with pytest.raises(ConfigError, match="ISO 8601"):
            parse_consume_from(value)


# --- keys and TLS ------------------------------------------------------------------------------

KEYS = {"access_key": "app", "secret_key": "hunter2", "security_token": "token-1"}


def test_keys_are_not_in_the_repr_of_a_config():
    shown = repr(ClientConfig(namesrv="host:1", **KEYS))
    assert "host:1" in shown
    assert not any(secret in shown for secret in KEYS.values())


def fields_of(config):
    return {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}


def as_a_debugger_would(config):
    return getattr(config, "__dict__", {}), [getattr(config, name) for name in config.__slots__]


SHOW = [repr, dataclasses.asdict, dataclasses.astuple, fields_of, as_a_debugger_would]


@pytest.mark.parametrize("show", SHOW)
@pytest.mark.parametrize("of", [ClientConfig, Credentials])
def test_secrets_are_shown_by_nothing_that_shows_a_config(show, of):
    config = ClientConfig(namesrv="host:1", **KEYS)
    shown = show(config if of is ClientConfig else security_of(config).credentials)
    assert not any(secret in repr(shown) for secret in KEYS.values())
    if show in {dataclasses.asdict, dataclasses.astuple}:
        assert not any(secret in json.dumps(shown) for secret in KEYS.values())
    assert fields_of(dataclasses.replace(config, tls=True)).items() >= KEYS.items(), "to be used"


def test_a_secret_is_not_pickled_by_itself_either():
    config = ClientConfig(namesrv="host:1", **KEYS)
    for carry in (pickle.dumps, copy.copy):
        with pytest.raises(ConfigError, match="cannot be pickled or copied"):
            carry(config.secret_key)


@pytest.mark.parametrize("name", KEYS)
def test_what_is_shown_in_place_of_a_secret_is_none(name):
    shown = dataclasses.asdict(ClientConfig(namesrv="host:1", **KEYS))
    with pytest.raises(ConfigError, match=f"{name} is \\*\\*\\*"):
        ClientConfig(namesrv="host:1", **(KEYS | {name: shown[name]}))


@pytest.mark.parametrize("name", KEYS)
def test_a_wrong_type_does_not_show_the_secret(name):
    with pytest.raises(ConfigError, match=name) as raised:
        ClientConfig(namesrv="host:1", **(KEYS | {name: 4711}))
    assert "4711" not in str(raised.value)


def test_a_config_with_keys_is_not_pickled_and_the_error_says_what_to_do_instead():
    plain = ClientConfig(namesrv="host:1", request_timeout=7)
    assert pickle.loads(pickle.dumps(plain)) == plain
    with pytest.raises(ConfigError, match="from_settings") as raised:
        pickle.dumps(ClientConfig(namesrv="host:1", **KEYS))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"access_key": "app"}, "ORDERLY_SECRET_KEY"),
        ({"secret_key": "hunter2"}, "ORDERLY_ACCESS_KEY"),
        ({"security_token": "token-1"}, "access_key"),
        ({"tls_ca_file": "ca.pem"}, "tls_ca_file needs tls=True"),
        ({"tls_cert_file": "me.pem"}, "tls_cert_file needs tls=True"),
        ({"tls": True, "tls_key_file": "me.key"}, "tls_key_file needs tls_cert_file"),
        ({"tls": True, "tls_verify": "no"}, "'host', 'chain' or 'none'"),
        ({"tls": True, "tls_verify": "chain"}, "needs tls_ca_file .ORDERLY_TLS_CA_FILE"),
        ({"broker_hosts": "10.0.0.1/8"}, "'10.0.0.1/8' in broker_hosts is not a host"),
    ],
    ids=str,
)
def test_half_a_protection_is_refused(setting, said):
    with pytest.raises(ConfigError, match=said) as raised:
        ClientConfig(namesrv="host:1", **setting)
    assert "hunter2" not in str(raised.value)


def test_keys_and_tls_come_from_the_environment():
    env = {"ORDERLY_NAMESRV": "host:1", "ORDERLY_TLS": "true", "ORDERLY_TLS_VERIFY": "chain"}
    env |= {"ORDERLY_TLS_CA_FILE": "ca.pem", "ORDERLY_BROKER_HOSTS": "10.0.0.0/8"}
    env |= {"ORDERLY_SIGN_NAME_SERVER_REQUESTS": "yes"}
    env |= {f"ORDERLY_{name.upper()}": value for name, value in KEYS.items()}
    config = ClientConfig.from_env(env)
    assert config == ClientConfig(
        namesrv="host:1",
        tls=True,
        tls_verify="chain",
        tls_ca_file="ca.pem",
        broker_hosts="10.0.0.0/8",
        sign_name_server_requests=True,
        **KEYS,
    )


def test_secrets_of_records_are_long_enough_and_shown_nowhere():
    config = ClientConfig(namesrv="h:1", record_secrets="a secret of sixteen;")
    assert "sixteen" not in f"{config!r} {dataclasses.asdict(config)}"
    with pytest.raises(ConfigError, match="pickled") as refused:
        pickle.dumps(config)
    assert "sixteen" not in str(refused.value)
    with pytest.raises(ConfigError, match="16 characters") as refused:
        ClientConfig(namesrv="h:1", record_secrets="a secret of sixteen;short")
    assert "short" not in str(refused.value)
