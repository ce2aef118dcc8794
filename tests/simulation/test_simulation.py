"""A share of `make simulate` in each test run: seeds hold, mutations are caught, replays agree."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

import tests.simulation.world as world_module
from orderly import MessageQueue
from orderly.log import where
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.offsets import UpdateConsumerOffset
from orderly.protocol.state_record import Acquire, Confirm, Entry
from orderly.testing.oracle import Sent
from tests.simulation import campaign, mutations
from tests.simulation.campaign import catch, catch_again, run_chunk
from tests.simulation.commits import Commit
from tests.simulation.drawing import draw
from tests.simulation.kernel import Process
from tests.simulation.mutations import MUTATIONS, applied, known_seeds, told_on, write_seeds
from tests.simulation.path_checks import check, rare
from tests.simulation.paths import PATHS, PATHS_BY_NAME
from tests.simulation.paths import Path as Path_
from tests.simulation.shrink import kind_of, shrink
from tests.simulation.truth import GROUP, TOPIC, Broken
from tests.simulation.verdict import EXCUSES, _judge_forged, judge_deliveries
from tests.simulation.witness import Delivery
from tests.simulation.world import Violation, World, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played():
    """A few histories: their violations, what there was to judge, and the paths taken by seed."""
    _, *found = run_chunk(range(60))
    return SimpleNamespace(**dict(zip(("violations", "counts", "paths"), found, strict=True)))


def test_no_seed_breaks_a_promise(played):
    assert not played.violations


@pytest.mark.parametrize(
    "seed",
    [
        9289,  # an operator parked the last suspect of a queue, and the turn was never given back
        15102,  # a call with several messages was under way when the program sought
        15487,  # a sender's retry: two copies in one batch, of which one became a dead letter
        701201,  # a killed broker's old offset was not told of a queue with a dead letter
        701858,  # a filter left all messages out, and the topic was made anew
        904842,  # of forged records: what a robbed owner handled was judged too late
        906131,  # a former ownership's pull was told of a reset while the queue was given up
        1104899,  # a member was told of a reset while it took the queue over
        1106571,  # a robbed owner committed beside what its robber had ahead
        1108095,  # reset twice: what was finished in between
        1110530,  # as 701201, with a broker that was killed twice
        1113477,  # an operator dropped what former owners had finished
        1120012,  # an operator released a key and dropped it at once
        1117732,  # a lock was refused when nobody waited for the answer any more
    ],
)
def test_a_history_that_once_failed_holds(seed):
    _, violations, *_ = run_chunk([seed])
    assert not violations


@pytest.mark.parametrize(
    "name",
    [
        "take_refused_queues",
        "commit_past_a_failure",
        "two_batches_of_a_key",
        "claim_what_is_in_hand",
        "send_two_requests_at_once",
        "forget_parked_keys_at_a_handover",
        "never_suspect_a_crash_loop",
    ],
)
def test_a_mutation_is_caught(name):
    assert catch(name, limit=200)[1]


def test_each_mutation_has_a_seed_that_caught_it():
    assert set(known_seeds()) == set(MUTATIONS)


def test_the_page_tells_by_which_seeds_mutations_were_caught():
    page = mutations.PAGE.read_text()
    assert page == told_on(page)
    assert all(f"\n| `{name}` | " in page for name in MUTATIONS)


def test_what_a_search_found_is_remembered_and_told_and_nothing_else_changes(monkeypatch, tmp_path):
    before = {}
    for name in ("CAUGHT", "PAGE"):
        copy = tmp_path / name
        copy.write_bytes(getattr(mutations, name).read_bytes())
        before[copy] = copy.read_text()
        monkeypatch.setattr(mutations, name, copy)
    known = known_seeds()
    write_seeds({"never_save": (4711, "made up"), "run_twice": None})
    assert known_seeds() == {**known, "never_save": (4711, "made up")}
    old = f"| {known['never_save'][0]} | {known['never_save'][1]} |"
    told = next(line for line in before[mutations.PAGE].splitlines() if "`never_save`" in line)
    assert told.replace(old, "| 4711 | made up |") in mutations.PAGE.read_text()
    write_seeds({"never_save": known["never_save"]})
    assert {copy: copy.read_text() for copy in before} == before


def test_a_mutation_is_tried_again_on_the_seed_that_caught_it_and_on_no_other(monkeypatch):
    found = catch("never_save")[1]
    known = {"never_save": found, "give_everybody_one_token": (by_queue_seed(), "token")}
    monkeypatch.setattr(campaign, "known_seeds", lambda: known)
    assert catch_again("never_save") == ("never_save", found)
    assert catch_again("give_everybody_one_token") == ("give_everybody_one_token", None)
    assert catch_again("run_twice") == ("run_twice", None)


def by_queue_seed():
    """A history in which nobody has a token."""
    return next(s for s in range(1000) if dict(draw(s).settings)["order"] == "queue")


def test_each_mutation_says_what_it_is():
    assert all(mutation.__doc__ for mutation in MUTATIONS.values())
    assert len(MUTATIONS) > 80


# --- an excuse is about one queue, and one stretch of time ---------------------------------------


def judged(scenario, look):
    """Play a scenario; `look` sees what was delivered and may change it before it is judged.

    Returns:
        The violation's kind, or None.
    """

    def looked_at(world):
        look(world.witness.events)
        return judge_deliveries(world)

    with mock.patch.object(world_module, "judge_deliveries", looked_at):
        try:
            run(scenario)
        except Violation as violation:
            return violation.kind
    return None


def by_queue(events, *, lanes):
    """The deliveries, by queue or by lane, each with its place among the events."""
    found = {}
    for place, event in enumerate(events):
        if isinstance(event, Delivery):
            found.setdefault(event.lane if lanes else event.lane[0], []).append((place, event))
    return found


def neighbours(of_lane):
    """The places of two messages, one behind the other, each handled once and well so far."""
    for (one, earlier), (two, later) in itertools.pairwise(of_lane):
        before = {event.id for place, event in of_lane if place < one}
        well = earlier.success and later.success and not {earlier.id, later.id} & before
        if well and earlier.id[1] < later.id[1]:
            return one, two
    return None


def in_another_queue(events):
    queues = by_queue(events, lanes=False)
    excused = {q for q, of_queue in queues.items() if any(e.excused for _, e in of_queue)}
    others = [of for lane, of in by_queue(events, lanes=True).items() if lane[0] not in excused]
    return next(filter(None, map(neighbours, others)), None) if excused else None


def after_the_stretch(events):
    for of_lane in by_queue(events, lanes=True).values():
        last = max((place for place, event in of_lane if event.excused), default=None)
        rest = [] if last is None else [each for each in of_lane if each[0] > last]
        known = {event.id for place, event in of_lane if last is not None and place <= last}
        if found := neighbours([each for each in rest if each[1].id not in known]):
            return found
    return None


def in_the_stretch(events):
    for of_lane in by_queue(events, lanes=True).values():
        for (one, earlier), (two, later) in itertools.pairwise(of_lane):
            if earlier.excused and later.excused and earlier.id != later.id:
                return one, two
    return None


@pytest.mark.parametrize(
    ("places", "kind"),
    [(in_another_queue, "order"), (after_the_stretch, "order"), (in_the_stretch, None)],
)
def test_what_is_excused_is_not_judged_and_all_else_is(places, kind):
    def scenario_with_them():
        for scenario in map(draw, range(5000)):
            found = []
            if any(fault.kind == "broker restart" for fault in scenario.faults):
                judged(scenario, lambda events: found.append(places(events)))  # noqa: B023
            if any(found):
                return scenario
        raise AssertionError("no history has such deliveries")

    def swap(events):
        one, two = places(events)
        events[one], events[two] = events[two], events[one]

    scenario = scenario_with_them()
    assert judged(scenario, lambda events: None) is None
    assert judged(scenario, swap) == kind


def test_a_reset_excuses_alarms_of_its_own_queue_until_somebody_commits():
    world = World(next(s for s in map(draw, range(100)) if s.queues == 2), restless=0.0)
    (reset, other), witness = list(world.truth.queues())[:2], world.witness
    member = world.members[0]

    def alarms(queue):
        world.kernel.failure = None
        witness.alarmed("offset.set_by_another", where(GROUP, queue))
        return world.kernel.failure is not None

    assert alarms(reset)
    witness.commits.was_reset(reset, 0)
    assert (alarms(reset), alarms(other)) == (False, True)
    world.kernel.now += 30.0
    assert not alarms(reset)
    commit = SimpleNamespace(topic=TOPIC, commit_offset=0)
    assert witness.commits.arrives(member, commit, reset)
    assert alarms(reset)


def quiet_world(**changes):
    """A world by key that is not played, in which two messages are finished and one is not."""
    scenario = next(s for s in map(draw, range(200)) if dict(s.settings)["order"] == "key")
    world = World(replace(scenario, **changes), restless=0.0)
    queue = next(world.truth.queues())
    world.truth.finished[queue] |= {0, 1}
    log = SimpleNamespace(max_offset=3, entry=lambda offset: SimpleNamespace(data=b""))
    world.truth.log = lambda queue: log
    world.truth.wanted = lambda queue, offset: True
    world.truth.covered = world.truth.passed = lambda queue, offset: False
    world.truth.has_stored = lambda queue: True
    world.truth.stored = lambda queue: 2
    world.truth.key = lambda queue, offset: "a"
    return world, queue


def commits(world, queue, offset):
    """Whether a member's commit counts."""
    sent = SimpleNamespace(topic=TOPIC, commit_offset=offset)
    return world.witness.commits.arrives(world.members[0], sent, queue)


