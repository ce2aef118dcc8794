"""Pulls: what is found, what is refused, and waiting for what is not there yet.

The checks and their order are PullMessageProcessor's.
"""

from __future__ import annotations

from collections.abc import Collection

from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.heartbeat import ALL_TAGS, BY_TAG, Subscription
from orderly.protocol.java_string import java_string_hash
from orderly.protocol.pull import PullFlag, PullMessage
from orderly.protocol.topics import TopicConfig
from orderly.testing.fake.exchange import Call, Outgoing, RequestRefused
from orderly.testing.fake.state import BrokerState, HeldPull
from orderly.testing.fake.store import LogRead, QueueLog, ReadStatus

# Plain numbers, since each operation on an IntFlag makes an object.
_COMMIT = int(PullFlag.COMMIT_OFFSET)
_SUSPEND = int(PullFlag.SUSPEND)
_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)
_TAGS_AS_WRITTEN = (None, "", BY_TAG)
_UNSUPPORTED = "The broker does not support consumer to filter message by {}"
_FORBIDDEN = {"broker": "1", "group": "2", "topic": "3", "broadcasting": "4"}

_CODES = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


def pull(state: BrokerState, call: Call) -> RemotingCommand | None:
    """Answer code 11; None while it waits."""
    return _pull(state, call, first=True)


def wake(state: BrokerState, topic: str, queue_id: int, tag_code: int, now: float) -> None:
    """Answer the pulls that a new message is for."""
    for waiting in state.parked.wake(topic, queue_id, tag_code):
        _answer(state, waiting, now)


def scan(state: BrokerState, now: float) -> None:
    """Answer the pulls that waited long enough, or for a message that passed their filter by."""
    ends = {key: state.store.log(*key).max_offset for key in state.parked.queues()}
    for waiting in state.parked.due(now, ends):
        _answer(state, waiting, now)


def check_filter(expression_type: str | None) -> None:
    """Refuse a filter that is not by tags, as a broker with default settings does."""
    if expression_type not in _TAGS_AS_WRITTEN:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, _UNSUPPORTED.format(expression_type))


def _answer(state: BrokerState, waiting: Call, now: float) -> None:
    call = Call(waiting.connection_id, waiting.peer, waiting.command, now)
    try:
        reply = _pull(state, call, first=False)
    except RequestRefused as refusal:  # the topic may have gone meanwhile
        reply = call.reply(refusal.code, refusal.remark, ext=refusal.ext)
    if reply is not None:
        state.out.append(Outgoing(call.connection_id, reply))


def _pull(state: BrokerState, call: Call, *, first: bool) -> RemotingCommand | None:
    header = call.read(PullMessage)
    _check_allowed(state, header)
    codes = _wanted_codes(_subscription(state, header))
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    log = state.store.log(topic, queue_id)
    reset = state.offsets.take_reset(group, topic, queue_id)
    if reset is not None:
        read = LogRead(ReadStatus.OFFSET_RESET, reset)
    else:
        read = log.read(header.queue_offset, header.max_msg_nums, codes)
    state.offsets.note_pulled(group, topic, queue_id, read.next_offset)
    if first and header.sys_flag & _COMMIT:
        state.offsets.commit(group, topic, queue_id, header.commit_offset)
    code = _code_of(read, header.queue_offset)
    if code == ResponseCode.PULL_NOT_FOUND and first and header.sys_flag & _SUSPEND:
        deadline = call.now + header.suspend_timeout_millis / 1000
        parked = HeldPull(call, header.queue_offset, codes, deadline)
        state.parked.add(topic, queue_id, parked)
        return None
    return _reply(call, code, read, log)


def _code_of(read: LogRead, offset: int) -> ResponseCode:
    if read.status is ReadStatus.NO_MESSAGE_IN_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[read.status]


def _reply(call: Call, code: int, read: LogRead, log: QueueLog) -> RemotingCommand:
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(read.next_offset),
        "minOffset": str(log.min_offset),
        "maxOffset": str(log.max_offset),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    return call.reply(code, read.status.value, ext=ext, body=read.data)


def _check_allowed(state: BrokerState, header: PullMessage) -> None:
    if not state.permission & 4:
        raise _forbidden("broker", state.name)
    group = header.consumer_group
    create = state.enabled("autoCreateSubscriptionGroup")
    settings = state.groups.find(group, create=create)
    if settings is None:
        remark = f"subscription group [{group}] does not exist"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not settings.consume_enabled:
        raise _forbidden("group", group)
    _check_topic(state.topics.get(header.topic), header)
    online = state.members.group(group)
    broadcasting = online is not None and online.model == "BROADCASTING"
    if broadcasting and not settings.broadcast_enabled and not header.sys_flag & _SUBSCRIPTION:
        raise _forbidden("broadcasting", group)


def _check_topic(config: TopicConfig | None, header: PullMessage) -> None:
    if config is None:
        remark = f"topic[{header.topic}] not exist, apply first please!"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not config.perm & 4:
        raise _forbidden("topic", header.topic)
    if not 0 <= header.queue_id < config.read_queues:
        remark = f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}]"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, remark)


def _forbidden(kind: str, name: str) -> RequestRefused:
    remark = f"the {kind} [{name}] pulling message is forbidden"
    return RequestRefused(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": _FORBIDDEN[kind]})


def _subscription(state: BrokerState, header: PullMessage) -> Subscription:
    """The filter: the pull's own, or the one of the group's heartbeats."""
    if header.sys_flag & _SUBSCRIPTION:
        check_filter(header.expression_type)
        return _own_subscription(header)
    online = state.members.group(header.consumer_group)
    found = online.subscriptions.get(header.topic) if online else None
    if found is None:
        remark = "the consumer's subscription not exist"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if found.version < header.sub_version:
        remark = "the consumer's subscription not latest"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    check_filter(found.expression_type)
    return found


def _own_subscription(header: PullMessage) -> Subscription:
    """Read the pull's expression; unlike ours Java takes "*" among tags for a tag (FilterAPI)."""
    expression = header.subscription or ALL_TAGS
    if not expression.replace("||", ""):
        remark = "parse the consumer's subscription failed"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
    tags = frozenset(tag.strip() for tag in expression.split("||")) - {""}
    codes = frozenset(map(java_string_hash, tags))
    return Subscription(header.topic, expression, tags, codes, header.sub_version)


def _wanted_codes(subscription: Subscription) -> Collection[int] | None:
    return None if subscription.expression == ALL_TAGS else subscription.codes
