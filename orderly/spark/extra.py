"""Says what is missing or too old: imported first by the modules that users import."""

import re

from orderly.errors import ConfigError
from orderly.extras import install

try:
    import numpy as np  # noqa: F401  these three are what is looked for
    import pyarrow as pa  # noqa: F401
    import pyspark
except ImportError as error:
    raise ImportError(
        f"orderly.spark needs an extra ({error.name} is missing): `{install('spark')}`",
        name=error.name,
    ) from error

PYSPARK_NEEDED = (4, 2)  # the first whose Python streams let a source bound a batch


def check_version(version: str) -> None:
    """Refuse a PySpark without what the source is built on.

    Raises:
        ConfigError: it is older than 4.2.
    """
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < PYSPARK_NEEDED:
        raise ConfigError(
            f"orderly.spark needs PySpark 4.2 or newer, but this is {version}: install a newer"
            " Spark (`pip install 'pyspark>=4.2,<5'`); on a cluster, on its machines too"
        )


check_version(pyspark.__version__)
