"""The properties by which a message of the sink is known again.

A task that is run again sends again what it has sent before, so a topic may hold copies. They are
told apart from new messages by either property:

- `SEQ` is the row's `orderBy` as a number. Whatever was repeated, the *first* copies of a key's
  messages are stored in order: a consumer that keeps, for each key, the highest `SEQ` it has
  applied (in the same transaction as the effect) drops every message that is not above it. Not
  where a key's `orderBy` repeats, which it may if there is an `idColumn`: go by `ID` there.
- `ID` is equal for copies and for nothing else: the row's `idColumn`, or a hash of its key,
  `orderBy` and body. For consumers without a place to keep a number for each key.

UNIQ_KEY is new for each copy and has Java's format. Pure, and without pyspark: for consumers.
"""

from __future__ import annotations

ID = "ORDERLY_ID"
SEQ = "ORDERLY_SEQ"
STAMPS = frozenset({ID, SEQ})
