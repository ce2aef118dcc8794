"""Ordered messages on Apache RocketMQ."""