def test_of_a_save_that_is_under_way_at_a_seek_nothing_counts():
    world, queue = quiet_world(faults=())
    witness = world.witness
    assert commits(world, queue, 2)
    witness.commits.was_sought(queue, 1, given_up=True)
    world.kernel.now += 30.0
    assert not commits(world, queue, 2)
    assert not witness.ledger.recorded[queue]
    assert commits(world, queue, 1)
    assert witness.ledger.recorded[queue] == {0}
    witness.commits.taken(world.members[0].process, queue)
    world.truth.finished[queue].add(1)
    assert commits(world, queue, 2)
    witness.commits.was_sought(queue, 2, given_up=False)  # it is there already: nothing follows
    assert commits(world, queue, 2)


@pytest.mark.parametrize(
    ("later", "target", "ahead", "doubtful"),
    [
        (10.0, 0, True, True),
        (10.0, 1, True, True),
        (10.0, 0, False, False),  # all is finished
        (40.0, 0, True, False),  # long ago
    ],
)
def test_a_reset_may_be_taken_for_a_killed_broker_only_if_one_could_look_like_it(
    later, target, ahead, doubtful
):
    world, queue = quiet_world(faults=())
    for offset, seconds in ((0, later), (1, later), (2, 0.0)):
        assert commits(world, queue, offset)
        world.kernel.now += seconds
    if not ahead:
        world.truth.finished[queue].add(2)
    ledger, member = world.witness.ledger, world.members[0]
    ledger.stored(member, queue, Acquire("x"), 0, judged=True)
    ledger.stored(member, queue, entry(), 1, judged=True)
    world.witness.commits.was_reset(queue, target)
    assert 1 not in world.truth.finished[queue]
    world.truth.stored = lambda queue: target
    world.witness.commits.confirmed(member.process, queue)
    assert bool(world.happened["reset, excused"]) == doubtful
    assert (1 in world.truth.finished[queue]) == doubtful


