"""Options and columns that cannot work are refused before anything is sent."""

from __future__ import annotations

import pytest

from orderly.errors import ConfigError
from orderly.spark.options import parse_write
from orderly.spark.write_plan import Roles, assign_roles

PLAIN = {"sharding_key": "string", "seq": "bigint", "body": "binary"}


def roles(types, **options):
    return assign_roles(parse_write({"topic": "t", **options}), types)


def test_names_are_compared_without_case_as_spark_hands_them_on():
    found = parse_write({"topic": "t", "ORDERBY": "seq", "maxbatchbytes": "65536"})
    assert (found.columns, found.max_batch_bytes) == ({"orderBy": "seq"}, 65_536)


def test_what_spark_hands_on_for_itself_is_passed_over():
    assert parse_write({"topic": "t", "checkpointlocation": "/x", "queryName": "q"}).topic == "t"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs option\\('topic'"),
        ({"topic": "t", "orderby_": "x"}, "did you mean orderBy"),
        ({"topic": "t", "secretKey": "x"}, "options end up in plans"),
        ({"topic": "t", "selector": "random"}, "must be one of hash_mod"),
        ({"topic": "t", "layout": "broker-a"}, "is not 'broker-name:queues'"),
        ({"topic": "t", "maxBatchBytes": "5000000"}, "from 65536 to 4194304"),
        ({"topic": "a b"}, "a b"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, told):
    with pytest.raises(ConfigError, match=told):
        parse_write(options)


def test_columns_are_found_by_their_usual_names():
    types = PLAIN | {"tag": "string", "keys": "string", "properties": "map<string,string>"}
    assert roles(types, orderBy="seq") == Roles(
        body="body",
        key="sharding_key",
        order="seq",
        tag="tag",
        keys="keys",
        properties="properties",
    )


def test_a_column_may_be_key_order_and_id_at_once():
    found = roles({"n": "int", "body": "string"}, keyColumn="n", orderBy="n", idColumn="n")
    assert found == Roles(body="body", key="n", order="n", id="n")


def test_a_usual_name_that_is_given_another_role_has_only_that():
    found = roles({"tag": "string", "seq": "int", "body": "binary"}, keyColumn="tag", orderBy="seq")
    assert (found.key, found.tag) == ("tag", None)


@pytest.mark.parametrize(
    ("types", "options", "told"),
    [
        ({"seq": "int"}, {"orderBy": "seq"}, "no column body"),
        (PLAIN, {"orderBy": "sequence"}, "no such column, only sharding_key, seq, body"),
        (PLAIN, {}, "set option\\('orderBy'"),
        ({"seq": "int", "body": "binary"}, {"orderBy": "seq"}, "hash_mod needs a key"),
        (PLAIN | {"extra": "int"}, {"orderBy": "seq"}, "column extra would not be sent"),
        (PLAIN | {"seq": "double"}, {"orderBy": "seq"}, "'seq' is double; orderBy takes"),
        (PLAIN | {"body": "int"}, {"orderBy": "seq"}, "'body' is int; bodyColumn takes"),
        (PLAIN, {"orderBy": "seq", "selector": "numeric_mod"}, "a key that is an integer"),
        (PLAIN, {"orderBy": "seq", "selector": "round_robin"}, "round_robin keeps no order"),
        ({"body": "binary"}, {"selector": "round_robin"}, "round_robin needs option\\('idColumn'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(types, options, told):
    with pytest.raises(ConfigError, match=told):
        roles(types, **options)
