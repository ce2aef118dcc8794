from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.groups import (
    GroupConfig,
    decode_group_config,
    decode_group_configs,
    encode_group_config,
    encode_group_configs,
)

configs = st.builds(
    GroupConfig,
    name=st.text(st.characters(codec="utf-8")),
    consume_enabled=st.booleans(),
    consume_from_min=st.booleans(),
    broadcast_enabled=st.booleans(),
    orderly=st.booleans(),
    retry_queues=st.integers(0, 100),
    retry_max_times=st.integers(-1, 100),
    notify_members_changed=st.booleans(),
    consume_timeout=st.integers(0, 1000).map(lambda minutes: minutes * 60.0),
)


@given(configs)
def test_a_groups_settings_survive_the_wire(config):
    assert decode_group_config(encode_group_config(config)) == config


@given(st.lists(configs, max_size=3))
def test_all_groups_survive_the_wire_with_what_asks_for_the_next_page(several):
    found = decode_group_configs(encode_group_configs(several, {"counter": 3}))
    assert found.groups == {config.name: config for config in several}
    assert found.version == '{"counter":3}'


@pytest.mark.parametrize("body", [b"[]", b'{"subscriptionGroupTable":{"g":5}}'])
def test_any_other_table_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_group_configs(body)


def test_a_new_group_is_enabled_and_notified():
    fields = json.loads(encode_group_config(GroupConfig(name="g")))
    assert fields["groupName"] == "g"
    assert fields["consumeEnable"]
    assert fields["notifyConsumerIdsChangedEnable"]
    assert fields["consumeTimeoutMinute"] == 15


def test_what_an_old_broker_does_not_say_has_its_default():
    assert decode_group_config(b'{"groupName":"g"}') == GroupConfig(name="g")
