"""PURE: the sentence that a person reads on a terminal for each event.

Braces hold fields of the event. `sentence` adds the rest: the failure's text, the hint, and where
it happened (group, queue, offset, key, attempt). docs/reference/events.md has the same events with
all their fields, and what to do about each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SENTENCES: Mapping[str, str] = {
    # messages and keys
    "message.undecodable": "the body of a message cannot be read: {why}",
    "message.too_large": "the next message is larger than max_frame ({max_frame} bytes), so its"
    " queue waits: set ClientConfig.max_frame higher",
    "message.retry": "a message failed; it is tried again in {seconds} s",
    "message.retry_put_off": "a retry waits because the queue's lock was not renewed",
    "message.poison": "a bad message was found ({because}); on_poison says {outcome}",
    "message.blocked": "a bad message blocks its key or queue; it is tried again in {seconds} s",
    "message.skipped": "a bad message was skipped",
    "message.repeat_skipped": "a repeated send of the message at offset {first} was left out",
    "message.replay_failed": "a parked message failed again",
    "message.dead_lettered": "a message was stored as a dead letter",
    "message.not_dead_lettered": "a dead letter was not stored; its message waits",
    "message.expiring": "a message is not handled yet, and the broker will delete it in"
    " {seconds} s",
    "message.deleted": "the broker deleted {count} messages before they were handled: they are"
    " lost",
    "message.suspected": "a message was being handled when the process died",
    "message.condemned": "the process died too often while it handled one message; no handler"
    " gets the message again",
    "message.consumed_by_hand": "a message was handled on an operator's request",
    "message.not_applied": "the effect of a message was refused: {verdict}",
    "key.suspended": "a key waits {seconds} s",
    "key.parked": "a key is parked: this message and all later ones of the key are set aside",
    "key.released": "a parked key was released; its new messages run as usual",
    "key.release_stopped": "a release stopped; the key stays parked from this message on",
    "key.dropped": "the messages of a parked key were dropped",
    "key_function.raised": "the key function raised an error; the queue waits before the message",
    # parking
    "park.refused": "a key cannot be parked and blocks for {seconds} s: {why}",
    "park.failed": "a key was not parked; it is tried again in {seconds} s",
    "park.kept": "{messages} parked messages were stored again before the broker deletes them",
    "park.expiring": "parked messages were not stored again, and the broker will delete them",
    "park.expired": "{messages} parked messages are lost: the broker deleted them, or they are"
    " damaged",
    "park.retention_unknown": "the broker does not say how long it keeps messages; the consumer"
    " assumes 72 hours",
    "command.taken": "an operator's command begins: {verb}",
    "command.interrupted": "an operator's command was interrupted; it is tried again: {verb}",
    "command.not_read": "the park topic was not read; it is tried again",
    "command.unreadable": "a message in the park topic is not a command; it was ignored",
    # handlers
    "handler.raised": "the handler raised an error; its messages come again",
    "handler.answered_fail": "the handler answered Fail; its messages come again",
    "handler.returned_no_outcome": "the handler returned {answer}, which is not an outcome; its"
    " messages come again",
    "handler.returned_coroutine": "the handler returned a coroutine; its messages come again",
    "handler.wait_too_long": "the handler asked for a wait that is not allowed",
    "handler.answer_misplaced": "the handler answered {answer}, although auto_commit is on",
    "handler.auto_commit_no_bool": "the handler set auto_commit to {value}; its messages come"
    " again",
    "handler.hung": "a handler hangs: it has been running for {seconds} s",
    "process.exits": "a handler hangs, so the process ends with exit code {exit_code}",
    "worker.died": "a worker process died during a handler call (exit code {exit_code})",
    "run.not_started": "no thread or event loop was available; it is tried again",
    "run.failed": "the library failed around a handler call",
    "thread.not_started": "the system starts no more threads; {threads} threads handle the"
    " messages",
    "hook.raised": "the hook {hook!r} raised an error",
    "retry_rule.raised": "a rule of retry= raised an error; it counts as no retry",
    "poison_policy.failed": "on_poison failed to choose an outcome; the message blocks",
    # queues
    "queue.assigned": "this member has the queue, from offset {start} on",
    "queue.begins_behind": "no broker has an offset of the group in this topic, so it begins at"
    " {start}, as consume_from says; earlier messages, from {minimum} on, are not consumed",
    "queue.start_unknown": "it is not known where the queue begins; it is tried again",
    "queue.suspended": "the queue waits {seconds} s",
    "queue.full": "the cache is full of messages that are not committed",
    "queue.span_reached": "nothing more of the queue is pulled: {limit}",
    "queue.given_up": "the queue is given up",
    "queue.release_waits": "the queue is released when its handler ends, which has been running"
    " for {handler_running_seconds} s",
    "queue.release_overdue": "the queue is still locked for a handler that has been running for"
    " {handler_running_seconds} s",
    "queue.unlocked_while_running": "the queue was unlocked while a handler runs: two members can"
    " now handle the key at the same time",
    "queue.not_released": "the queue was not released; it is tried again",
    "queue.released": "the queue is released and its offset saved",
    "queue.left_locked": "the consumer closed while a handler runs; the queue stays locked until"
    " the handler ends, or for up to 60 s after the process",
    "queue.left_behind": "the consumer closed, but the queue's broker did not answer: the queue can"
    " stay locked for 60 s, and what was done from {saved} on can come again",
    "lock.lost": "the lock of the queue is lost; another member can have it",
    "lock.not_renewed": "locks were not renewed; it is tried again",
    "lock.not_taken": "locks were not taken; it is tried again",
    "lock.held_by_another": "another member has locked queues {queue_ids} for {seconds} s so far;"
    " the locks of a dead member are free within {free_within} s",
    "pull.failed": "a pull failed; it is tried again in {retry_in_seconds} s",
    "pull.repeat_failed": "message bodies were not pulled again; it is tried again",
    # offsets and state
    "topic.recreated": "the topic was deleted and created again; the group goes on at {start}",
    "offset.forgotten": "the broker forgot the offset; the queue goes on at {start}",
    "offset.not_saved": "the offset was not saved; it is tried again",
    "offset.save_refused": "the offset was not saved; the next owner gets some messages again",
    "offset.set_by_hand": "the program set the offset to {seek_to}",
    "offset.reset_by_broker": "an operator reset the offset to {reset_to}",
    "offset.illegal": "the broker does not read on at {refused} (an operator reset the offset, or"
    " messages are gone); the queue goes on at {correct}",
    "offset.illegal_for_former_owner": "the offset was reset to {correct} after the release",
    "offset.set_by_another": "the committed offset was changed from outside to {start}",
    "offset_file.damaged": "the offset file {file} is damaged; its backup is used",
    "offset_file.missing": "the offset file {file} is missing; its backup is used",
    "state.damaged": "the queue's record cannot be read; some messages come again",
    "state.not_recorded": "the group's state topic was deleted; only the offset is saved",
    "record.not_believed": "a record has no valid seal of record_secrets; it counts as damaged",
    "state.rebuilt": "the list of parked keys was rebuilt from the park topic: {parked_keys}",
    "group_topic.grown": "the group's {kind} has {queues} queues now",
    "group_topic.unusable": "the group's {kind} cannot be used; queues are not taken",
    "crash_loop.begins": "owners died {deaths} times without progress; suspected messages are now"
    " handled one at a time",
    "crash_loop.ends": "no suspected messages are left",
    "suspects.not_recorded": "an attempt at a suspected message was not recorded",
    # group and members
    "consumer.started": "the consumer has started: {topics}",
    "consumer.told_to_end": "{signal} arrived; the consumer closes",
    "consumer.closed": "the consumer is closed",
    "consumer.left_open": "the program ended without closing the consumer: it is closed now, within"
    " {seconds} s",
    "start.not_checked": "a broker did not answer a check before the start; the consumer starts"
    " without it",
    "group.not_ordered": "the group is not marked as ordered",
    "start.behind_proxy": "brokers are behind a proxy, which shows no settings",
    "group.subscriptions_differ": "members of the group subscribe to other topics or filters:"
    " {differences}",
    "group.order_mixed": "members of the group mix order by key and by queue: {members}",
    "group.order_not_checked": "the broker did not say who is in the group",
    "group.foreign_changed": "members of a group without a member here changed",
    "member.order_unknown": "member {member} does not say how it keeps order",
    "member.not_listed": "the broker does not list this member for {subscribed}",
    "engine.stands": "no handler call has begun for {seconds} s although there is room for it:"
    " {why}; this member gives its queues up",
    "engine.goes_on": "handlers are called again after {seconds} s; this member takes queues again",
    "engine.gone": "no handler can be called any more: {why}; the consumer closes",
    "topic.not_readable": "no queue of {subscribed} may be read, so no member gets any",
    "member.idle": "this member gets no queue of {subscribed}: the group has {members} members,"
    " and fewer queues",
    "member.not_unregistered": "the broker {address} did not learn that this member ended",
    "rebalance.failed": "the queues of {subscribed} were not divided; it is tried again",
    "circuit.opened": "an outage: keys with the same failure wait, and no message is given up"
    " (fingerprint {fingerprint}; -: most keys fail, so others are tried at a limited rate)",
    "circuit.closed": "the outage is over",
    # sending
    "send.attempt_failed": "a send failed; it is repeated",
    "send.failed": "a send failed for good; later messages of the key are refused",
    "producer.left_open": "the program ended without closing the producer, while {messages}"
    " messages are under way: they have some seconds",
    "producer.messages_left": "the producer closed although {messages} messages are not"
    " acknowledged: they are not sent again",
    "send.callback_raised": "a callback of a future raised an error",
    "layout.pinned": "the queues of this topic are pinned: {layout}",
    "layout.changed": "the queues of this topic changed from {before} to {layout}: keys move",
    "topic.type_unknown": "the broker did not say which type this topic has",
    # the native driver
    "native.layout_pinned": "the number of queues of this topic is pinned: {queues}",
    "native.callback_failed": "a message was not read or not handled; it comes again",
    "native.unsupported": "this driver cannot do {what}; the message blocks its queue",
    "native.dead_lettered": "a message was stored as a dead letter",
    "native.not_dead_lettered": "a dead letter was not stored; its message waits",
    # the network
    "connection.lost": "the connection to {address} is lost",
    "connection.given_up": "the connection to {address} was given up",
    "connection.closed": "the connection to {address} is closed",
    "heartbeat.failed": "the heartbeat to {address} failed",
    "route.changed": "the route of this topic changed from {before} to {after}",
    "route.not_read": "no name server answers for this topic",
    "route.not_refreshed": "the route of this topic was not refreshed; the old one stays",
    "topic.not_found": "this topic does not exist",
    "request.failed": "the request {request} from {address} failed",
    "request.refused": "a request from {address} was refused: code {code}",
    "request.not_answered": "a request from {address} was not answered",
    "request.handler_failed": "the request {request} from {address} failed",
    "reply.callback_failed": "the reply from {address} to {request} was not handled",
    "reply.late": "the reply from {address} to {request} came too late",
    "request.too_large": "{address} sent {bytes} bytes, which is more than max_frame",
    "periodic_work.failed": "the periodic work {work!r} failed; it runs again at its next time",
    "scheduled_work.failed": "work scheduled by {schedule!r} failed",
    "keys.not_encrypted": "access keys are sent to {address} without TLS",
    "tls.not_verified": "TLS certificates are not verified",
    "settings.readable_by_all": "{path} holds a secret, and other users can read it",
    "settings.variable_unknown": "the environment has {variable}, which is no setting",
    "settings.writable_by_others": "other users can change {path}",
    # Spark
    "spark.pull_failed": "a pull of {queue} failed; it is tried again",
    "spark.data_lost": "messages {start} to {end} are gone: {why}",
    "spark.topics_unknown": "the topics were not listed; the stream goes on with the known ones",
    "spark.waiting_for": "the stream waits for a broker",
    "spark.back": "the broker is back",
    "spark.failed": "reading failed",
    "sink.attempt_failed": "a batch to {queue} was not stored ({verdict})",
    "sink.route_awaited": "the queues of this topic are not known yet",
    "sink.written": "{messages} messages are stored",
    "sink.aborted": "a write failed: write the same rows again",
    # monitoring
    "scan.failed": "a scan failed; the last snapshot stays",
    "broker.not_measured": "a broker does not answer: its part of the backlog is unknown",
    "broker.measured_again": "the broker answers again",
    "record.not_read": "a state record was not read: the backlog of its queue is unknown",
    "probe.health_not_read": "the probe could not read the consumer's health",
    "http.not_answered": "the {role} answered {path} with an error",
    "http.request_failed": "a request to the {role} broke off",
}


def sentence(event: Mapping[str, Any]) -> str:
    """Return an event as a sentence: what happened, why, where, what to do, and its name.

    Args:
        event: its fields; texts must be safe to show.
    """
    name = str(event.get("event", ""))
    fields = _Used({field: value for field, value in event.items() if value is not None})
    text = SENTENCES[name].format_map(fields) if name in SENTENCES else name
    left = [each for each in _CAUSES if each in fields and each not in fields.used]
    why = f": {fields[left[0]]}" if left else ""
    why += f"; it is not given up yet: {fields['not_yet']}" if "not_yet" in fields else ""
    hint = f"; {fields['hint']}" if "hint" in fields else ""
    return f"{text}{why}{hint} ({', '.join((*_where(fields), name))})"


_CAUSES = ("error", "reason", "cause")  # the first of them that an event has says why


class _Used(dict[str, Any]):
    """Fields; which of them a sentence has used; "-" for one that is not there."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.used = set[str]()

    def __getitem__(self, field: str) -> Any:
        self.used.add(field)
        value = self.get(field, "-")
        several = isinstance(value, list | tuple | set | frozenset)
        return ", ".join(map(str, value)) if several else value


def _where(fields: Mapping[str, Any]) -> Iterator[str]:
    """Group, queue, offset, key and attempt: those that there are."""
    found = fields.get
    if "group" in fields:
        yield f"group {found('group')}"
    if "topic" in fields:
        queue = "".join(f"/{found(each)}" for each in ("broker", "queue_id") if each in fields)
        yield f"{found('topic')}{queue}" + (f" at {found('offset')}" if "offset" in fields else "")
    if "key" in fields:
        yield f"key {found('key')}"
    if found("attempt", 1) != 1:
        yield f"attempt {found('attempt')}"
