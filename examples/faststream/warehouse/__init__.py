"""A FastStream application that handles ordered messages of RocketMQ."""
