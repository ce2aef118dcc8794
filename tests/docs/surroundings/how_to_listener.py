"""docs/how-to/listener.md: a carrier, and a database for effects once."""

from sqlalchemy import create_engine

from orderly.once import Once
from tests.docs.standins import Recorder

TOPICS = {"orders": 4}
carrier = Recorder()
carrier.Busy = type("Busy", (Exception,), {})
engine = create_engine("sqlite:///shop.db")
once = Once()
once.metadata.create_all(engine)


def after(page, block):
    if "once.apply" in block.text:
        page.send("orders", "order-1", b"paid")
        page.consume("booking", "orders", page.names["book"], order="key")
        page.finished("booking", "orders")
        with engine.connect() as db:
            assert db.exec_driver_sql("SELECT count(*) FROM orderly_once").scalar() == 1


def check(page):
    engine.dispose()
    assert carrier.calls == []
