"""Raw requests to one broker, and what it answered, made comparable with another broker's.

Left out of the answers are texts for people, times, addresses, places in the log, and names that
do not belong to the case.
"""

import contextlib
import re

from orderly.client.background import Schedule
from orderly.client.connection import Connection
from orderly.clock import AwakeClock
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import reply_to, request
from orderly.protocol.heartbeat import (
    ConsumerData,
    Heartbeat,
    MessageModel,
    Subscription,
    encode_heartbeat,
)
from orderly.protocol.java_json import loads
from orderly.protocol.offsets import GetMaxOffset
from orderly.protocol.pull import PullMessage
from orderly.protocol.stored_message import decode_messages
from tests.support.waiting import eventually, patient_client

_PATIENCE = 10.0
_TIMES = ("lastUpdateTimestamp", "lastTimestamp", "minTimeStamp", "maxTimeStamp")
_LEFT_OUT = (
    "dataVersion", "mappingDataVersion", "forbiddenTable", "groupRetryPolicy", "groupSysFlag",
    "groupTopicMap", "pullOffsetTable", "physicOffset",
    "minTimeStampStr", "maxTimeStampStr", "consumeTimeStamp", "consumeTimeStampStr",
)  # fmt: skip
_HEADERS_LEFT_OUT = ("version", "totalGroupNum", "totalTopicNum", "recallHandle")
_TABLES = ("subscriptionGroupTable", "topicConfigTable", "offsetTable")  # maybe of all there is
_LONG = 10**12  # ms
_SHORT_NAMES = ("broker-a", "c1", "c2", "a", "b")  # members, tags
_GIVEN_KEY = re.compile(r"(.)\1{23}[0-9A-F]{8}")  # UNIQ_KEYs of the cases; a broker makes others


