"""How far behind a consumer group is: `backlog` judges (pure), `collect` asks the brokers."""
