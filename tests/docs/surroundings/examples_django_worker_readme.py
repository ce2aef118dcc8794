"""examples/django_worker/README.md: the documented port of the probes may be taken here."""

REPLACE = {"manage.py consume\n": "manage.py consume --probe-port 0\n"}
