"""State and park topics: made and grown before they are needed, looked at again after changes."""

import pytest
from structlog.testing import CapturingLogger

from orderly.client.state_topics import StateTopics
from orderly.errors import ConfigError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import request
from orderly.testing import Fail, FakeBroker, Fault
from tests.support.brokers import delete_topic, set_topic
from tests.support.waiting import patient_client

STATE = state_topic("shipping", "orders")
PARK = park_topic("shipping", "orders")
BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def fake():
    with FakeBroker(brokers=BROKERS) as fake:
        fake.create_topic("orders", queues=4)
        yield fake


@pytest.fixture
def client(fake):
    with patient_client(fake.namesrv) as client:
        yield client


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.fixture
def new(client, log):
    def new(*, create=True):
        return StateTopics(client, "shipping", create, log)

    return new


@pytest.fixture
def asked(client, monkeypatch):
    """The codes of the requests that went out."""
    codes = []
    get = client.connections.get

    class Listening:
        def __init__(self, connection):
            self._connection = connection

        def call(self, command, limit):
            codes.append(command.code)
            return self._connection.call(command, limit)

    monkeypatch.setattr(client.connections, "get", lambda address: Listening(get(address)))
    return codes


def queues(count, topic="orders", brokers=BROKERS):
    return tuple(MessageQueue(topic, name, number) for name in brokers for number in range(count))


def sizes(client, topic=STATE):
    """Queues of the topic by broker, and its permission, as the brokers have it."""
    brokers = client.admin.cluster().brokers.values()
    configs = {b.broker_name: client.admin.topic_config(topic, b) for b in brokers}
    return {
        name: config and (config.read_queues, config.write_queues, config.perm)
        for name, config in configs.items()
    }


def told(log, method):
    return [call.kwargs for call in log.calls if call.method_name == method]


def test_a_missing_state_topic_is_made_with_the_queues_of_its_source(new, client):
    new().ensure("orders")
    for topic, queue_of in ((STATE, new().queue_of), (PARK, new().park_queue_of)):
        assert sizes(client, topic) == {"broker-a": (4, 4, 6), "broker-b": (4, 4, 6)}
        assert [*map(queue_of, queues(4))] == list(client.routes.get(topic).read_queues())


def test_what_is_there_is_left_alone(new, client, asked):
    new().ensure("orders")
    asked.clear()
    new(create=False).ensure("orders")
    assert set(asked) == {RequestCode.GET_ROUTEINFO_BY_TOPIC}


def test_nobody_is_asked_while_nothing_changes(new, asked):
    topics = new()
    topics.ensure("orders")
    asked.clear()
    assert topics.ready(queues(4)) == queues(4)
    assert asked == []


@pytest.mark.parametrize("own", [STATE, PARK])
def test_one_that_is_deleted_is_made_again_once_a_name_server_says_so(new, client, own):
    """The route that was known stays, so that it alone shows nothing."""
    topics = new()
    topics.ensure("orders")
    before = client.routes.cached(own)
    delete_topic(client, own)
    with pytest.raises(TopicNotFound):
        client.routes.refresh(own)
    assert client.routes.cached(own) is before
    assert topics.ready(queues(4)) == queues(4)
    assert sizes(client, own) == {"broker-a": (4, 4, 6), "broker-b": (4, 4, 6)}
    assert not client.routes.missing(own)


def test_one_that_is_deleted_and_not_to_be_made_is_refused(new, client):
    new().ensure("orders")
    topics = new(create=False)
    topics.ensure("orders")
    delete_topic(client, STATE)
    with pytest.raises(TopicNotFound):
        client.routes.refresh(STATE)
    assert topics.ready(queues(4)) == ()


def test_it_grows_before_the_new_queues_are_taken_and_keeps_what_it_is(new, client):
    topics = new()
    topics.ensure("orders")
    set_topic(client, STATE, read=5, write=4, perm=7)
    set_topic(client, "orders", read=4, write=8)  # as a topic is grown: first to write
    assert topics.ready(queues(4)) == queues(4), "the client has not seen it yet"
    client.routes.refresh("orders")
    assert topics.ready(queues(8)) == queues(8)
    assert sizes(client) == {"broker-a": (8, 8, 7), "broker-b": (8, 8, 7)}
    assert sizes(client, PARK) == {"broker-a": (8, 8, 6), "broker-b": (8, 8, 6)}


def test_it_never_shrinks(new, client):
    set_topic(client, STATE, read=16, write=2)
    new().ensure("orders")
    assert sizes(client) == {"broker-a": (16, 4, 6), "broker-b": (16, 4, 6)}


def test_it_comes_to_a_broker_that_the_source_topic_comes_to(new, client):
    addresses = client.admin.cluster().brokers
    client.admin.create_topic("narrow", 2, broker="broker-a")
    topics = new()
    topics.ensure("narrow")
    state = state_topic("shipping", "narrow")
    assert sizes(client, state) == {"broker-a": (2, 2, 6), "broker-b": None}
    client.admin.grow_topic("narrow", addresses["broker-b"], 3, None)
    client.routes.refresh("narrow")
    wanted = (*queues(2, "narrow", ("broker-a",)), *queues(3, "narrow", ("broker-b",)))
    assert topics.ready(wanted) == wanted
    assert sizes(client, state) == {"broker-a": (2, 2, 6), "broker-b": (3, 3, 6)}


