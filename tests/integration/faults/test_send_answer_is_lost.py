"""A batch was stored, and the answer never came; or the batch itself never came."""

import pytest

from orderly.protocol.codes import RequestCode
from tests.support.brokers import Way
from tests.support.waiting import eventually

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


@pytest.mark.parametrize("way", [pytest.param(Way.REQUEST, marks=pytest.mark.nightly), Way.REPLY])
def test_the_retry_overtakes_nothing(patient_traffic, proxy, way):
    traffic = patient_traffic
    for code in SENDS:
        proxy.lose(code, way, times=2)
    eventually(lambda: sum(proxy.dropped[code] for code in SENDS) >= 3, within=30)
    traffic.goes_on(1000)
    verdict = traffic.ends_well()
    # Stored twice, for nobody could know: the log has it twice, and the order holds all the same.
    assert bool(verdict.log_duplicates) == (way is Way.REPLY)
