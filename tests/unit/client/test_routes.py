import threading

import pytest

from orderly.client.routes import Routes, address_in
from orderly.errors import NameServerUnavailable, RouteError, TopicNotFound
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from tests.support.waiting import eventually

NEVER = 3600.0
SOON = 30.0


def route_of(topic, *, queues=4, **brokers):
    """A route over brokers given as a={id: address}."""
    return TopicRoute(
        topic,
        tuple(
            QueueData(f"broker-{n}", queues, queues, Permission.READ | Permission.WRITE)
            for n in brokers
        ),
        tuple(BrokerData(f"broker-{n}", "C", addresses) for n, addresses in brokers.items()),
    )


class NameServer:
    """What a name server would say; counts the questions."""

    def __init__(self):
        self.routes = {}
        self.asked = []
        self.failure = None

    def fetch(self, topic):
        self.asked.append(topic)
        if self.failure:
            raise self.failure
        if topic not in self.routes:
            raise TopicNotFound("unknown", code=17)
        return self.routes[topic]


@pytest.fixture
def name_server():
    server = NameServer()
    server.routes["t"] = route_of("t", a={0: "a:1", 1: "a:2"})
    return server


@pytest.fixture
def new_routes(name_server):
    made = []

    def new(interval=NEVER):
        made.append(Routes(name_server.fetch, interval))
        made[-1].start()
        return made[-1]

    yield new
    for routes in made:
        routes.close()


def test_a_route_is_fetched_once(new_routes, name_server):
    routes = new_routes()
    assert routes.cached("t") is None
    assert routes.get("t") is routes.get("t")
    assert routes.cached("t") is routes.get("t")
    assert name_server.asked == ["t"]


def test_an_unknown_topic_is_asked_for_each_time(new_routes, name_server):
    routes = new_routes()
    for _ in range(2):
        with pytest.raises(TopicNotFound):
            routes.get("nosuch")
    assert name_server.asked == ["nosuch"] * 2


def test_refresh_fetches_and_replaces(new_routes, name_server, caplog):
    caplog.set_level("INFO", logger="orderly.client")
    routes = new_routes()
    routes.get("t")
    name_server.routes["t"] = route_of("t", queues=8, a={0: "a:1"})
    assert len(routes.refresh("t").read_queues()) == 8
    assert len(routes.get("t").read_queues()) == 8
    assert "route.changed" in caplog.text


def test_a_failed_refresh_raises_and_keeps_the_known_route(new_routes, name_server):
    routes = new_routes()
    known = routes.get("t")
    name_server.failure = NameServerUnavailable("down")
    with pytest.raises(NameServerUnavailable):
        routes.refresh("t")
    assert routes.get("t") is known


# --- a topic that is missing -------------------------------------------------------------------


def test_of_a_topic_that_was_deleted_the_route_stays_and_it_is_told_to_be_missing(
    new_routes, name_server
):
    routes = new_routes()
    known = routes.get("t")
    assert not routes.missing("t")
    del name_server.routes["t"]
    with pytest.raises(TopicNotFound):
        routes.refresh("t")
    assert routes.missing("t")
    assert routes.get("t") is known
    name_server.routes["t"] = known
    routes.refresh("t")
    assert not routes.missing("t")


def test_the_background_notices_that_a_topic_is_missing(new_routes, name_server):
    routes = new_routes(interval=0.005)
    known = routes.get("t")
    del name_server.routes["t"]
    eventually(lambda: routes.missing("t"))
    name_server.routes["t"] = known
    eventually(lambda: not routes.missing("t"))


def test_a_topic_that_never_was_is_missing_until_it_is_made(new_routes, name_server):
    routes = new_routes()
    assert not routes.missing("u"), "nobody has asked"
    with pytest.raises(TopicNotFound):
        routes.get("u")
    assert routes.missing("u")
    name_server.routes["u"] = route_of("u", b={0: "b:1"})
    routes.get("u")
    assert not routes.missing("u")


@pytest.mark.parametrize("before", [False, True])
def test_a_name_server_that_does_not_answer_says_nothing_of_a_topic(
    new_routes, name_server, before
):
    routes = new_routes()
    routes.get("t")
    known = name_server.routes["t"]
    if before:
        del name_server.routes["t"]
        with pytest.raises(TopicNotFound):
            routes.refresh("t")
    name_server.routes["t"] = known
    name_server.failure = NameServerUnavailable("down")
    with pytest.raises(NameServerUnavailable):
        routes.refresh("t")
    assert routes.missing("t") == before


def test_a_topic_that_is_forgotten_is_not_missing(new_routes, name_server):
    routes = new_routes()
    with pytest.raises(TopicNotFound):
        routes.get("u")
    routes.forget("u")
    assert not routes.missing("u")


def test_forget_drops_the_route(new_routes, name_server):
    routes = new_routes()
    routes.get("t")
    routes.forget("t")
    routes.forget("t")
    assert routes.cached("t") is None
    assert routes.broker_addresses() == ()


def test_all_known_routes_are_refreshed_by_the_interval(new_routes, name_server):
    name_server.routes["u"] = route_of("u", b={0: "b:1"})
    routes = new_routes(interval=0.01)
    routes.get("t")
    routes.get("u")
    eventually(lambda: name_server.asked.count("t") >= 3 and name_server.asked.count("u") >= 3)


