"""Made messages for tests of pure code."""

from orderly.model import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("orders", "broker-a", 0)


def message(offset: int, key: str | None = None, queue: MessageQueue = QUEUE) -> ReceivedMessage:
    properties = {} if key is None else {"__SHARDINGKEY": key}
    return ReceivedMessage(
        queue=queue,
        queue_offset=offset,
        body=b"body",
        properties=properties,
        message_id=f"id-{offset}",
        offset_message_id=f"offset-id-{offset}",
        born_time=1.0,
        store_time=2.0,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        reconsume_times=0,
        flag=0,
        sys_flag=0,
        physical_offset=offset * 100,
        stored_size=70,
        held_size=100,
    )
