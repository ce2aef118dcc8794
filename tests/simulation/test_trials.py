"""A mutation that raises by itself is not caught: it is to be repaired."""

import asyncio

import pytest

from orderly.consumer import rebalancer
from orderly.ordering.broker_calls import MinOffset
from orderly.ordering.owned_queue import OwnedQueue
from tests.simulation import campaign, mutations, trials
from tests.simulation.campaign import catch, catch_again
from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS, known_seeds
from tests.simulation.trials import MEANT, Breakdown, try_on
from tests.simulation.watching import watched


def with_another_signature(set_):
    def find_start(queue):
        yield MinOffset(queue)

    set_(rebalancer, "find_start", find_start)


def with_a_name_that_is_gone(set_):
    set_(OwnedQueue, "may_save", lambda self, now: self.gone)


def with_an_answer_of_before(set_):
    """The library stumbles over it, not the mutation's own text."""

    def find_start(queue, consume_from, known=None):
        return (yield MinOffset(queue))

    set_(rebalancer, "find_start", find_start)


STALE = (with_another_signature, with_a_name_that_is_gone, with_an_answer_of_before)


@pytest.fixture(params=STALE, ids=lambda mutation: mutation.__name__)
def stale(request, monkeypatch):
    name = request.param.__name__
    monkeypatch.setitem(MUTATIONS, name, request.param)
    monkeypatch.setitem(mutations._NEEDS, name, None)
    return name


def by_queue_seed():
    return next(s for s in range(1000) if dict(draw(s).settings)["order"] == "queue")


def test_a_mutation_that_raises_by_itself_is_not_caught(stale, monkeypatch):
    seed = by_queue_seed()
    made = try_on(stale, draw(seed))
    assert isinstance(made, Breakdown)
    assert not made
    assert "Error" in str(made)
    monkeypatch.setattr(campaign, "known_seeds", lambda: {stale: (seed, "broke down")})
    assert catch_again(stale) == (stale, made)
    assert isinstance(catch(stale, limit=seed + 1)[1], Breakdown)


def test_one_that_is_meant_to_is(stale, monkeypatch):
    monkeypatch.setitem(trials.MEANT, stale, "made up")
    assert isinstance(try_on(stale, draw(by_queue_seed())), str)


def test_what_is_meant_to_break_down_is_a_mutation_and_says_why():
    assert all(name in MUTATIONS and why for name, why in MEANT.items())


def test_no_mutation_is_known_to_be_caught_by_its_own_mistake():
    kinds = {name: kind for name, (_, kind) in known_seeds().items() if name not in MEANT}
    assert not [n for n, kind in kinds.items() if kind.endswith("Error") or kind == "broke down"]


async def a_coroutine(number):
    return number + 1


def a_dialogue(number):
    return (yield number) + 1


class Thing:
    size = 1

    def grow(self, by):
        self.size += by
        return self.size


def told_of(value):
    told = []
    return watched(value, told.append), told


def test_what_is_watched_does_what_it_did():
    Thing.grown, told = told_of(Thing.grow)
    Thing.twice = watched(property(lambda self: 2 * self.size), told.append)
    thing = Thing()
    assert (thing.grown(by=2), thing.twice) == (3, 6)
    assert asyncio.run(told_of(a_coroutine)[0](1)) == 2
    dialogue = told_of(a_dialogue)[0](7)
    assert next(dialogue) == 7
    with pytest.raises(StopIteration, match="9"):
        dialogue.send(8)
    assert watched(5, told.append) == 5
    assert not told


def test_what_is_wrong_in_the_text_is_told_and_raised_and_nothing_else():
    for value, arguments in ((Thing.grow, ()), (lambda: gone, ()), (lambda x: x.gone, (1,))):  # noqa: F821
        made, told = told_of(value)
        with pytest.raises((TypeError, NameError, AttributeError)):
            made(*arguments)
        assert len(told) == 1
    made, told = told_of(a_coroutine)
    with pytest.raises(TypeError):
        asyncio.run(made("x"))
    assert len(told) == 1
    made, told = told_of(lambda: int("x"))
    with pytest.raises(ValueError, match="x"):
        made()
    assert not told