def test_a_reset_may_be_taken_for_a_killed_broker_if_only_the_record_is_ahead():
    world, queue = quiet_world(faults=())
    for offset in (0, 1):
        assert commits(world, queue, offset)
    world.truth.finished[queue].add(2)
    ledger, member = world.witness.ledger, world.members[0]
    ledger.stored(member, queue, Acquire("x"), 0, judged=True)
    record = entry(low=1, previous_low=0, runs=((2, 3),))
    ledger.stored(member, queue, record, 1, judged=True)
    world.witness.commits.was_reset(queue, 0)
    world.truth.stored = lambda queue: 0
    world.witness.commits.confirmed(member.process, queue)
    assert world.happened["reset, excused"]


def owner(name):
    return SimpleNamespace(process=Process(name))


def test_who_was_confirmed_may_commit_before_its_round_reports_the_queue_as_taken():
    world, queue = quiet_world(faults=())
    ledger, former, heir = world.witness.ledger, owner("member 0.1"), owner("member 1.1")
    ledger.committed(former, queue, 2)
    world.kernel.now += 1.0
    with pytest.raises(Broken, match="did meanwhile"):
        ledger.committed(heir, queue, 2)
    ledger.stored(heir, queue, Acquire("y"), 0, judged=True)
    ledger.stored(heir, queue, Confirm("y", 0), 1, judged=True)
    ledger.committed(heir, queue, 2)


