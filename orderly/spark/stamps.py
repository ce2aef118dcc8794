"""The properties by which a message of the sink is known again.

A task that is run again sends its messages again, so a topic can hold copies. Either property
distinguishes them from new messages:

- `SEQ` is the row's `orderBy` as a number. Even if messages are repeated, the *first* copies of a
  key's messages are stored in order. So a consumer can keep, for each key, the highest `SEQ` it
  has applied (in the same transaction as the effect), and drop every message that is not above
  it. If a key's `orderBy` repeats, which it can with an `idColumn`, use `ID` instead.
- `ID` is equal for copies and for nothing else: the row's `idColumn`, or a hash of its key,
  `orderBy` and body. For consumers without a place to keep a number for each key.

UNIQ_KEY has Java's format, and is new for each run of a task. So consumers take copies of another
run for messages; those of one run they leave out (`ordering.repeats`). Pure, and without pyspark:
for consumers.
"""

from __future__ import annotations

ID = "ORDERLY_ID"
SEQ = "ORDERLY_SEQ"
STAMPS = frozenset({ID, SEQ})
