"""The first tables."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes them."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.CreateModel(
            name="Account",
            fields=[
                ("number", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("balance", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Booked",
            fields=[
                ("entry", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="Applied",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("broker", models.CharField(max_length=255)),
                ("queue_id", models.IntegerField()),
                ("generation", models.IntegerField()),
                ("key", models.CharField(max_length=201)),
                ("offset", models.BigIntegerField(default=-1)),
                ("token", models.BigIntegerField(null=True)),
                ("stored_at", models.BigIntegerField(default=0)),
                ("recent", models.TextField(default="")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("group", "topic", "broker", "queue_id", "generation", "key"),
                        name="one_row_a_key",
                    )
                ],
            },
        ),
    ]