def test_what_one_of_two_owners_has_ahead_does_not_count_beside_the_offset_of_the_other():
    world, queue = quiet_world(faults=())
    ledger, former, heir = world.witness.ledger, owner("member 0.1"), owner("member 1.1")
    ledger.taken(former.process, queue)
    world.truth.finished[queue].add(2)
    world.kernel.now += 1.0
    ledger.went_back(queue, 0)  # a killed broker forgets locks: two members own the queue
    ledger.stored(heir, queue, Acquire("y"), 0, judged=True)
    ledger.stored(heir, queue, Confirm("y", 0), 1, judged=True)
    ledger.stored(heir, queue, entry(low=1, previous_low=0, runs=((2, 3),)), 2, judged=True)
    ledger.committed(heir, queue, 1)
    assert ledger.recorded[queue] == {0, 2}
    world.kernel.now += 1.0
    ledger.committed(former, queue, 2)
    assert ledger.recorded[queue] == {0, 1}


def test_a_reset_that_an_owner_put_on_record_is_not_taken_for_a_killed_broker():
    world, queue = quiet_world(faults=())
    assert commits(world, queue, 2)
    ledger, member = world.witness.ledger, world.members[0]
    ledger.stored(member, queue, Acquire("x"), 0, judged=True)
    world.witness.commits.was_reset(queue, 1)
    ledger.stored(member, queue, entry(low=1), 1, judged=False)
    world.truth.stored = lambda queue: 1
    world.witness.commits.confirmed(member.process, queue)
    assert not world.happened["reset, excused"]


def test_by_queue_no_reset_is_taken_for_a_killed_broker():
    scenario = draw(by_queue_seed())
    world, queue = quiet_world(faults=(), settings=scenario.settings)
    assert commits(world, queue, 2)
    world.witness.commits.was_reset(queue, 1)
    world.truth.stored = lambda queue: 1
    world.witness.commits.confirmed(world.members[0].process, queue)
    assert not world.happened["reset, excused"]


