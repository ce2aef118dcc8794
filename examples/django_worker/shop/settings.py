"""Settings: PostgreSQL where libpq's variables (PGDATABASE, PGHOST, …) name one, else SQLite."""

from __future__ import annotations

import os
from pathlib import Path

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "for trying only: this project serves no pages")
INSTALLED_APPS = ["accounts"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

_POSTGRESQL = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ.get("PGDATABASE"),
    "CONN_MAX_AGE": 60,  # seconds; a thread that is idle for as long ends anyway
    "CONN_HEALTH_CHECKS": True,
}
_SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.environ.get("SQLITE_FILE", Path(__file__).parents[1] / "shop.sqlite3"),
    # A transaction that reads first and writes then would fail if another one wrote in between.
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
}
DATABASES = {"default": _POSTGRESQL if "PGDATABASE" in os.environ else _SQLITE}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"orderly": {"handlers": ["stderr"], "level": "INFO"}},
}