def test_a_refresh_in_the_background_keeps_the_route_and_warns_once(
    new_routes, name_server, caplog
):
    routes = new_routes(interval=0.005)
    known = routes.get("t")
    name_server.failure = NameServerUnavailable("down")
    asked = len(name_server.asked)
    eventually(lambda: len(name_server.asked) > asked + 3)
    assert routes.get("t") is known
    warnings = [r for r in caplog.records if "route.not_refreshed" in r.getMessage()]
    assert len(warnings) == 1
    name_server.failure = None
    fresh = name_server.routes["t"] = route_of("t", queues=8, a={0: "a:1"})
    eventually(lambda: routes.get("t") is fresh)


def test_a_suspect_route_is_fetched_soon_but_not_at_every_failure(
    new_routes, name_server, monkeypatch
):
    monkeypatch.setattr("orderly.client.routes._SUSPECT_AFTER", 0.0)
    routes = new_routes()
    routes.get("t")
    routes.suspect("t")
    eventually(lambda: len(name_server.asked) == 2)
    monkeypatch.setattr("orderly.client.routes._SUSPECT_AFTER", NEVER)
    for _ in range(10):
        routes.suspect("t")
    assert routes._suspects == set()
    assert len(name_server.asked) == 2


def test_failing_fetches_of_a_suspect_route_are_rare_too(new_routes, name_server):
    routes = new_routes()
    routes.get("t")
    routes._asked_at["t"] -= 10
    name_server.failure = NameServerUnavailable("down")
    routes.suspect("t")
    eventually(lambda: len(name_server.asked) == 2)
    for _ in range(10):
        routes.suspect("t")
    assert routes._suspects == set()


def test_a_route_nobody_asked_for_is_never_suspect(new_routes, name_server):
    routes = new_routes()
    routes.suspect("t")
    assert routes._suspects == set()
    assert name_server.asked == []


def test_many_threads_share_one_fetch(name_server, new_routes):
    entered, leave = threading.Event(), threading.Event()
    original = name_server.fetch

    def slow(topic):
        entered.set()
        assert leave.wait(SOON)
        return original(topic)

    name_server.fetch = slow
    routes = new_routes()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(routes.get("t")), daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(SOON)
    eventually(lambda: _waiters(routes) == 7)
    leave.set()
    for thread in threads:
        thread.join(SOON)
    assert name_server.asked == ["t"]
    assert len(results) == 8


def _waiters(routes):
    return len(routes._fetching._flights["t"]._condition._waiters)


# --- addresses ---------------------------------------------------------------------------------


def test_the_masters_address(new_routes):
    assert new_routes().address(MessageQueue("t", "broker-a", 0)) == "a:1"


def test_no_master(new_routes, name_server):
    name_server.routes["t"] = route_of("t", a={1: "a:2", 2: "a:3"})
    routes = new_routes()
    with pytest.raises(RouteError, match="no master"):
        routes.address(MessageQueue("t", "broker-a", 0))
    assert address_in(name_server.routes["t"], "broker-a", replica=0) == "a:2"


def test_a_broker_the_route_does_not_have(new_routes):
    with pytest.raises(RouteError, match=r"'broker-x'.*broker-a") as raised:
        new_routes().address(MessageQueue("t", "broker-x", 0))
    assert raised.value.refresh_route


def test_a_broker_that_lost_the_topic_is_found_by_the_routes_of_others(new_routes, name_server):
    name_server.routes["other"] = route_of("other", a={0: "a:1"}, b={0: "b:1"}, c={1: "c:2"})
    routes, lost = new_routes(), MessageQueue("t", "broker-b", 0)
    with pytest.raises(RouteError, match="'broker-b'"):
        routes.master(lost)
    routes.refresh("other")
    assert routes.master(lost) == "b:1"
    assert routes.master(MessageQueue("t", "broker-a", 0)) == "a:1"
    with pytest.raises(RouteError, match="'broker-c'"):
        routes.master(MessageQueue("t", "broker-c", 0))
    with pytest.raises(TopicNotFound):
        routes.master(MessageQueue("unknown", "broker-b", 0))


def test_the_route_of_a_topic_that_is_gone_shows_nobody_the_way(new_routes, name_server):
    routes = new_routes()
    routes.refresh("t")
    assert routes.master_of("broker-a") == "a:1"
    del name_server.routes["t"]
    with pytest.raises(TopicNotFound):
        routes.refresh("t")
    assert routes.master_of("broker-a") is None


@pytest.mark.parametrize(
    ("addresses", "wanted", "found"),
    [
        ({0: "m", 1: "s"}, 0, "m"),
        ({0: "m", 1: "s"}, 1, "s"),
        ({0: "m"}, 1, "m"),
        ({2: "s2", 1: "s1"}, 0, "s1"),
    ],
)
def test_the_replica_wanted_or_one_that_is_there(addresses, wanted, found):
    route = route_of("t", a=addresses)
    assert address_in(route, "broker-a", replica=wanted) == found


def test_no_replica_at_all():
    with pytest.raises(RouteError, match="no address"):
        address_in(route_of("t", a={}), "broker-a", replica=0)


def test_broker_addresses_are_all_masters_and_slaves_of_all_routes(new_routes, name_server):
    name_server.routes["u"] = route_of("u", a={0: "a:1"}, b={0: "b:1"})
    routes = new_routes()
    routes.get("t")
    routes.get("u")
    assert routes.broker_addresses() == ("a:1", "a:2", "b:1")