@pytest.mark.parametrize("told", ["the heir", "another", "nobody"])
def test_an_heir_that_is_told_of_a_reset_cannot_take_it_for_a_killed_broker(told):
    world, queue = quiet_world(faults=())
    for offset in (0, 1, 2):
        assert commits(world, queue, offset)
    ledger, owners = world.witness.ledger, world.witness.commits
    heir, another = owner("member 1.1"), owner("member 0.1")
    ledger.stored(another, queue, Acquire("x"), 0, judged=True)
    ledger.stored(another, queue, entry(runs=((4, 5),)), 1, judged=False)
    owners.was_reset(queue, 1)
    world.truth.stored = lambda queue: 1
    world.truth.reset_waits = lambda queue: True
    owners.confirmed(heir.process, queue)
    assert not world.happened["reset, excused"], "the broker still has to tell somebody"
    if told != "nobody":
        owners.told((heir if told == "the heir" else another).process, queue)
    owners.goes_on(heir.process, queue)
    assert world.happened["reset, excused"] == (told != "the heir")


@pytest.mark.parametrize("recorded", [False, True])
def test_what_was_finished_between_two_resets_counts_where_nobody_can_know_of_them(recorded):
    """And what was finished before the first one, unless its owner has put that on record."""
    world, queue = quiet_world(faults=())
    for offset in (0, 1, 2):
        assert commits(world, queue, offset)
    member, ledger = owner("member 1.1"), world.witness.ledger
    ledger.stored(member, queue, Acquire("x"), 0, judged=True)
    world.witness.commits.was_reset(queue, 1)
    ledger.stored(member, queue, entry(low=1 if recorded else 2), 1, judged=False)
    world.witness.commits.recorded(queue)
    world.truth.finished[queue].add(2)
    world.witness.commits.was_reset(queue, 0)
    assert not world.truth.finished[queue]
    world.truth.stored = lambda queue: 0
    world.witness.ledger.agrees = lambda queue, offset: False
    world.witness.commits.confirmed(member.process, queue)
    assert world.truth.finished[queue] == ({0, 2} if recorded else {0, 1, 2})


def test_a_commit_beyond_the_end_of_the_log_is_none():
    world, queue = quiet_world(faults=())
    world.truth.finished[queue] |= {2, 3}
    assert commits(world, queue, 3)
    with pytest.raises(Broken, match="ends at 3"):
        commits(world, queue, 4)


def test_what_a_killed_broker_has_is_told_also_of_a_queue_in_which_something_was_passed_over():
    """Such as a dead letter: then no commit is told any more that forbids repeats."""
    world, queue = quiet_world(faults=())
    assert commits(world, queue, 2)
    world.truth.skipped[queue].add(2)
    world.truth.stored = lambda queue: 1
    world.witness.commits.went_back(queue)
    assert [event.offset for event in world.witness.events] == [2, 1]


def test_what_a_robber_has_ahead_does_not_count_beside_the_offset_of_who_does_not_know_it():
    world, queue = quiet_world(faults=())
    world.truth.log = lambda queue: SimpleNamespace(max_offset=4)
    world.truth.finished[queue].add(3)
    witness, robber, robbed = world.witness, owner("member 1.1"), world.members[0]
    witness.ledger.stored(robber, queue, Acquire("y"), 0, judged=True)
    witness.ledger.stored(robber, queue, Confirm("y", 0), 1, judged=True)
    ahead = entry(low=1, previous_low=0, runs=((3, 4),))
    witness.ledger.stored(robber, queue, ahead, 2, judged=True)
    assert witness.ledger.recorded[queue] == {0, 3}
    witness._grants.committed = lambda process, queue: True  # it compared, and saw nothing
    header = UpdateConsumerOffset(
        consumer_group=GROUP, topic=TOPIC, queue_id=queue.queue_id, commit_offset=2
    )
    address = world.cluster.brokers[queue.broker_name].address
    link = SimpleNamespace(process=robbed.process, address=address)
    witness._arrives(link, request(header.code, to_ext(header)))
    assert witness.ledger.recorded[queue] == {0, 1}


