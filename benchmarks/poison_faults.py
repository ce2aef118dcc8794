"""How handlers fail: real exceptions out of real code, with the message's own values in their text.

Each takes (message, draw) and raises; `draw` is a seeded random. Classes stand for those of drivers
and HTTP clients, which carry what theirs carry: a number, or nothing but a text.
"""

import errno
import json
import socket

from orderly.errors import UndecodableBody


class BadPayload(Exception):
    """What a careful handler raises by itself."""


class OperationalError(Exception):
    """As a database driver's: one class for lost connections, deadlocks and much else."""


class IntegrityError(Exception):
    """As a database driver's."""


class NotFound(Exception):
    """A row that is not there (yet)."""


class StatusError(Exception):
    """As an HTTP client's: one class and one place for every status."""

    def __init__(self, text, status_code):
        super().__init__(text)
        self.status_code = status_code


def bad_json(message, draw):
    json.loads(f"{{'order': {message.offset}")


def missing_field(message, draw):
    return {f"amount-{message.offset}": 1}["amount"]


def undecodable(message, draw):
    raise UndecodableBody(f"message {message.offset} is no JSON")


def bad_value(message, draw):
    raise BadPayload(f"amount {draw.random()} of order {message.offset} is below zero")


def bad_text(message, draw):
    return bytes([0xC3, draw.randrange(0x20, 0x7F)]).decode()


def other_words(message, draw):
    words = ("late", "lost", "void", "null", "open", "shut")
    raise BadPayload(f"order is {draw.choice(words)} and {draw.choice(words)} at {draw.random()}")


def other_failures(message, draw):
    draw.choice((bad_json, missing_field, bad_value, bad_text))(message, draw)


def assertion(message, draw):
    amount = -message.offset - 1
    assert amount >= 0, f"negative amount {amount}"


def deep(message, draw):
    return deep(message, draw)


def huge(message, draw):
    try:
        return bytearray(2**62)
    except MemoryError as error:
        raise BadPayload(f"message {message.offset} needs too much") from error


def out_of_memory(message, draw):
    return bytearray(2**62)


def of_tasks(message, draw):
    errors = []
    for fault in draw.sample((bad_json, missing_field), 2):
        try:
            fault(message, draw)
        except Exception as error:  # noqa: BLE001 - as a consumer does
            errors.append(error)
    raise ExceptionGroup(f"{len(errors)} tasks of {message.offset}", errors)


def duplicate(message, draw):
    raise IntegrityError(f"UNIQUE constraint failed: order {message.offset}")


def wrong_type(message, draw):
    return message.offset + str(message.key)


def wrong_attribute(message, draw):
    return message.customer


def refused(message, draw):
    text = f"connect to 10.0.{draw.randrange(9)}.7:5432 refused"
    raise ConnectionRefusedError(errno.ECONNREFUSED, text)


def reset(message, draw):
    raise ConnectionResetError(errno.ECONNRESET, f"reset by peer after {message.offset} bytes")


def timed_out(message, draw):
    raise TimeoutError(f"no answer for {message.key} within {draw.random():.2f} s")


def no_name(message, draw):
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def disk_full(message, draw):
    raise OSError(errno.ENOSPC, "No space left on device", f"/data/{message.offset}")


def query(text):
    raise OperationalError(text)


def dead_database(message, draw):
    query(f"server closed the connection unexpectedly, backend {draw.randrange(10**6)}")


def deadlock(message, draw):
    query(f"deadlock detected: process {draw.randrange(10**6)} waits for {draw.randrange(10**6)}")


def bad_query(message, draw):
    query(f"value too long for type character({message.offset})")


def respond(status):
    raise StatusError(f"HTTP status {status} for https://api.example/orders", status)


def bad_request(message, draw):
    respond(400)


def unauthorized(message, draw):
    respond(401)


def too_many(message, draw):
    respond(429)


def unavailable(message, draw):
    respond(503)


def not_yet(message, draw):
    raise NotFound(f"order {message.offset} does not exist")


def too_early(message, draw):
    raise BadPayload(f"event of {message.key} is {draw.random():.3f} s in the future")


def changing_outage(message, draw):
    draw.choice((refused, timed_out, dead_database, unavailable))(message, draw)
