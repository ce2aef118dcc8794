"""`orderly doctor … -t …` says what a consumer's start would refuse or warn of, and no more.

Each case is told to the doctor and to a real consumer: both must say the same.
"""

import re

import pytest

from orderly import ConsumerConfig, OrderlyConsumer
from orderly.errors import OrderlyError
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.testing import FakeBroker
from orderly.testing.fake.faults import Fail, Fault
from tests.support.brokers import broker_setting, set_group, set_topic
from tests.support.waiting import eventually, patient_client

GROUP, TOPIC = "shipping", "orders"


@pytest.fixture
def fake(monkeypatch):
    with FakeBroker() as broker:
        broker.create_topic(TOPIC, 4)
        monkeypatch.setenv("ORDERLY_NAMESRV", broker.namesrv)
        yield broker


@pytest.fixture
def client(fake):
    with patient_client(fake.namesrv) as client:
        yield client


@pytest.fixture
def consumer(fake, tmp_path):
    """Make a consumer of the group; closed in the end."""
    made = []

    def make(topic=TOPIC, tags="*", **settings):
        if settings.get("model") == "broadcasting":
            settings |= {"instance": "i", "offsets_folder": str(tmp_path)}
        config = ConsumerConfig(**settings)
        made.append(
            OrderlyConsumer(GROUP, lambda *_: None, namesrv=fake.namesrv, config=config).subscribe(
                topic, tags
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def topic_without_reading(client):
    set_topic(client, TOPIC, read=4, write=4, perm=2)


def group_without_consuming(client):
    set_group(client, GROUP, consume_enabled=False)


def group_without_broadcasting(client):
    set_group(client, GROUP, broadcast_enabled=False)


def state_topic_that_cannot_be_written(client):
    set_topic(client, state_topic(GROUP, TOPIC), read=4, write=4, perm=4)


def park_topic_that_cannot_be_read(client):
    set_topic(client, park_topic(GROUP, TOPIC), read=4, write=4, perm=2)


def fifo_topic(client):
    client.admin.create_topic("fifo", 2, message_type="FIFO")


@pytest.mark.parametrize(
    ("prepare", "topic", "args", "settings"),
    [
        (topic_without_reading, TOPIC, [], {}),
        (group_without_consuming, TOPIC, [], {}),
        (
            group_without_broadcasting,
            TOPIC,
            ["--model", "broadcasting"],
            {"model": "broadcasting"},
        ),
        (state_topic_that_cannot_be_written, TOPIC, ["--order", "key"], {"order": "key"}),
        (park_topic_that_cannot_be_read, TOPIC, ["--order", "key"], {"order": "key"}),
        (fifo_topic, "fifo", [], {}),
        (lambda _: None, "nowhere", [], {}),
    ],
    ids=["unreadable", "no consuming", "no broadcast", "state", "park", "fifo", "no topic"],
)
def test_what_a_start_refuses_is_critical_in_its_words(
    doctor, client, consumer, prepare, topic, args, settings
):
    prepare(client)
    told = doctor(GROUP, "-t", topic, *args)
    assert told.code == 2
    with pytest.raises(OrderlyError) as refused:
        consumer(topic, **settings).start()
    advice = [it["advice"] for it in told.findings if it["state"] == "CRITICAL"]
    assert advice == [str(refused.value)]


def members_words(text):
    """Without what differs from member to member: ids, and which of two asked."""
    return re.sub(r"\S+@\d+#\w+", "ID", text)


@pytest.mark.parametrize(
    ("there", "args", "settings"),
    [
        ({"order": "key"}, ["--order", "queue"], {}),
        ({}, ["--order", "key"], {"order": "key"}),
        ({}, ["--model", "broadcasting"], {"model": "broadcasting"}),
        ({"model": "broadcasting"}, ["--model", "clustering"], {}),
    ],
    ids=["key there", "queue there", "clustering there", "broadcasting there"],
)
def test_members_that_would_be_mixed_are_critical_in_its_words(
    doctor, client, consumer, there, args, settings
):
    member = consumer(**there).start()
    eventually(lambda: len(member.assignment) == 4)
    eventually(lambda: client.admin.consumer_connections(GROUP))
    told = doctor(GROUP, "-t", TOPIC, *args)
    assert told.code == 2
    with pytest.raises(OrderlyError) as refused:
        consumer(**settings).start()
    advice = [it["advice"] for it in told.findings if it["state"] == "CRITICAL"]
    assert [members_words(text) for text in advice] == [members_words(str(refused.value))]


def test_members_as_they_are_are_no_fault(doctor, client, consumer):
    member = consumer(order="key", tags="paid").start()
    eventually(lambda: len(member.assignment) == 4)
    eventually(lambda: client.admin.consumer_connections(GROUP))
    set_group(client, GROUP, orderly=True)
    told = doctor(GROUP)  # its topic, its order, its filter
    assert told.code == 0
    assert ("OK", "1 member online", "") in told.of(f"group {GROUP}")
    assert told.of(f"state and park topic of {TOPIC}") == [("OK", "there", "")]


def test_another_filter_than_the_members_is_a_warning_that_names_the_difference(
    doctor, client, consumer
):
    set_group(client, GROUP, orderly=True)
    consumer(tags="paid").start()
    eventually(lambda: client.admin.consumer_connections(GROUP))
    told = doctor(GROUP, "-t", TOPIC, "--tags", "shipped")
    (warning,) = [it for it in told.findings if it["state"] == "WARNING"]
    assert told.code == 1
    assert f"{TOPIC}: 'shipped' here, 'paid' there" in warning["found"]
    assert "all members" in warning["advice"]


def test_members_that_differ_among_themselves_are_a_warning_that_names_who_wants_what(
    doctor, client, consumer
):
    client.admin.create_topic("refunds", 2)
    ids = []
    for topic, tags in ((TOPIC, "paid"), (TOPIC, "created"), ("refunds", "*")):
        member = consumer(topic, tags)
        member.start()
        ids.append(member.client_id)
    eventually(lambda: len(client.admin.consumer_connections(GROUP).connections) == 3)
    found = doctor(GROUP)
    assert found.code == 1
    told = [text for state, text, _ in found.of(f"group {GROUP}") if "differently" in text]
    paid, created, refunds = ids
    no, others = "not subscribed", ", ".join(sorted((paid, created)))
    assert told == [
        f"its members subscribe differently to {topic}: {ways}"
        for topic, ways in (
            (TOPIC, f"'created' ({created}), 'paid' ({paid}), {no} ({refunds})"),
            ("refunds", f"'*' ({refunds}), {no} ({others})"),
        )
    ]
    assert found.of("topic orders")
    assert found.of("topic refunds"), "whoever sent the last heartbeat"


def test_whether_a_group_is_marked_as_ordered_is_told(doctor, client):
    told = doctor(GROUP, "-t", TOPIC)
    assert (
        told.of(f"group {GROUP}")[1][1]
        == "broker-a: does not exist yet: created when a member joins"
    )
    set_group(client, GROUP)
    told = doctor(GROUP, "-t", TOPIC)
    assert told.of(f"group {GROUP}")[1][1].endswith("may broadcast, not marked as ordered")
    set_group(client, GROUP, orderly=True)
    told = doctor(GROUP, "-t", TOPIC)
    assert told.of(f"group {GROUP}")[1][1].endswith("may broadcast, marked as ordered")
    assert told.code == 0


def test_a_refusal_of_the_members_is_told_once(doctor, fake):
    """The doctor asks for them, and so does the check."""
    fake.script(
        Fault(
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            Fail(ResponseCode.NO_PERMISSION, "User:app has no permission to access Group:shipping"),
            times=None,
        )
    )
    told = doctor(GROUP, "-t", TOPIC)
    assert [state for state, _, _ in told.of(f"group {GROUP}")].count("CRITICAL") == 1


def test_what_a_start_goes_on_without_is_unknown(doctor, client, consumer, fake):
    consumer(order="key").start()
    eventually(lambda: client.admin.consumer_connections(GROUP))
    set_group(client, GROUP, orderly=True)
    fake.script(
        Fault(
            RequestCode.GET_CONSUMER_RUNNING_INFO, Fail(ResponseCode.SYSTEM_ERROR, "no"), times=None
        )
    )
    told = doctor(GROUP, "-t", TOPIC, "--order", "key")
    assert told.code == 3
    (found,) = [it for it in told.findings if it["state"] == "UNKNOWN"]
    assert "@" in found["found"], "which member"


def test_a_group_that_is_not_there_and_that_no_broker_makes_is_critical(doctor, client):
    with broker_setting(client, "autoCreateSubscriptionGroup", "false"):
        told = doctor(GROUP, "-t", TOPIC)
    assert told.code == 2
    assert any("updateSubGroup" in advice for _, _, advice in told.of(f"group {GROUP}"))


def test_a_topic_that_may_not_be_written_is_a_warning(doctor, client):
    set_topic(client, TOPIC, read=4, write=4, perm=4)
    told = doctor("-t", TOPIC)
    assert told.code == 1
    assert told.of(f"topic {TOPIC}")[1][1] == "no queue may be written"


def test_read_and_write_queues_that_differ_are_a_warning(doctor, client):
    set_topic(client, TOPIC, read=8, write=4)
    told = doctor("-t", TOPIC)
    assert told.of(f"topic {TOPIC}")[0][1].startswith("broker-a: 8 queues to read, 4 to write")
    assert told.code == 1


@pytest.mark.usefixtures("fake")
def test_tags_and_sql_are_refused_together(capsys):
    from orderly.cli.root import run  # noqa: PLC0415

    assert run(["doctor", GROUP, "--tags", "a", "--sql", "b > 1"]) == 3
    assert "give --tags or --sql, not both" in capsys.readouterr().err
