"""How far behind a consumer group is: `backlog` judges (pure), `collecting` asks the brokers."""
