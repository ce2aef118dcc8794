"""No name server for a while: who is there goes on, who comes is told, and may come again."""

import pytest

from orderly.errors import NameServerUnavailable
from tests.support.waiting import eventually


def test_members_and_producers_go_on_and_a_new_member_is_told(
    proxied_broker, name_server_proxy, start_traffic
):
    address = proxied_broker.namesrv.replace("127.0.0.1", "127.0.0.2")
    traffic = start_traffic(proxied_broker, address)
    traffic.goes_on(500)
    name_server_proxy.refuse()
    name_server_proxy.cut()
    with pytest.raises(NameServerUnavailable):
        traffic.join()
    traffic.goes_on(3000)
    name_server_proxy.heal()
    newcomer = traffic.join()
    eventually(lambda: newcomer.assignment, within=20)
    traffic.ends_well()
