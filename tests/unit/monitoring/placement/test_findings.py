from orderly.model import Message
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement.findings import judge
from orderly.monitoring.placement.sightings import Sightings
from orderly.selectors import KEYED, parse_layout, queues_of

LAYOUT = parse_layout("broker-a:8")
QUEUES = queues_of(LAYOUT, "T")
KEYS = [f"order-{number}" for number in range(50)]


def judged(*parts, keyless=0, layout=LAYOUT):
    """Each part: the selector's name (None: by hand, all into the first queue), and keys."""
    seen = Sightings()
    for name, keys in parts:
        for key in keys:
            queue = (
                QUEUES[0] if name is None else KEYED[name].selector(QUEUES, Message("T", b""), key)
            )
            seen.add(key, queue, 0.0)
    for _ in range(keyless):
        seen.add(None, QUEUES[0], 0.0)
    return judge(layout, "T", seen)


def said(found):
    return " ".join(found.say())


def test_all_by_one_selector_is_fine():
    found = judged(("go_hash_mod", KEYS))
    assert (found.verdict, found.mixed) == (Verdict.OK, False)
    assert "Each of 50 keys was seen in one queue." in said(found)
    assert "All keys lie where go_hash_mod (Go's NewHashQueueSelector) puts them." in said(found)


def test_a_key_in_two_queues_is_a_finding_and_each_place_has_its_selector():
    found = judged(("hash_mod", KEYS), ("cpp_hash_mod", KEYS))
    assert found.verdict is Verdict.WARNING
    both = {rules for key in found.split for seen in key for rules in [found.rules_of(seen)]}
    assert both == {("hash_mod",), ("cpp_hash_mod",)}
    assert f"{len(found.split)} keys of 50 were seen in several queues" in said(found)
    assert "hash_mod (Java's SelectMessageQueueByHash; the default here) explains 50" in said(found)


def test_two_placements_are_a_finding_before_a_key_is_split():
    found = judged(("hash_mod", KEYS[:25]), ("proxy_hash", KEYS[25:]))
    assert (found.split, found.verdict) == ((), Verdict.WARNING)
    assert "Producers place keys in different ways" in said(found)


def test_strays_are_told_beside_what_is_explained():
    found = judged(("hash_mod", KEYS), (None, ["stray-a", "stray-b"]))
    assert found.verdict is Verdict.WARNING
    assert {seen.key for seen in found.unexplained} == {"stray-a", "stray-b"}
    assert all(found.rules_of(seen) == () for seen in found.unexplained)
    assert "and nothing known 2" in said(found)


def test_a_selector_of_the_producers_own_is_no_finding():
    found = judged((None, KEYS))
    assert found.verdict is Verdict.OK
    assert "No selector known here explains where they lie" in said(found)


def test_a_selector_that_fits_all_of_too_few_keys_is_named():
    found = judged(("hash_mod", KEYS[:3]))
    assert (found.explained, found.fitting, found.verdict) == ((), ("hash_mod",), Verdict.OK)
    assert (
        "hash_mod (Java's SelectMessageQueueByHash; the default here) puts all of them there, which"
        " may be chance: 3 keys are too few to tell."
    ) in said(found)
    assert "No selector known" not in said(found)


def test_a_key_that_no_selector_puts_there_fits_none():
    found = judged(("hash_mod", KEYS[:3]), (None, ["stray"]))
    assert found.fitting == ()
    assert "No selector known here explains where they lie" in said(found)


def test_nothing_can_be_said_without_keys():
    found = judged(keyless=3)
    assert found.verdict is Verdict.UNKNOWN
    assert said(found).startswith("None of 3 messages that could be read has a sharding key")
    some = judged(("hash_mod", KEYS), keyless=1)
    assert "1 message of 51 without a sharding key left out" in said(some)


def test_a_single_queue_has_nothing_to_tell():
    found = judged((None, KEYS), layout=parse_layout("broker-a:1"))
    assert found.verdict is Verdict.OK
    assert "The topic has one queue" in said(found)


def test_what_lies_as_before_the_topic_grew_is_told_so():
    grown = parse_layout("broker-a:12")
    seen = Sightings()
    for layout in (LAYOUT, grown):
        for key in KEYS:
            queue = KEYED["hash_mod"].selector(queues_of(layout, "T"), Message("T", b""), key)
            seen.add(key, queue, 0.0)
    found = judge(grown, "T", seen)
    assert {each.queues for each in found.explained} == {12, 8}
    assert "with 8 queues as before" in said(found)
