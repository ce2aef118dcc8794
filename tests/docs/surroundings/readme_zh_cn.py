"""README.zh-CN.md starts its own broker, and its programs run in terminals."""

BROKER = "own"
