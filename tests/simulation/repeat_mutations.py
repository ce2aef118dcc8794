"""Defects about repeated sends, of producers and consumers, as `mutations` lists them."""

from zlib import crc32

from orderly.consumer import copies, puller
from orderly.consumer.finishing import Finisher
from orderly.consumer.puller import Puller
from orderly.consumer.rebalancer import Taker
from orderly.errors import OrderlyError
from orderly.ordering import repeats
from orderly.ordering.outbox import OutboxBatch
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.repeats import Repeats
from orderly.ordering.results import Disposition
from orderly.producer import sender

# --- what a producer sends again -----------------------------------------------------------------


def draw_a_new_born_time_for_each_attempt(set_):
    """A message that is sent again has another born time."""
    set_(OutboxBatch, "born", lambda self, now: int(now * 1000))


def send_again_without_the_mark(set_):
    """Further attempts of a send look like the first one."""
    set_(sender, "marked", lambda text, attempt, born: text)


# --- what is a repeat -----------------------------------------------------------------------------


def _by_id(message, checksum):
    return crc32(message.message_id.encode())


def take_an_equal_id_for_a_copy(set_):
    """Who has the id of a message before it is a repeat, whoever sent it: no mark is asked for."""

    def all_of_them(self, reply):
        return list(reply.messages)

    set_(Puller, "_sent_again", all_of_them)
    set_(repeats, "_identity", _by_id)


def take_a_marked_id_for_a_copy(set_):
    """Of a marked message the id alone counts: not its born time, nor its body."""
    set_(repeats, "_identity", _by_id)


def never_look_for_copies(set_):
    """A marked message is taken for the first of its kind."""
    set_(Puller, "_sent_again", lambda self, reply: [])


def look_at_what_is_marked_only(set_):
    """A first attempt that comes late, without a mark, is no repeat."""
    set_(Repeats, "_in_book", lambda self, message: None)


def believe_an_index_that_is_late(set_):
    """What a broker's index does not know is not there."""
    read = copies._read

    def one(brokers, everything, start, end):
        return read(brokers, everything, start, end) if end == start + 1 else iter(())

    set_(copies, "_read", one)


def believe_an_index_of_a_former_topic(set_):
    """What the index finds at an offset is there, also if the topic was made anew since."""
    in_index, read = copies._in_index, copies._read
    found = {}

    def remember(brokers, query, message, seen):
        for copy in in_index(brokers, query, message, seen):
            found[copy.queue, copy.queue_offset] = copy
            yield copy

    def believe(brokers, everything, start, end):
        known = found.get((everything.queue, start)) if end == start + 1 else None
        return iter((known,)) if known else read(brokers, everything, start, end)

    set_(copies, "_in_index", remember)
    set_(copies, "_read", believe)


def take_silence_for_no_copy(set_):
    """If nobody answers where copies are, there are none."""
    before = copies.copies_before

    def found(brokers, query, marked, floor):
        try:
            return before(brokers, query, marked, floor)
        except OrderlyError:
            return dict.fromkeys(message.queue_offset for message in marked)

    set_(puller, "copies_before", found)


def count_copies_below_what_was_asked_for(set_):
    """Of what somebody asked for again, a copy of something before it is left out."""
    set_(Taker, "_repeats", lambda self, queue, inherited: _book_of(inherited, 0))


def take_the_first_copy_of_all(set_):
    """One below what was asked for hides the next one, which counts."""
    before = copies.copies_before

    def found(brokers, query, marked, floor):
        return before(brokers, query, marked, 0)

    set_(puller, "copies_before", found)


# --- who knows of it ------------------------------------------------------------------------------


def _book_of(inherited, floor):
    return Repeats(floor, inherited.sent_again)


def forget_marks_at_a_hand_over(set_):
    """An heir does not know which marked messages are finished."""
    set_(OwnedQueue, "sent_again", property(lambda self: ()))


def enter_copies_that_are_not_finished(set_):
    """A marked message is on record as soon as it is pulled."""
    set_(OwnedQueue, "sent_again", property(lambda self: self.repeats.book))


def keep_the_book_of_a_former_topic(set_):
    """Marked messages of a topic that was deleted count when it is there again."""

    def of_all(self):
        book = self.repeats.book if self.dropped is Drop.RECREATED else ()
        return book or sent_again.fget(self)

    sent_again = OwnedQueue.sent_again
    set_(OwnedQueue, "sent_again", property(of_all))


def leave_marks_out_of_a_new_record(set_):
    """An heir knows them, and writes none of them on record again."""
    set_(Taker, "_repeats", lambda self, queue, inherited: Repeats(inherited.floor))


# --- what becomes of a repeat ---------------------------------------------------------------------


def hand_repeats_out_in_a_batch(set_):
    """Only the first message of a batch is looked at."""

    def set_apart(self, batch):
        first = batch.messages[0].queue_offset in self.repeats.firsts
        batch.repeats = self._repeated(batch.messages[0], batch.lane) if first else None
        if batch.repeats is not None:
            self.messages.narrow(batch, 1)
            batch.began = None

    set_(OwnedQueue, "_set_apart", set_apart)


def commit_with_a_repeat_what_is_kept(set_):
    """A repeat is finished at once, and with it what a handler keeps before it."""
    apply = Finisher._apply

    def pass_over(self, held, batch):
        apply(self, held, batch, Disposition.COMMIT)

    set_(Finisher, "pass_over", pass_over)


def park_repeats(set_):
    """What waits behind a parked message is parked, repeats of it, too."""
    set_(OwnedQueue, "no_repeats", lambda self, lane: list(lane.messages.taken))


REPEAT_MUTATIONS = (
    draw_a_new_born_time_for_each_attempt,
    send_again_without_the_mark,
    take_an_equal_id_for_a_copy,
    take_a_marked_id_for_a_copy,
    never_look_for_copies,
    look_at_what_is_marked_only,
    believe_an_index_that_is_late,
    believe_an_index_of_a_former_topic,
    take_silence_for_no_copy,
    count_copies_below_what_was_asked_for,
    take_the_first_copy_of_all,
    forget_marks_at_a_hand_over,
    keep_the_book_of_a_former_topic,
    enter_copies_that_are_not_finished,
    leave_marks_out_of_a_new_record,
    hand_repeats_out_in_a_batch,
    commit_with_a_repeat_what_is_kept,
    park_repeats,
)