class Wire:
    """Connections to one cluster; `heard` is all it answered, in order.

    A request `on="proxy"`, or another name that begins so, goes to its proxy, if there is one.
    """

    def __init__(self, namesrv, name, proxy=""):
        self.topic, self.group, self.name = f"t-{name}", f"g-{name}", name
        self.heard = []
        self._stack = contextlib.ExitStack()
        self._timeouts = Schedule("contract")
        self._stack.callback(self._timeouts.close)
        self._awake = AwakeClock()
        self._stack.callback(self._awake.close)
        with patient_client(namesrv) as client:
            self._brokers = client.admin.cluster().brokers
        self._addresses = {"ns": namesrv, "a": self._brokers["broker-a"].master}
        self.proxy = proxy
        self._open = {}
        self.pushed = {}
        self.answer = {}  # what a member answers, by request code

    def close(self):
        for connection in self._open.values():
            connection.close()
        self._stack.close()

    def hang_up(self, on):
        """End a connection to the broker."""
        self._open.pop(on).close()

    def _connection(self, on):
        if on not in self._open:
            self.pushed.setdefault(on, [])
            through = {on: self.proxy} if on.startswith("proxy") else {}
            self._open[on] = Connection(
                (self._addresses | through).get(on, self._addresses["a"]),
                timeouts=self._timeouts,
                awake=self._awake,
                connect_timeout=3.0,
                max_frame=16 * 1024 * 1024,
                on_request=lambda connection, command: self._asked(on, connection, command),
                on_close=lambda connection: None,
            )
        return self._open[on]

    def _asked(self, on, connection, command):
        self.pushed[on].append((command.code, command.ext.get("consumerGroup")))
        if not command.is_oneway:
            connection.reply(reply_to(command, body=self.answer[command.code](command)))

    # --- asking --------------------------------------------------------------------------------

    def ask(self, header, body=b"", *, on="a", version=None):
        """Send a request made of a header and note the answer; returns it."""
        return self.raw(header.code, to_ext(header), body, on=on, version=version)

    def raw(self, code, ext=None, body=b"", *, on="a", version=None):
        """Send a request of any kind and note the answer; returns it."""
        command = request(code, ext or {}, body)
        if version is not None:
            command.version = version
        reply = self._connection(on).call(command, _PATIENCE)
        self.heard.append(self._comparable(code, reply))
        return reply

    def quiet(self, header, *, on="a"):
        """Send a request made of a header and note nothing; returns the answer."""
        command = request(header.code, to_ext(header))
        return self._connection(on).call(command, _PATIENCE)

    def quietly(self, code):
        """Send a request and note nothing; returns the answer."""
        return self._connection("a").call(request(code, {}), _PATIENCE)

    def later(self, header, *, on="a"):
        """Send a request without waiting; returns a list that gets the answer."""
        replies = []
        command = request(header.code, to_ext(header))
        self._connection(on).submit(command, 3 * _PATIENCE, replies.append)
        return replies

    def note(self, replies):
        """Note the answer of `later`."""
        (reply,) = eventually(lambda: replies)
        self.heard.append(self._comparable(RequestCode.PULL_MESSAGE, reply))

    def say(self, value):
        """Note anything else."""
        self.heard.append(value)

    def visible(self, topic, queue_id, count):
        """Wait until a queue has so many messages: a real broker takes some milliseconds."""
        header = GetMaxOffset(topic=topic, queue_id=queue_id)
        command = request(header.code, to_ext(header))

        def there():
            return int(self._connection("a").call(command, _PATIENCE).ext["offset"]) >= count

        eventually(there)

    def pull(self, offset=0, *, topic=None, flags=4, subscription="*", **fields):
        """A pull's header; with its own subscription unless `flags` say otherwise."""
        wanted = {"queue_id": 0, "sub_version": 0} | fields
        return PullMessage(
            consumer_group=self.group,
            topic=topic or self.topic,
            queue_offset=offset,
            sys_flag=flags,
            subscription=subscription,
            **wanted,
        )

    def heartbeat(
        self, *topics, on="a", client_id="c1", tags="*", version=1, model=MessageModel.CLUSTERING
    ):
        """Send a heartbeat that subscribes to these topics."""
        data = tuple(Subscription.from_expression(topic, tags, version) for topic in topics)
        consumer = ConsumerData(self.group, data, message_model=model)
        beat = encode_heartbeat(Heartbeat(client_id, consumers=(consumer,)))
        return self.raw(RequestCode.HEART_BEAT, body=beat, on=on)

    # --- comparing -----------------------------------------------------------------------------

    def _comparable(self, code, reply):
        return (int(code), reply.code, self._ext(reply.ext), self._body(code, reply))

    def _ext(self, ext):
        kept = {k: v for k, v in ext.items() if k not in _HEADERS_LEFT_OUT}
        if "msgId" in kept:
            kept["msgId"] = [len(part) for part in kept["msgId"].split(",")]
        if _made_by_the_broker(kept.get("transactionId", "")):
            kept["transactionId"] = "made by the broker"
        return kept

    def _body(self, code, reply):
        if not reply.body or reply.code:
            return b""
        if code in (RequestCode.PULL_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID):
            return [_message(m) for m in decode_messages(reply.body, "broker-a")]
        return self._value(loads(reply.body))

    def _value(self, value):
        if isinstance(value, dict):
            if "topicList" in value:  # a real broker has a topic of its own name
                value = value | {"topicList": [t for t in value["topicList"] if self.name in t]}
            return {
                key: self._field(key, item)
                for key, item in value.items()
                if key not in _LEFT_OUT and (key, item) != ("attributes", {})
            }
        if isinstance(value, list):
            items = [self._value(item) for item in value]
            ours = [item for item in items if not isinstance(item, str) or self._is_ours(item)]
            return sorted(ours, key=repr)
        return value

    def _field(self, key, item):
        if key in _TIMES:
            return item > 0
        if key in ("brokerAddr", "clientAddr"):
            return "an address"
        if key == "brokerAddrs":
            return sorted(item)
        if key == "delayTime":
            return "nonsense" if item > _LONG else item > 0
        if key in _TABLES:
            item = {name: value for name, value in item.items() if self.name in name}
        return self._value(item)

    def _is_ours(self, text):
        return self.name in text or text in _SHORT_NAMES


def _made_by_the_broker(keys):
    """Of 32 digits where its host has an IPv4 address, of 56 where it has only IPv6."""
    return bool(keys) and not all(map(_GIVEN_KEY.fullmatch, keys.split(",")))


def _message(message):
    properties = dict(message.properties)
    if _made_by_the_broker(properties.get("UNIQ_KEY", "")):
        properties["UNIQ_KEY"] = "made by the broker"
    return (
        message.queue,
        message.queue_offset,
        message.body,
        properties,
        message.reconsume_times,
        message.flag,
        message.sys_flag,
        round(message.born_time * 1000),
    )
