"""What an operator changes at a broker, behind the back of whoever uses it."""

import contextlib

from orderly.protocol.admin_headers import CreateTopic, DeleteTopicInBroker, DeleteTopicInNameServer
from orderly.protocol.bodies import lock_request
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.group_config import GroupConfig, encode_group_config
from orderly.protocol.headers import to_ext
from tests.support.waiting import eventually


def set_topic(client, topic, *, read, write, perm=6):
    """Replace a topic's number of queues and its permission (mqadmin updateTopic)."""
    header = CreateTopic(
        topic=topic, read_queue_nums=read, write_queue_nums=write, perm=perm, order=True
    )
    _ask_brokers(client, request(header.code, to_ext(header)))


def delete_topic(client, topic, *, routes=True):
    """Delete a topic (mqadmin deleteTopic); without `routes` name servers go on telling of it."""
    header = DeleteTopicInBroker(topic=topic)
    # Without its timer wheel (as the embedded one) a broker deletes the topic, and then fails.
    _ask_brokers(client, request(header.code, to_ext(header)), accept=(0, 1))
    header = DeleteTopicInNameServer(topic=topic)
    for address in client.config.addresses if routes else ():
        _ask(client, address, request(header.code, to_ext(header)))


def set_group(client, group, **settings):
    """Create a group with these settings, or replace its own (mqadmin updateSubGroup)."""
    body = encode_group_config(GroupConfig(name=group, **settings))
    _ask_brokers(client, request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


def delete_group(client, group):
    """Delete a group with its offsets (mqadmin deleteSubGroup -r)."""
    header = {"groupName": group, "cleanOffset": "true"}
    _ask_brokers(client, request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header))


def unlock_for(client, client_id, group, queue):
    """Unlock a queue in the name of the member that holds it, dead or alive."""
    body = lock_request(group, client_id, [queue])
    _ask_brokers(client, request(RequestCode.UNLOCK_BATCH_MQ, body=body))


def take_lock_from(client, client_id, group, queue):
    """Unlock a queue in the name of the member that holds it, and lock it for `client`."""

    def taken():  # unless the member renewed it in between
        unlock_for(client, client_id, group, queue)
        return client.brokers.lock_queues(group, queue.broker_name, [queue])

    eventually(taken)


@contextlib.contextmanager
def broker_setting(client, name, value):
    """Change a setting of the one broker there is, and change it back at the end."""
    (broker,) = client.admin.cluster().brokers.values()
    config = _ask(client, broker.master, request(RequestCode.GET_BROKER_CONFIG)).body.decode()
    before = dict(line.split("=", 1) for line in config.splitlines())[name]

    def change(text):
        body = f"{name}={text}\n".encode()
        _ask(client, broker.master, request(RequestCode.UPDATE_BROKER_CONFIG, body=body))

    change(value)
    try:
        yield
    finally:
        change(before)


def _ask_brokers(client, command, accept=(0,)):
    for broker in client.admin.cluster().brokers.values():
        _ask(client, broker.master, command, accept)


def _ask(client, address, command, accept=(0,)):
    reply = client.connections.get(address).call(command, 5.0)
    assert reply.code in accept, reply.remark
    return reply
