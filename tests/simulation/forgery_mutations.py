"""Defects of seals, as `mutations` lists them: they show where somebody forges records."""

from orderly.ordering import parking
from orderly.protocol import park_record
from orderly.protocol.record_format import Seal


def believe_any_seal(set_):
    """A record is believed with any seal."""
    set_(Seal, "accepts", lambda self, queue, message: True)


def seal_for_any_queue(set_):
    """A seal does not name its queue."""
    mac = Seal._mac

    def anywhere(self, secret, queue, *content):
        return mac(self, secret, type(queue)("t", "b", 0), *content)

    set_(Seal, "_mac", anywhere)


def believe_any_head(set_):
    """Of a parked message the last copy counts, as its head says that it is stored."""
    set_(park_record, "is_stored_as", lambda *_: True)
    set_(parking, "_content", lambda *_: 0)


FORGERY_MUTATIONS = (
    believe_any_head,
    believe_any_seal,
    seal_for_any_queue,
)
