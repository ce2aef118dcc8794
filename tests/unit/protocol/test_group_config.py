import json

from hypothesis import given
from hypothesis import strategies as st

from orderly.protocol.group_config import GroupConfig, decode_group_config, encode_group_config

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


def test_a_new_group_is_enabled_and_notified():
    fields = json.loads(encode_group_config(GroupConfig(name="g")))
    assert fields["groupName"] == "g"
    assert fields["consumeEnable"]
    assert fields["notifyConsumerIdsChangedEnable"]
    assert fields["consumeTimeoutMinute"] == 15


def test_what_an_old_broker_does_not_say_has_its_default():
    assert decode_group_config(b'{"groupName":"g"}') == GroupConfig(name="g")
