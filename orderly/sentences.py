"""PURE: what each event says to a person who reads it on a terminal.

A sentence has fields of its event in braces. What says where (queue, offset, key, attempt, group)
comes behind it by itself, and so do the failure's text and the hint. docs/reference/events.md has
the same events with all their fields, and what to do about each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SENTENCES: Mapping[str, str] = {
    # messages and keys
    "message.undecodable": "a message has a body that cannot be read: {why}",
    "message.too_large": "the next message is larger than max_frame ({max_frame} bytes), and its"
    " queue waits: set ClientConfig.max_frame higher",
    "message.retry": "a message failed, and is tried again in {seconds} s",
    "message.retry_put_off": "the queue's lock was not renewed, so a retry waits",
    "message.poison": "a bad message was found ({because}), and on_poison says {outcome}",
    "message.blocked": "a bad message blocks its key, or queue; it is tried again in {seconds} s",
    "message.skipped": "a bad message was skipped",
    "message.replay_failed": "a parked message failed again",
    "message.dead_lettered": "a message was stored as a dead letter",
    "message.not_dead_lettered": "a dead letter was not stored; its message waits",
    "message.expiring": "the broker will delete a message in {seconds} s that is not handled yet",
    "message.deleted": "the broker deleted {count} messages before they were handled: they are"
    " lost",
    "message.suspected": "a message was being handled when the process died",
    "message.condemned": "a message ended the process too often; no handler gets it again",
    "message.consumed_by_hand": "an operator had a message handled",
    "message.not_applied": "the effect of a message was refused: {verdict}",
    "key.suspended": "a key waits {seconds} s",
    "key.parked": "a key is parked: this message and all later ones of the key are set aside",
    "key.released": "a parked key was released, and goes on",
    "key.release_stopped": "a release stopped, and the key stays parked from here on",
    "key.dropped": "the messages of a parked key were dropped",
    "key_function.raised": "the key function raised, and the queue waits in front of the message",
    # parking
    "park.refused": "a key cannot be parked, and blocks for {seconds} s: {why}",
    "park.failed": "a key was not parked; it is tried again in {seconds} s",
    "park.kept": "{messages} parked messages were stored again, before the broker deletes them",
    "park.expiring": "parked messages were not stored again, and the broker will delete them",
    "park.expired": "{messages} parked messages are lost: the broker deleted them",
    "park.retention_unknown": "the broker does not say for how long it keeps messages; 72 hours"
    " are assumed",
    "command.taken": "an operator's command begins: {verb}",
    "command.interrupted": "an operator's command was interrupted, and is tried again: {verb}",
    "command.not_read": "the park topic was not read; it is tried again",
    "command.unreadable": "something in the park topic is no command, and was passed over",
    # handlers
    "handler.raised": "the handler raised; its messages come again",
    "handler.answered_fail": "the handler answered Fail; its messages come again",
    "handler.returned_no_outcome": "the handler returned {answer}, which is no outcome; its"
    " messages come again",
    "handler.returned_coroutine": "the handler returned a coroutine; its messages come again",
    "handler.wait_too_long": "the handler asked for a wait that is not allowed",
    "handler.answer_misplaced": "the handler answered {answer} under auto_commit",
    "handler.auto_commit_no_bool": "the handler set auto_commit to {value}; its messages come"
    " again",
    "handler.hung": "a handler hangs: it has been running for {seconds} s",
    "process.exits": "a handler hangs, and the process ends with exit code {exit_code}",
    "worker.died": "a worker process died in a call (exit code {exit_code})",
    "run.not_started": "there was no thread, or no event loop; it is tried again",
    "run.failed": "a run failed",
    "thread.not_started": "the system starts no more threads; {threads} handle the messages",
    "hook.raised": "the hook {hook!r} raised",
    "retry_rule.raised": "a rule of retry= raised; it counts as no retry",
    "poison_policy.failed": "on_poison gave no outcome; the message blocks",
    # queues
    "queue.assigned": "this member has the queue, from offset {start} on",
    "queue.begins_behind": "the group is new here and begins at {start}, as consume_from says;"
    " messages from {minimum} on are not consumed",
    "queue.start_unknown": "the queue's offset was not read; it is tried again",
    "queue.suspended": "the queue waits {seconds} s",
    "queue.full": "all that may be cached is in hand and not committed",
    "queue.span_reached": "the queue waits for one key that is {span} offsets behind the others",
    "queue.given_up": "the queue is given up",
    "queue.release_waits": "the queue is released once a handler ends, which has been running for"
    " {handler_running_seconds} s",
    "queue.release_overdue": "the queue is still locked for a handler that has been running for"
    " {handler_running_seconds} s",
    "queue.unlocked_while_running": "the queue was unlocked beside a running handler: the key may"
    " be handled twice at a time",
    "queue.not_released": "the queue was not released; it is tried again",
    "queue.released": "the queue is released, its offset saved",
    "queue.left_locked": "the consumer closed while a handler runs; the queue stays locked until"
    " that ends",
    "lock.lost": "the lock of the queue is lost; another member may have it",
    "lock.not_renewed": "locks were not renewed; it is tried again",
    "lock.not_taken": "locks were not taken; it is tried again",
    "lock.held_by_another": "queues {queue_ids} are locked by another member, for {seconds} s so"
    " far; a dead member's are free within {free_within} s",
    "pull.failed": "a pull failed; it is tried again in {retry_in_seconds} s",
    "pull.repeat_failed": "bodies were not pulled again; it is tried again",
    # offsets and state
    "topic.recreated": "the topic was deleted and made anew; the group goes on at {start}",
    "offset.forgotten": "the broker forgot the offset; the queue goes on at {start}",
    "offset.not_saved": "the offset was not saved; it is tried again",
    "offset.save_refused": "the offset was not saved; the next owner gets some messages again",
    "offset.set_by_hand": "the program set the offset to {seek_to}",
    "offset.reset_by_broker": "an operator reset the offset to {reset_to}",
    "offset.illegal": "the broker does not have offset {refused}; the queue goes on at {correct}",
    "offset.illegal_for_former_owner": "the offset was reset to {correct} after the release",
    "offset.set_by_another": "somebody else set the offset to {start}",
    "offset_file.damaged": "the offset file {file} is damaged; its backup is used",
    "offset_file.missing": "the offset file {file} is missing; its backup is used",
    "state.damaged": "the queue's record cannot be read; some messages come again",
    "state.not_recorded": "the group's state topic was deleted; only the offset is saved",
    "record.not_believed": "a record has no seal of record_secrets, and counts as damaged",
    "state.rebuilt": "which keys are parked was read from the park topic: {parked_keys}",
    "group_topic.grown": "the group's {kind} has {queues} queues now",
    "group_topic.unusable": "the group's {kind} cannot be used; queues are not taken",
    "crash_loop.begins": "owners died {deaths} times without progress; suspects are handled one"
    " at a time",
    "crash_loop.ends": "no suspects are left",
    "suspects.not_recorded": "the try of a suspect was not recorded",
    # group and members
    "consumer.started": "the consumer has started: {topics}",
    "consumer.told_to_end": "{signal} came, and the consumer closes",
    "consumer.closed": "the consumer is closed",
    "start.not_checked": "a broker did not answer before the start, which goes on",
    "group.not_ordered": "the group is not marked as ordered",
    "start.behind_proxy": "brokers are behind a proxy, which shows no settings",
    "group.subscriptions_differ": "members of the group subscribe to other topics or filters:"
    " {differences}",
    "group.order_mixed": "members of the group mix order by key and by queue: {members}",
    "group.order_not_checked": "the broker did not say who is in the group",
    "group.foreign_changed": "members of a group that has none here changed",
    "member.order_unknown": "member {member} does not say how it keeps order",
    "member.not_listed": "the broker does not list this member of {subscribed}",
    "member.idle": "this member gets no queue of {subscribed}: the group has {members} members,"
    " and fewer queues",
    "member.not_unregistered": "the broker {address} did not hear of the end",
    "rebalance.failed": "the queues of {subscribed} were not divided; it is tried again",
    "circuit.opened": "an outage: keys that fail alike wait, and nothing is given up (fingerprint"
    " {fingerprint}; -: all keys)",
    "circuit.closed": "the outage is over",
    # sending
    "send.attempt_failed": "a send failed, and is repeated",
    "send.failed": "a send failed for good; later messages of the key are refused",
    "send.callback_raised": "a callback of a future raised",
    "layout.pinned": "the queues of this topic are pinned: {layout}",
    "layout.changed": "the queues of this topic changed from {before} to {layout}: keys move",
    "topic.type_unknown": "the broker did not say of which type this topic is",
    # the native driver
    "native.layout_pinned": "the number of queues of this topic is pinned: {queues}",
    "native.callback_failed": "a message was not read, or not handled, and comes again",
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
    "request.failed": "the request {request} of {address} failed",
    "request.refused": "a request of {address} was refused: code {code}",
    "request.not_answered": "a request of {address} was not answered",
    "request.handler_failed": "the request {request} of {address} failed",
    "reply.callback_failed": "the reply of {address} to {request} was not handled",
    "reply.late": "the reply of {address} to {request} came too late",
    "request.too_large": "{address} sent {bytes} bytes, which is more than max_frame",
    "periodic_work.failed": "the periodic work {work!r} failed, and goes on at its next time",
    "scheduled_work.failed": "work scheduled by {schedule!r} failed",
    "keys.not_encrypted": "access keys are sent to {address} without TLS",
    "tls.not_verified": "TLS certificates are not verified",
    "settings.readable_by_all": "{path} holds a secret, and others may read it",
    "settings.writable_by_others": "{path} may be written by others",
    # Spark
    "spark.pull_failed": "a pull of {queue} failed; it is tried again",
    "spark.data_lost": "messages {start} to {end} are gone: {why}",
    "spark.topics_unknown": "the topics were not listed; the stream goes on with those it knows",
    "spark.waiting_for": "the stream waits for a broker",
    "spark.back": "the broker is back",
    "spark.failed": "reading failed",
    "sink.attempt_failed": "a batch to {queue} was not taken ({verdict})",
    "sink.route_awaited": "the queues of this topic are not known yet",
    "sink.written": "{messages} messages are stored",
    "sink.aborted": "a write failed: write the same rows again",
    # monitoring
    "scan.failed": "a scan failed; the last snapshot stays",
    "broker.not_measured": "a broker does not answer: its part of the backlog is unknown",
    "broker.measured_again": "the broker answers again",
    "record.not_read": "a state record was not read: the backlog of its queue is unknown",
    "probe.health_not_read": "the probe could not read the health",
    "http.not_answered": "the {role} answered {path} with an error",
    "http.request_failed": "a request to the {role} broke off",
}


def sentence(event: Mapping[str, Any]) -> str:
    """Return an event as a sentence: what happened, why, where, what to do, and its name.

    Args:
        event: its fields; texts must be fit to be shown.
    """
    name = str(event.get("event", ""))
    fields = _Used({field: value for field, value in event.items() if value is not None})
    text = SENTENCES[name].format_map(fields) if name in SENTENCES else name
    left = [each for each in _CAUSES if each in fields and each not in fields.used]
    why = f": {fields[left[0]]}" if left else ""
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
