from __future__ import annotations

import threading

from orderly.producer.room import Room

PATIENCE = 30.0


def test_there_is_room_up_to_the_limit():
    room = Room(2)
    assert room.enter(0)
    assert room.enter(0)
    assert not room.enter(0.01)
    room.leave()
    assert room.enter(0)


def test_who_must_not_wait_comes_in_anyway_and_takes_the_room_of_others():
    room = Room(1)
    room.enter_anyway()
    room.enter_anyway()
    room.leave()
    assert not room.enter(0)
    room.leave()
    assert room.enter(0)


def test_everybody_who_waits_gets_in_as_others_leave():
    room = Room(1)
    room.enter(0)
    done = []

    def visit() -> None:
        assert room.enter(PATIENCE)
        done.append(1)
        room.leave()

    visitors = [threading.Thread(target=visit) for _ in range(20)]
    for visitor in visitors:
        visitor.start()
    assert not done
    room.leave()
    for visitor in visitors:
        visitor.join(PATIENCE)
    assert len(done) == 20
    assert room.wait_empty(0)


def test_waiting_for_the_last_one_ends_in_time():
    room = Room(1)
    assert room.wait_empty(0)
    room.enter(0)
    assert not room.wait_empty(0.01)
    threading.Timer(0.02, room.leave).start()
    assert room.wait_empty(PATIENCE)
