"""Each typed outcome does what it says, and whatever is none of them acknowledges nothing."""

from orderly import Ack, DeadLetter, Fail, Suspend
from tests.support.consuming import send_numbers
from tests.support.dead_letters import dead_numbers
from tests.support.waiting import eventually

ASKED = 0.4  # seconds; much more than the consumer's own wait
TOO_LONG = 31  # seconds; a queue waits for 30 at most


class Busy(Exception):
    retry_after = ASKED


FIRST_ANSWERS = {
    0: Ack(),
    1: Fail("no stock"),
    2: Suspend(ASKED),
    3: Busy("come back later"),
    4: DeadLetter("no such account"),
    5: None,
    6: Suspend(TOO_LONG),
    7: Ack(),
}


def act(messages, context):
    """Answer by the table the first time, Ack() afterwards."""
    answer = FIRST_ANSWERS[int(messages[0].body)] if context.attempt == 1 else Ack()
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_what_is_not_acknowledged_comes_again_in_its_place(
    producer, topic, group, client, start_group
):
    seen = start_group(act, suspend=0.02).seen
    send_numbers(producer, topic, ["a"], len(FIRST_ANSWERS))
    eventually(lambda: 7 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7]
    assert dead_numbers(client, group, 1) == [4]
    for number in (2, 3):
        first, again = (d for d in seen.deliveries if d.number == number)
        assert again.started - first.ended >= ASKED, f"{number} waited less than was asked for"
