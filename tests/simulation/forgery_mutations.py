"""Defects of seals, as `mutations` lists them: they show where somebody forges records."""

from orderly.consumer.parking import commands
from orderly.ordering.parking import rebuild
from orderly.protocol.seal import Seal


def believe_any_seal(set_):
    """A record is believed whatever its seal says."""
    set_(Seal, "accepts", lambda self, queue, message: True)


def seal_for_any_queue(set_):
    """A seal does not say for which queue it is."""
    mac = Seal._mac

    def anywhere(self, secret, queue, *content):
        return mac(self, secret, type(queue)("t", "b", 0), *content)

    set_(Seal, "_mac", anywhere)


def seal_the_body_only(set_):
    """A seal does not cover the properties, in which a parked message is described."""
    mac = Seal._mac

    def of_body(self, secret, queue, told, properties, body):
        return mac(self, secret, queue, told, {}, body)

    set_(Seal, "_mac", of_body)


def take_a_line_for_new(set_):
    """A command or a tombstone that is appended again counts as if it had just been written."""
    for module in (rebuild, commands):
        set_(module, "written_behind", lambda message: message.queue_offset)


FORGERY_MUTATIONS = (
    believe_any_seal,
    seal_for_any_queue,
    seal_the_body_only,
    take_a_line_for_new,
)
