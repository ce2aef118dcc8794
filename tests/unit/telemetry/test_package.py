"""Nobody pays for telemetry who does not import it, and who cannot is told what is missing."""

import subprocess
import sys

CONSUMER = "import orderly; orderly.OrderlyConsumer, orderly.OrderlyProducer; import sys; "
ABSENT = "import sys; sys.modules['opentelemetry'] = None; "


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_producer_and_a_consumer_import_nothing_of_it():
    ran = python(CONSUMER + "sys.exit('opentelemetry' in sys.modules)")
    assert ran.returncode == 0, ran.stderr


def test_without_the_extra_the_error_names_it():
    ran = python(ABSENT + "import orderly.telemetry")
    assert "ImportError: orderly.telemetry needs an extra: `pip install" in ran.stderr
