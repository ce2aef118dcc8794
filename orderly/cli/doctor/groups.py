"""A group's settings at one broker, read without making the group.

A broker makes a group whose settings are asked for by name. So the list of all groups is asked for,
and by name only a group that is known to be there.
"""

from __future__ import annotations

from orderly.client import Client
from orderly.client.calls import Calls
from orderly.config import check_group
from orderly.errors import GroupNotFound, NoPermission, OrderlyError
from orderly.model import BrokerData
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.group_config import GroupConfig, decode_group_configs


def group_settings(
    client: Client, group: str, broker: BrokerData, *, known: bool
) -> GroupConfig | None:
    """Read them; None: the group is not there, and the broker will make it when a member joins.

    Args:
        client: to ask with.
        group: as brokers name it.
        broker: its master is asked.
        known: whether the group is surely there: it has members, or offsets.

    Raises:
        GroupNotFound: it is not there, and the broker makes none.
        OrderlyError: not to be had; a key that may not list groups may not see whether one of
            which nothing is known is there.
    """
    try:
        found = _listed(client, group, broker)
    except NoPermission:
        if not known:
            raise
        return client.groups.group_config(group, broker.broker_name)
    if found is None and not _made_when_needed(client, broker):
        raise GroupNotFound(
            f"broker {broker.broker_name} has no group {group}, and makes none by itself"
            " (autoCreateSubscriptionGroup=false): make it, with its order, as"
            f" mqadmin updateSubGroup -c {broker.cluster} -g {group} -o true"
        )
    return found


def _listed(client: Client, group: str, broker: BrokerData) -> GroupConfig | None:
    command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    calls = Calls(client.connections, client.config.request_timeout)
    what = f"the settings of all groups, for those of {check_group(group)!r}"
    reply = calls.ask(broker.master or "", command, what)
    return decode_group_configs(reply.body).groups.get(group)


def _made_when_needed(client: Client, broker: BrokerData) -> bool:
    try:
        told = client.admin.broker_settings(broker)
    except OrderlyError:  # the default of a broker
        return True
    return told.get("autoCreateSubscriptionGroup", "true") == "true"
