"""`manage.py consume`: the worker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts.entries import enter
from orderly import ConsumerConfig, OrderlyConsumer
from orderly.consumer.probe import Probe


class Command(BaseCommand):
    """Books entries until SIGTERM or Ctrl-C."""

    help = "Consumes a topic of entries, those of an account in their order."

    def add_arguments(self, parser: CommandParser) -> None:
        """Define the options; all other settings are ORDERLY_… in the environment."""
        parser.add_argument("--group", default="accounts")
        parser.add_argument("--topic", default="entries")
        parser.add_argument("--probe-port", type=int, default=8080, help="0: any free one")
        parser.add_argument("--probe-host", default="127.0.0.1", help="in Kubernetes 0.0.0.0")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run."""
        config = ConsumerConfig.from_env(order="key", consume_from="first")
        consumer = OrderlyConsumer(options["group"], enter, config=config)
        probe = Probe(options["probe_port"], consumer.health, options["probe_host"])
        with probe, consumer.subscribe(options["topic"]):
            self.stdout.write(f"consuming; http://{options['probe_host']}:{probe.port}/health")
            consumer.wait()
        self.stdout.write("closed")
