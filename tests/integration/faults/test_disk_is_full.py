"""A broker that takes no more messages for want of disk: sends fail clearly, consuming goes on.

The proxy says so in the broker's place (SendMessageProcessor.handlePutMessageResult): a broker
itself can be brought to it only by a disk that is a third full at least, and after a minute.
"""

import pytest

from orderly import Message, OrderlyProducer, ProducerConfig
from orderly.errors import BrokerUnavailable, SendFailed
from orderly.protocol.codes import RequestCode, ResponseCode

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
REMARK = "service not available now. ... the broker's disk is full [CL: 0.95 CQ: 0.95 INDEX: 0.95]"


def test_a_send_names_the_reason_and_patient_ones_are_stored_once(
    patient_traffic, proxy, proxied_broker, closing
):
    traffic = patient_traffic
    impatient = ProducerConfig(retries=0, send_timeout=12.0)
    producer = closing(OrderlyProducer(namesrv=proxied_broker.namesrv, config=impatient))
    proxy.answer(SENDS, ResponseCode.SERVICE_NOT_AVAILABLE, REMARK)
    with pytest.raises(SendFailed, match="disk is full") as caught:
        producer.send(Message(traffic.topic, b"0", sharding_key="a"))
    assert isinstance(caught.value.__cause__, BrokerUnavailable)
    proxy.heal()
    traffic.goes_on(1000)
    verdict = traffic.ends_well()
    assert verdict.log_duplicates == 0
