"""One row per key in a real database: what holds in theory must hold between real transactions."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from orderly.errors import ConfigError, LockLost, QueueRecreated
from orderly.once import Once, Verdict
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message
from tests.support.optional import param
from tests.support.programs import postgresql

DATABASES = ["sqlite", param("postgresql", "postgresql")]
LEVELS = [("sqlite", "SERIALIZABLE")] + [
    pytest.param("postgresql", level, marks=pytest.mark.needs("postgresql"))
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
]


@pytest.fixture(scope="module")
def server():
    """PostgreSQL's URL, once it is asked for."""
    with contextlib.ExitStack() as stack:
        url = []

        def start():
            if not url:
                url.append(stack.enter_context(postgresql()))
            return url[0]

        yield start


@pytest.fixture
def make_engine(server, tmp_path):
    """An engine with an empty table and a counter at 0."""
    with contextlib.ExitStack() as stack:

        def make(name, **how):
            url = server() if name == "postgresql" else f"sqlite:///{tmp_path}/once.db"
            engine = sa.create_engine(url, **how)
            stack.callback(engine.dispose)
            once = Once()
            once.metadata.drop_all(engine)
            once.metadata.create_all(engine)
            with engine.begin() as db:
                db.execute(sa.text("DROP TABLE IF EXISTS counter"))
                db.execute(sa.text("CREATE TABLE counter (n INTEGER)"))
                db.execute(sa.text("INSERT INTO counter VALUES (0)"))
            return engine

        yield make


@pytest.fixture(params=DATABASES)
def engine(request, make_engine):
    return make_engine(request.param)


def sent(offset, key="a", **fields):
    made = message(offset, key)
    made.properties["UNIQ_KEY"] = fields.pop("id", made.message_id)
    return replace(made, **fields)


def owner(token=1, generation=0, **settings):
    ownership = SimpleNamespace(token=token, generation_of=lambda key, replayed: generation)
    return ConsumeContext(QUEUE, "g", ownership=ownership, **settings)


def add(db):
    db.execute(sa.text("UPDATE counter SET n = n + 1"))


def counted(engine):
    with engine.connect() as db:
        return db.execute(sa.text("SELECT n FROM counter")).scalar_one()


def handle(once, engine, message, context):
    """What a handler does; returns the verdict."""
    with engine.begin() as db:
        if verdict := once.apply(db, message, context):
            add(db)
    return verdict


def test_an_effect_is_had_once_whatever_comes_again(engine):
    once = Once()
    came = [sent(0), sent(3), sent(3), sent(0), sent(4, id="id-3"), sent(5), sent(0, key="b")]
    verdicts = [handle(once, engine, each, owner()) for each in came]
    assert [verdict.value for verdict in verdicts] == [
        "apply", "apply", "repeat", "repeat", "duplicate", "apply", "apply",
    ]  # fmt: skip
    assert counted(engine) == 4


def test_a_failed_effect_is_had_when_the_message_comes_again(engine):
    once = Once()
    for offset in (0, 1):  # a new row, and one that is there
        with engine.connect() as db:
            assert once.apply(db, sent(offset), owner())
            add(db)
            db.rollback()
        assert handle(once, engine, sent(offset), owner()) is Verdict.APPLY
    assert counted(engine) == 2


def test_a_stale_owner_is_refused_and_changes_nothing(engine):
    once = Once()
    handle(once, engine, sent(0), owner(token=8))
    with pytest.raises(LockLost, match="token 7"):
        handle(once, engine, sent(1), owner(token=7))
    assert handle(once, engine, sent(1), owner(token=8)) is Verdict.APPLY
    assert counted(engine) == 2


def test_a_topic_made_anew_is_not_taken_for_repeats(engine):
    handle(Once(), engine, sent(90, store_time=100.0), owner())
    anew = sent(0, id="new", store_time=200.0)
    with pytest.raises(QueueRecreated, match="generation=1"):
        handle(Once(), engine, anew, owner())
    assert handle(Once(), engine, anew, owner(generation=1)) is Verdict.APPLY, "by key it is known"
    assert handle(Once(generation=2), engine, anew, owner()) is Verdict.APPLY


def test_by_queue_there_is_no_token_and_offsets_suffice(engine):
    once = Once()
    verdicts = [handle(once, engine, sent(n), owner(token=None)) for n in (0, 0, 1)]
    assert verdicts == [Verdict.APPLY, Verdict.REPEAT, Verdict.APPLY]