def test_a_refusal_that_comes_too_late_tells_nobody_that_the_lock_is_lost():
    world, queue = quiet_world(faults=())
    grants, member = world.witness._grants, owner("member 0.1")
    answer = SimpleNamespace(is_response=True, request_id=1)

    def refused(number, seconds):
        link = SimpleNamespace(number=number)
        grants.asked(link, answer)
        grants._answers[number, 1] = member.process, {queue}, set()
        world.kernel.now += seconds
        grants.heard(link, answer)
        world.kernel.now += 1.0
        return grants.could_not_know(member, queue)

    world.strikes.restarted_at[queue.broker_name] = world.kernel.now
    assert refused(1, 5.0)
    assert not refused(2, 0.1)


def test_in_a_history_with_forged_records_an_excused_delivery_has_its_place_where_it_ended():
    """Commits are among the events that are counted, and not judged."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    sent = [Sent("k", (queue, offset), (queue,), offset) for offset in range(3)]
    events = [Commit(queue, 0, {}), Commit(queue, 0, {})]
    for offset in range(3):
        excused = offset == 1
        one = Delivery("k", (queue,), (queue, offset), excused, None, 0.0, success=True)
        events.append(replace(one, ended=len(events) + 1) if excused else one)
    truth = SimpleNamespace(queues=lambda: [queue], consumed=lambda queue: True, finished={})
    world = SimpleNamespace(witness=SimpleNamespace(events=events), truth=truth, happened=Counter())
    assert _judge_forged(world, sent, set()).excused == 1


def entry(**changes):
    told = {"owner": "x", "token": 0, "number": 1, "previous": 0, "epoch": 1, "runs": ()}
    return Entry(**{**told, "low": 2, "previous_low": 2, **changes})


@pytest.mark.parametrize(
    ("record", "left"),
    [
        (entry(), set()),  # nothing is ahead: an operator may have set the offset
        (entry(previous_low=0), {0, 1}),  # it was written before 2 was committed
        (entry(low=1, previous_low=1, runs=((2, 3),)), {0, 2}),
    ],
)
def test_what_a_killed_broker_forgot_is_on_record_if_the_newest_record_proves_it(record, left):
    world, queue = quiet_world(faults=())
    world.truth.finished[queue].add(2)
    ledger, member = world.witness.ledger, world.members[0]
    ledger.stored(member, queue, Acquire("x"), 0, judged=True)
    ledger.stored(member, queue, record, 1, judged=True)
    ledger.went_back(queue, 0)
    assert ledger.recorded[queue] == left


def test_an_offset_of_before_a_reset_that_a_killed_broker_brings_back_says_nothing():
    world, queue = quiet_world(faults=())
    assert commits(world, queue, 2)
    world.witness.commits.was_sought(queue, 0, given_up=True)
    assert commits(world, queue, 0)
    world.witness.commits.went_back(queue)
    assert not world.witness.ledger.recorded[queue]


def test_what_is_excused_is_counted(played):
    assert any(played.counts[name] for name in EXCUSES)
    assert played.counts.keys() >= EXCUSES.keys()


def test_a_state_in_several_records_counts_once_the_last_part_is_stored():
    world = World(draw(0), restless=0.0)
    queue, ledger = next(world.truth.queues()), world.witness.ledger
    world.truth.finished[queue] |= {0, 1}
    world.truth.log = lambda queue: SimpleNamespace(max_offset=2)
    world.truth.wanted = lambda queue, offset: True
    world.truth.covered = world.truth.passed = lambda queue, offset: False
    first = Entry(
        owner="x", token=0, number=1, previous=0, epoch=1, low=1, previous_low=0, runs=(), chunks=2
    )
    ledger.stored(world.members[0], queue, Acquire("x"), 0, judged=True)
    ledger.stored(world.members[0], queue, first, 2, judged=True)
    assert not ledger.recorded[queue]
    last = replace(first, number=2, previous=2, runs=((1, 2),), chunk=1)
    ledger.stored(world.members[0], queue, last, 3, judged=True)
    assert ledger.recorded[queue] == {0, 1}


def replay(seed, **environment):
    command = [sys.executable, "-m", "tests.simulation", "--replay", str(seed)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=60)
    return done.stdout


def test_a_replay_is_the_same_history_byte_for_byte_in_another_process():
    seed = next(s for s in range(1000) if draw(s).members == 3 and len(draw(s).faults) > 1)
    first = replay(seed, PYTHONHASHSEED="1")
    assert b"FAULT" in first
    assert first == replay(seed, PYTHONHASHSEED="2")


def test_a_failing_scenario_is_cut_down_to_what_the_failure_needs():
    with applied("commit_past_a_failure"):
        kinds = ((seed, kind_of(draw(seed))) for seed in range(100))
        seed = next(seed for seed, kind in kinds if kind == "commit past unfinished")
        small = shrink(draw(seed), "commit past unfinished")
        with pytest.raises(Violation) as caught:
            run(small)
    assert caught.value.kind == "commit past unfinished"
    assert (small.members, small.producers, small.brokers, small.faults) == (1, 1, 1, ())
    assert small.messages < draw(seed).messages
    assert "commits" in caught.value.trace[-1]


def test_cutting_down_keeps_the_fault_that_the_failure_needs():
    scenario = next(draw(s) for s in range(1000) if len(draw(s).faults) > 3)
    needed = scenario.faults[1]
    small = shrink(scenario, "made up", lambda s: "made up" if needed in s.faults else None)
    assert small.faults == (needed,)
    assert small.messages == 1


@pytest.mark.parametrize("engine", ["async", "process"])
def test_handlers_of_every_kind_are_replayed_byte_for_byte(engine):
    seed = next(s for s in range(1000) if draw(s).engine == engine and draw(s).failing)
    assert replay(seed) == replay(seed)


def test_each_path_has_a_name_and_a_mutation_of_its_own():
    assert len(PATHS_BY_NAME) == len(PATHS) > 25
    assert len({path.mutation for path in PATHS}) == len(PATHS)
    assert all(path.mutation in MUTATIONS for path in PATHS)


def test_paths_that_hardly_any_history_takes_are_told():
    everything = frozenset(PATHS_BY_NAME)
    paths = dict.fromkeys(range(2000), everything)
    assert not rare(paths)
    for seed in range(1985):
        paths[seed] = everything - {"a pause"}
    assert rare(paths) == ["a pause"]
    assert not rare(dict.fromkeys(range(100), frozenset()))  # too few to tell


@pytest.mark.parametrize("name", ["a worker process died", "kept and rolled back", "a pause"])
def test_a_path_shows_what_nothing_else_shows(name, played):
    made = check(PATHS_BY_NAME[name], played.paths, {})
    assert made.ok
    assert PATHS_BY_NAME[name].name in played.paths[made.caught[0]]


def test_a_mutation_that_shows_without_its_path_does_not_prove_it(played):
    path = Path_("a pause", None, "commit_past_a_failure")
    made = check(path, played.paths, {})
    assert made.elsewhere
    assert not made.ok
    assert not check(Path_("a walk", None, "commit_past_a_failure"), played.paths, {}).ok


def test_a_new_generation_of_a_topic_is_judged_for_itself():
    def of_the_new(events):
        lanes = by_queue(events, lanes=True)
        deleted = any(lane[0].topic != TOPIC for lane in lanes)
        present = (of for lane, of in lanes.items() if lane[0].topic == TOPIC)
        return next(filter(None, map(neighbours, present)), None) if deleted else None

    def swap(events):
        one, two = of_the_new(events)
        events[one], events[two] = events[two], events[one]

    for scenario in map(draw, range(5000)):
        found = []
        if any(fault.kind == "topic anew" for fault in scenario.faults):
            judged(scenario, lambda events: found.append(of_the_new(events)))  # noqa: B023
        if any(found):
            break
    assert judged(scenario, lambda events: None) is None
    assert judged(scenario, swap) == "order"
