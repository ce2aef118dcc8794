"""The labelled corpus: which messages are bad, and what else goes wrong. Times in seconds."""

from benchmarks import poison_faults as f
from benchmarks.poison_simulation import (
    AFTER_OUTAGE,
    FEW,
    NAMED,
    PATIENT,
    PROMPT,
    Bad,
    Late,
    Scenario,
    Trouble,
)

ALWAYS = 1e9


def one_of(parts, part=0):
    return lambda key: key % parts == part


def down(raises, start=120, end=720, **more):
    return Trouble(raises, start, end, **more)


LONE = [
    Scenario("bad payload", (Bad(f.bad_json),)),
    Scenario(
        "bad payload, its class is named fatal", (Bad(f.bad_json, budget=PROMPT),), fatal=NAMED
    ),
    Scenario("missing field", (Bad(f.missing_field),)),
    Scenario("undecodable bytes", (Bad(f.bad_text),)),
    Scenario("failed assertion", (Bad(f.assertion),)),
    Scenario("duplicate row", (Bad(f.duplicate),)),
    Scenario("error text changes each time", (Bad(f.other_words),)),
    Scenario(
        "failure changes each time",
        (Bad(f.other_failures, budget=PATIENT),),
        seconds=1_500,
    ),
    Scenario("endless recursion", (Bad(f.deep),), seconds=400),
    Scenario("memory error, wrapped", (Bad(f.huge),)),
    Scenario("memory error", (Bad(f.out_of_memory),)),
    Scenario("exception group of tasks", (Bad(f.of_tasks),)),
    Scenario(
        "query of death: always a time-out", (Bad(f.timed_out, budget=PATIENT),), seconds=1_500
    ),
    Scenario("peer resets on one message", (Bad(f.reset, budget=PATIENT),), seconds=1_500),
    Scenario("HTTP 400 for one message", (Bad(f.bad_request),)),
    Scenario("one bad key of 400", (Bad(f.bad_value),), keys=400, rate=20, seconds=400),
]

SEVERAL = [
    Scenario(
        "three bad payloads of one producer at once", (Bad(f.bad_value, (3, 9, 21), budget=FEW),)
    ),
    Scenario(
        "three of a named class at once",
        (Bad(f.bad_value, (3, 9, 21), budget=FEW),),
        fatal=NAMED,
    ),
    Scenario(
        "three bad payloads, five minutes apart",
        tuple(Bad(f.bad_value, (key,), 60 + 300 * key, budget=1_200) for key in range(3)),
        seconds=2_000,
    ),
    Scenario(
        "four different bad messages at once",
        tuple(
            Bad(raises, (key,))
            for key, raises in enumerate((f.bad_json, f.missing_field, f.assertion, f.duplicate))
        ),
    ),
    Scenario("twenty bad payloads at once", (Bad(f.bad_value, tuple(range(20)), held=True),)),
    Scenario(
        "twenty of a named class at once",
        (Bad(f.bad_value, tuple(range(20)), budget=PATIENT, held=True),),
        seconds=1_500,
        fatal=NAMED,
    ),
    Scenario(
        "twenty bodies that cannot be decoded at once",
        (Bad(f.undecodable, tuple(range(20)), budget=PROMPT),),
    ),
    Scenario(
        "bodies that cannot be decoded in a dead database",
        (Bad(f.undecodable, tuple(range(5)), 200, budget=PROMPT), down(f.dead_database)),
    ),
]

FEW_KEYS = [
    Scenario("one key only: bad payload", (Bad(f.bad_json, (0,)),), keys=1, rate=0.5),
    Scenario(
        "one key only: dead database, connection errors", (down(f.refused),), keys=1, rate=0.5
    ),
    Scenario(
        "one key only: dead database, driver's class", (down(f.dead_database),), keys=1, rate=0.5
    ),
    Scenario("two keys: one bad payload", (Bad(f.bad_json, (0,)),), keys=2, rate=0.5),
    Scenario("two keys: dead database", (down(f.dead_database),), keys=2, rate=0.5),
    Scenario("four keys: one bad payload", (Bad(f.bad_json, (0,)),), keys=4, rate=1),
    Scenario("four keys: dead database", (down(f.dead_database),), keys=4, rate=1),
]

