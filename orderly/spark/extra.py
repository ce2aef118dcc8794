"""Says which extra is missing: imported first by the modules that users import."""

from orderly.extras import install

try:
    import numpy as np  # noqa: F401  these three are what is looked for
    import pyarrow as pa  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"orderly.spark needs an extra ({error.name} is missing): `{install('spark')}`",
        name=error.name,
    ) from error