def test_missing_and_not_to_be_made_it_is_refused_with_what_to_do(new):
    text = (
        f"{STATE} is missing on broker broker-a.*orderly topic create orders --for-group shipping"
    )
    with pytest.raises(ConfigError, match=text):
        new(create=False).ensure("orders")


@pytest.mark.parametrize("names", [(STATE, PARK), (PARK, STATE)])
def test_too_small_and_not_to_be_grown_it_serves_what_it_can(new, client, log, names):
    small, other = names
    set_topic(client, small, read=4, write=4)
    set_topic(client, other, read=9, write=9)
    topics = new(create=False)
    topics.ensure("orders")
    set_topic(client, "orders", read=6, write=6)
    client.routes.refresh("orders")
    for _ in range(3):
        assert topics.ready(queues(6)) == queues(4)
    errors = told(log, "error")
    assert [error["broker"] for error in errors] == list(BROKERS), "each once"
    assert "has 4 queues on broker broker-a, its source topic 6" in errors[0]["error"]
    with pytest.raises(
        ConfigError, match=f"{small} has 4 queues.*orderly topic create orders --for"
    ):
        new(create=False).ensure("orders")
    set_topic(client, small, read=6, write=6)  # as it was told
    assert topics.ready(queues(6)) == queues(6)


@pytest.mark.parametrize(("permission", "what"), [(4, "written"), (2, "read")])
@pytest.mark.parametrize("create", [True, False])
def test_what_cannot_be_used_is_refused(new, client, permission, what, create):
    set_topic(client, STATE, read=4, write=4, perm=permission)
    command = rf"mqadmin updateTopicPerm -b \S+:\d+ -t {STATE} -p 6"
    with pytest.raises(ConfigError, match=rf"may not be {what} on broker broker-a.*\({command}\)"):
        new(create=create).ensure("orders")
    assert sizes(client)["broker-a"][2] == permission, "that is the operator's decision"


def test_a_broker_that_is_being_drained_still_takes_state(new, client):
    """Name servers show all its topics as not writable; only ordered ones are refused there."""
    new().ensure("orders")
    for broker in client.admin.cluster().brokers.values():
        command = request(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\n")
        assert client.connections.get(broker.master).call(command, 5.0).code == 0
    assert client.routes.refresh(STATE).write_queues() == ()
    new(create=False).ensure("orders")
    client.routes.refresh("orders")
    assert new(create=False).ready(queues(4)) == queues(4)


def test_a_broker_that_refuses_is_told_as_such(new, fake):
    refusal = Fail(ResponseCode.NO_PERMISSION, "not you")
    fake.script(Fault(RequestCode.UPDATE_AND_CREATE_TOPIC, refusal, times=9))
    with pytest.raises(ConfigError, match=r"broker-a refuses .*not you") as raised:
        new().ensure("orders")
    assert raised.value.__cause__ is not None


def test_a_broker_that_does_not_answer_stops_nobody_and_is_waited_for(new, client, fake, log):
    client.routes.get("orders")
    fake.kill_broker("broker-b")
    topics = new()
    topics.ensure("orders")
    assert [warning["broker"] for warning in told(log, "warning")] == ["broker-b"] * 2
    assert [warning["kind"] for warning in told(log, "warning")] == ["state topic", "park topic"]
    assert topics.ready(queues(4)) == queues(4, brokers=("broker-a",))
    assert topics.ready(queues(4)) == queues(4, brokers=("broker-a",))
    assert len(told(log, "warning")) == 2, "each once"
    fake.restart_broker("broker-b")
    assert topics.ready(queues(4)) == queues(4)


def test_a_busy_broker_is_no_refusal(new, fake, log):
    busy = Fail(ResponseCode.SYSTEM_BUSY, "later")
    fake.script(Fault(RequestCode.UPDATE_AND_CREATE_TOPIC, busy, times=2))
    topics = new()
    topics.ensure("orders")
    assert len(told(log, "warning")) == 2
    assert topics.ready(queues(4)) == queues(4)


def test_one_that_was_shrunk_is_seen_when_its_route_is_renewed(new, client):
    topics = new()
    topics.ensure("orders")
    set_topic(client, STATE, read=2, write=2)
    client.routes.refresh(STATE)
    assert topics.ready(queues(4)) == queues(4)
    assert sizes(client)["broker-a"] == (4, 4, 6)


def test_a_source_topic_that_is_not_there_is_no_state_topic_either(new, client):
    with pytest.raises(TopicNotFound):
        new().ensure("nowhere")
    assert sizes(client, state_topic("shipping", "nowhere")) == dict.fromkeys(BROKERS)


def test_a_broker_that_goes_between_the_two_looks_is_left_out(new, monkeypatch):
    topics = new()
    assert topics.ready(queues(4)) == queues(4)
    findings = topics._findings

    def gone_from_the_park_topic(topic, own):
        found = dict(findings(topic, own))
        if own.topic == PARK:
            del found["broker-b"]
        return found

    monkeypatch.setattr(topics, "_findings", gone_from_the_park_topic)
    assert topics.ready(queues(4)) == queues(4, brokers=["broker-a"])