def test_a_batch_is_one_transaction(engine):
    once = Once()
    with engine.begin() as db:
        assert [bool(once.apply(db, sent(n), owner())) for n in (0, 1, 1, 2)] == [1, 1, 0, 1]


def test_the_row_is_found_by_every_part_of_its_name(engine):
    for once in (Once(), Once(cluster="c"), Once(generation=1), Once(redact=True)):
        assert handle(once, engine, sent(0), owner()) is Verdict.APPLY
    assert handle(Once(), engine, sent(0), owner(key=("a", 1))) is Verdict.APPLY


def test_a_redacted_key_is_not_stored(engine):
    handle(once := Once(redact=True), engine, sent(0, key="alice@example.org"), owner())
    with engine.connect() as db:
        assert "alice" not in str(db.execute(sa.select(once.table)).all())


@pytest.mark.parametrize("key", ["ü" * 5000, "a\0b", "\ud800", b"\x00\xff", 2**80])
def test_any_key_can_be_stored(engine, key):
    once = Once()
    verdicts = [handle(once, engine, sent(0), owner(key=key)) for _ in range(2)]
    assert verdicts == [Verdict.APPLY, Verdict.REPEAT]


def test_it_works_in_a_session_of_the_orm(engine):
    once = Once()
    for expected in (Verdict.APPLY, Verdict.REPEAT):
        with Session(engine) as session, session.begin():
            assert once.apply(session.connection(), sent(0), owner()) is expected


def test_autocommit_is_refused(engine):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        with pytest.raises(ConfigError, match="AUTOCOMMIT"):
            Once().apply(db, sent(0), owner())
        assert db.execute(sa.select(Once().table)).all() == []


def test_another_database_is_refused(monkeypatch):
    with sa.create_engine("sqlite://").connect() as db:
        monkeypatch.setattr(db.dialect, "name", "mysql")
        with pytest.raises(ConfigError, match="mysql"):
            Once().apply(db, sent(0), owner())


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_owners_at_the_same_time_have_each_effect_once(make_engine, name, level):
    """Four members believe they own the key and handle the same messages, as fast as they can."""
    engine, once, start = make_engine(name, isolation_level=level), Once(), threading.Barrier(4)

    def member(_):
        verdicts = []
        start.wait()
        while len(verdicts) < 25:
            with contextlib.suppress(DBAPIError):  # refused or locked out: it comes again
                verdicts.append(handle(once, engine, sent(len(verdicts)), owner()))
        return verdicts

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(member, range(4)))
    assert counted(engine) == 25
    for verdicts in zip(*found, strict=True):
        assert sorted(v.value for v in verdicts) == ["apply", "repeat", "repeat", "repeat"]


@pytest.mark.parametrize("name", DATABASES)
@pytest.mark.parametrize("seen", [False, True], ids=["new-row", "row-there"])
def test_a_new_owner_waits_for_the_old_ones_transaction(make_engine, name, seen):
    engine, once = make_engine(name), Once()
    if seen:
        handle(once, engine, sent(0), owner(token=1))
    with ThreadPoolExecutor(1) as pool, engine.begin() as db:
        assert once.apply(db, sent(1), owner(token=1))
        add(db)
        heir = pool.submit(handle, once, engine, sent(1), owner(token=2))
        with pytest.raises(TimeoutError):
            heir.result(0.3)
        db.commit()
        assert heir.result(30) is Verdict.REPEAT
    assert counted(engine) == 1 + seen


@pytest.mark.parametrize("name", DATABASES)
def test_async_engines_do_the_same(make_engine, name):
    url = make_engine(name).url
    driver = "sqlite+aiosqlite" if name == "sqlite" else url.drivername

    async def act():
        engine, once, verdicts = create_async_engine(url.set(drivername=driver)), Once(), []
        for each in (sent(0), sent(0), sent(1)):
            async with engine.begin() as db:
                verdicts.append(await once.apply_async(db, each, owner()))
        with pytest.raises(LockLost):
            async with engine.begin() as db:
                await once.apply_async(db, sent(2), owner(token=0))
        async with engine.connect() as db:
            await db.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(ConfigError, match="AUTOCOMMIT"):
                await once.apply_async(db, sent(3), owner())
        await engine.dispose()
        return verdicts

    assert asyncio.run(act()) == [Verdict.APPLY, Verdict.REPEAT, Verdict.APPLY]