OUTAGES = [
    Scenario("dead database, driver's class", (down(f.dead_database),)),
    Scenario("dead database, connection errors", (down(f.refused),)),
    Scenario(
        "dead database for an hour", (down(f.dead_database, 60, 3_660),), rate=2, seconds=4_000
    ),
    Scenario("dead database from the start", (down(f.dead_database, 0, 600),)),
    Scenario("dead database, errors of four kinds", (down(f.changing_outage),)),
    Scenario("dead database, slow traffic", (down(f.dead_database),), rate=0.3, seconds=1_500),
    Scenario("disk full", (down(f.disk_full),)),
    Scenario("names do not resolve", (down(f.no_name, 120, 300),)),
    Scenario("bad deploy fails everything", (down(f.wrong_type),)),
    Scenario("bad deploy fails everything, class named fatal", (down(f.wrong_type),), fatal=NAMED),
    Scenario("bad deploy from the start, class named fatal", (down(f.wrong_type, 0),), fatal=NAMED),
    Scenario("bad deploy fails one kind of key", (down(f.wrong_attribute, keys=one_of(5)),)),
    Scenario(
        "bad deploy fails one kind of key, class named fatal",
        (down(f.wrong_type, keys=one_of(5)),),
        fatal=NAMED,
    ),
    Scenario(
        "bad deploy fails every tenth message",
        (down(f.wrong_attribute, kind=lambda message: message.offset % 10 == 0),),
    ),
    Scenario("expired credentials", (down(f.unauthorized, 120, 420),)),
    Scenario(
        "credentials expire each ten minutes, for 30 s",
        (down(f.unauthorized, 0, ALWAYS, up_of=(570, 600)),),
        seconds=1_800,
    ),
    Scenario("quota: 429 for 20 s of each minute", (down(f.too_many, up_of=(40, 60)),)),
    Scenario("flapping network: 20 s of each minute", (down(f.reset, up_of=(40, 60)),)),
    Scenario("slow start", (Trouble(f.unavailable, 0, 45, 0.7),), seconds=400),
    Scenario("time-outs, four of five", (down(f.timed_out, 120, 420, chance=0.8),)),
    *(
        Scenario(f"partial outage, {percent} %", (down(f.dead_database, chance=percent / 100),))
        for percent in (10, 30, 60, 90)
    ),
    Scenario("deadlocks, one try in twenty", (Trouble(f.deadlock, 0, ALWAYS, 0.05),), rate=12),
    Scenario(
        "one message in ten hits a hot row, nine of ten tries deadlock",
        (Trouble(f.deadlock, 0, ALWAYS, 0.9, kind=lambda message: message.offset % 10 == 0),),
    ),
]

TENANTS = [
    Scenario(
        "one bad tenant: a fifth of the keys", (down(f.missing_field, 120, ALWAYS, keys=one_of(5)),)
    ),
    Scenario("dependency of one tenant down", (down(f.unavailable, keys=one_of(5)),)),
    Scenario(
        "dependency of one tenant down, slow traffic",
        (down(f.unavailable, 120, 2_400, keys=one_of(5)),),
        rate=0.5,
        seconds=3_000,
    ),
    Scenario(
        "one shard of four down",
        (down(f.dead_database, 120, 1_200, keys=one_of(4)),),
        seconds=1_500,
    ),
]

PASSING = [
    Scenario("clock skew: dated 20 s ahead", (Late(f.too_early, (3, 4, 5), 20),)),
    Scenario("clock skew: dated 2 minutes ahead", (Late(f.too_early, (3,), 120),)),
    Scenario(
        "the row comes 45 s later", (Late(f.not_yet, (3,), 45), Late(f.not_yet, (9,), 45, 300))
    ),
    Scenario(
        "a batch job locks one row for ten minutes", (Late(f.timed_out, (3,), 600),), seconds=1_200
    ),
]

MIXED = [
    Scenario(
        "bad payload during a dead database, found before it",
        (Bad(f.bad_json, start=200, budget=AFTER_OUTAGE, after=720), down(f.dead_database)),
        seconds=1_200,
    ),
    Scenario(
        "bad message during a dead database, found behind it",
        (down(f.dead_database), Bad(f.bad_value, start=200, budget=AFTER_OUTAGE, after=720)),
        seconds=1_200,
    ),
    Scenario(
        "bad payload of a named class during a dead database",
        (Bad(f.bad_value, start=200, budget=AFTER_OUTAGE, after=720), down(f.dead_database)),
        fatal=NAMED,
        seconds=1_200,
    ),
    Scenario(
        "bad payload during a partial outage of 30 %",
        (Bad(f.bad_json, start=200), down(f.dead_database, chance=0.3)),
    ),
    Scenario(
        "HTTP 400 for one message while 503 comes and goes",
        (Bad(f.bad_request, start=200), down(f.unavailable, chance=0.3)),
    ),
    Scenario(
        "bad query where others deadlock",
        (Bad(f.bad_query), Trouble(f.deadlock, 0, ALWAYS, 0.05)),
    ),
    Scenario(
        "bad payload, then a dead database, then another",
        (
            Bad(f.bad_json),
            down(f.dead_database, 200, 500),
            Bad(f.bad_value, (11,), 560),
        ),
        seconds=1_200,
    ),
    Scenario(
        "bad payload in a bad deploy",
        (Bad(f.bad_json, start=130, budget=AFTER_OUTAGE, after=720), down(f.wrong_attribute)),
        seconds=1_200,
    ),
]

CORPUS = {
    "lone bad messages": LONE,
    "several bad messages": SEVERAL,
    "few keys": FEW_KEYS,
    "outages": OUTAGES,
    "tenants": TENANTS,
    "temporary failures": PASSING,
    "both at once": MIXED,
}
