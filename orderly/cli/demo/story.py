"""The demo step by step: broker, topic, send, consume with trouble, park and release, verdict."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass

from orderly.cli.demo.bad_record import Parking
from orderly.cli.demo.consuming import Members
from orderly.cli.demo.flights import FlightEvent, RowCounts, load_events
from orderly.cli.demo.mending import park_and_release
from orderly.cli.demo.preparing import create_topic, start_broker
from orderly.cli.demo.report import Report, judge_run
from orderly.cli.demo.screen import Screen
from orderly.cli.demo.sending import SendLog, send_all, sent_live
from orderly.cli.demo.stream import Stream, stream_of
from orderly.cli.demo.watching import wait_until, watch_backlog
from orderly.client import Client
from orderly.config import ClientConfig, ProducerConfig
from orderly.errors import SendFailed
from orderly.model import MessageQueue, TopicRoute
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.monitoring.parked import ParkedMessages
from orderly.producer import OrderlyProducer
from orderly.selectors.layout import layout_of

PATIENCE = 10.0  # seconds for an answer: a broker that has just started may be slow
Loading = Future[tuple[list[FlightEvent], RowCounts]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for. `namesrv` empty: start a broker; `limit` None: all events."""

    namesrv: str
    limit: int | None
    queues: int
    seed: int


def tell(plan: Plan, screen: Screen) -> Report:
    """Run the whole demo.

    Raises:
        OrderlyError: it could not be run, so nothing was measured.
    """
    started = time.monotonic()
    screen.title("orderly demo: ordered messages on a real RocketMQ broker")
    with ExitStack() as stack:
        # Reading the flights takes seconds, in which the broker can start.
        reader = stack.enter_context(ThreadPoolExecutor(1, "orderly-demo-flights"))
        loading = reader.submit(load_events, plan.limit)
        namesrv = plan.namesrv or start_broker(stack, screen)
        if plan.namesrv:
            screen.step("Broker", "You named a name server, so no broker is started.")
            screen.fact(f"using {namesrv}")
        config = ClientConfig(namesrv=namesrv, request_timeout=PATIENCE)
        client = stack.enter_context(closing(Client(config)))
        route = create_topic(client, plan.queues, screen)
        pinned = ProducerConfig(layout=str(layout_of(route)))
        producer = stack.enter_context(OrderlyProducer(client=client, config=pinned))
        stream, sent = _send(producer, route, loading, plan.seed, screen)
        members = stack.enter_context(Members(namesrv, route.topic, route.read_queues(), stream))
        _consume(client, members, sent, screen)
        parking = _park(client, members, producer, sent, screen)
        members.close()
        left = survey(client, Selection((route.topic,), (route.topic,)))
        backlog = left.groups[route.topic].sums
        seconds = time.monotonic() - started
        report = judge_run(stream, sent, members.log, parking, backlog=backlog, seconds=seconds)
    _conclude(report, screen, route.topic if plan.namesrv else None)
    return report


def _send(
    producer: OrderlyProducer, route: TopicRoute, loading: Loading, seed: int, screen: Screen
) -> tuple[Stream, SendLog]:
    screen.step(
        "Send",
        "Every departure and every arrival of 2013's flights from New York is one message, in"
        " order of time. Its sharding key is the aircraft's tail number: the key's hash picks"
        " the queue, so all events of one aircraft are in one queue, in the order they were sent.",
    )
    with screen.busy("reading the flights"):
        events, rows = loading.result()
    screen.fact(rows.text())
    stream = stream_of(events, seed)
    with screen.meter("sending", stream.first_live) as meter:
        sent = send_all(producer, stream.at_once(route.topic), meter)
    if not sent.stored:
        raise SendFailed(f"not one message was stored: {next(iter(sent.failed.values()), '')}")
    aircraft = len({event.tail for event in events[: stream.first_live]})
    screen.fact(
        f"sent {len(sent.stored):,} events of {aircraft:,} aircraft in {sent.seconds:.1f} s"
        f" ({sent.rate:,.0f}/s); the other {len(events) - stream.first_live:,} follow live"
    )
    return stream, sent


def _consume(client: Client, members: Members, sent: SendLog, screen: Screen) -> None:
    screen.step(
        "Consume, with trouble",
        "Two consumers share a group: the broker's queue lock gives each queue to one of them;"
        " within it, aircraft run side by side. One message fails three times: its aircraft"
        " waits for it, the others go on. Half-way consumer B closes, and A takes over.",
    )
    watch_backlog(members, _ends(client, members.topic, sent), screen)
    count, seconds = members.log.backlog
    screen.fact(f"handled {count:,} in {seconds:.1f} s ({members.log.rate:,.0f}/s)")


def _park(
    client: Client, members: Members, producer: OrderlyProducer, sent: SendLog, screen: Screen
) -> Parking:
    stream, parked, before = members.stream, ParkedMessages(client, members.topic), members.count()
    screen.step(
        "A bad record, parked and released",
        "Live traffic goes on. One record says 24:00, which the handler cannot read: each try"
        " raises, while other aircraft succeed. So it is the record that is bad, and"
        " @orderly.listener(on_poison='park_key') sets its aircraft aside, in order, instead of"
        " holding up or losing anything. (Here after 3 tries in 1 s; by default 5 in 60 s.)",
    )
    messages = stream.live(members.topic)
    with (
        screen.meter("live", len(messages)) as meter,
        sent_live(producer, messages, sent, meter) as live,
    ):
        parking = park_and_release(members, parked, screen)
        wait_until(live.done, members, screen)
        live.result()
        ends = _ends(client, members.topic, sent)
        if parking.ok:  # else there is nothing to wait for: the bad record fails for ever
            wait_until(lambda: members.drained(ends) == ends.keys(), members, screen)
    handled = members.count() - before
    screen.fact(f"handled {handled:,}{', those that were parked too' if parking.ok else ''}")
    return parking


def _ends(client: Client, topic: str, sent: SendLog) -> dict[MessageQueue, int]:
    """For each queue the offset behind its last message.

    The broker acknowledges a message before its queue shows it, so what was acknowledged counts
    as much as what is shown; more may be shown if a retried send was stored twice.
    """
    queues = client.routes.get(topic).read_queues()
    ends = {queue: client.brokers.max_offset(queue) for queue in queues}
    for queue, offset in sent.stored.values():
        ends[queue] = max(ends[queue], offset + 1)
    return ends


def _conclude(report: Report, screen: Screen, left_behind: str | None) -> None:
    screen.step(
        "Verdict",
        "An oracle that knows nothing of the library compared what was sent with what the"
        " handlers were given, aircraft by aircraft.",
    )
    screen.table(report.rows())
    screen.verdict(report.exit_code == 0, report.verdict_text())
    if left_behind:
        screen.note(
            f"The topic {left_behind}, a group of that name, and its state and park topics stay on"
            " your broker."
        )
    screen.note("Next:  orderly broker start      a broker that stays, for your own trials")
    screen.note("       orderly topic create      a topic of your own; then: orderly send, tail")
    screen.note("       orderly backlog --help    how far behind a group is, also for cron")
    screen.note("       orderly parked --help     what is set aside: look, release, drop")
    screen.note("       orderly demo --all        the whole year: 656,584 events")
