"""The one source of the alerts and dashboards: tables here, rendered by ../render.py."""
