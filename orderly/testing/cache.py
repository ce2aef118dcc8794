"""Where this user's jars, broker data and state are kept."""

from __future__ import annotations

import os
from pathlib import Path

from orderly.errors import EmbeddedBrokerError
from orderly.extras import install


def cache_folder() -> Path:
    """ORDERLY_CACHE, or `orderly` in the user's cache folder (that of pooch, without its weight).

    Raises:
        EmbeddedBrokerError: the extra `embedded` is missing, so nothing was ever kept.
    """
    if os.environ.get("ORDERLY_CACHE"):
        return Path(os.environ["ORDERLY_CACHE"])
    try:
        from platformdirs import user_cache_path  # noqa: PLC0415 - optional: extra `embedded`
    except ImportError as error:
        raise EmbeddedBrokerError(
            f"the embedded broker needs an extra: {install('embedded')}"
        ) from error
    return user_cache_path("orderly")
