"""RocketMQ's own `mqadmin` shows a dead letter of ours as one that came from its own topic."""

from orderly import ConsumerConfig, Message, OrderlyConsumer
from tests.support.consuming import unique
from tests.support.java import mqadmin, mqadmin_value
from tests.support.topics import dead_letters
from tests.support.waiting import eventually, patient_client, patient_producer


def reject(messages, context):
    return context.dead_letter(messages[0], "no such account")


def test_a_dead_letter_is_found_by_the_id_it_was_sent_with(orderly_namesrv, orderly_topic):
    topic, group = orderly_topic(queues=2), unique("group")
    config = ConsumerConfig(consume_from="first")
    with (
        patient_producer(orderly_namesrv) as producer,
        patient_client(orderly_namesrv) as client,
        OrderlyConsumer(group, reject, client=client, config=config).subscribe(topic),
    ):
        sent = producer.send(Message(topic, b"x", sharding_key="a", tags="red", keys=("k1",)))
        eventually(lambda: dead_letters(client, group), within=20)
        output = mqadmin(
            *("queryMsgByUniqueKey", "-t", f"%DLQ%{group}", "-i", sent.message_id),
            namesrv=orderly_namesrv,
        )
    assert mqadmin_value(output, "Topic") == f"%DLQ%{group}"
    assert (mqadmin_value(output, "Tags"), mqadmin_value(output, "Keys")) == ("[red]", "[k1]")
    assert mqadmin_value(output, "Reconsume Times") == "1"
    properties = mqadmin_value(output, "Properties")
    assert f"RETRY_TOPIC={topic}," in properties
    assert f"ORIGIN_MESSAGE_ID={sent.message_id}," in properties
