"""A handler for tests that care which messages come together."""


class Batches:
    """Remembers the (number, attempt) pairs of each call; `act` answers.

    Args:
        act: called with ({number: message}, context).
    """

    def __init__(self, act):
        self.act = act
        self.calls = []

    def __call__(self, messages, context):
        by_number = {int(message.body): message for message in messages}
        self.calls.append([(n, m.reconsume_times + 1) for n, m in by_number.items()])
        return self.act(by_number, context)

    @property
    def batches(self):
        return [[number for number, _ in call] for call in self.calls]

    def attempts(self, number):
        return [attempt for call in self.calls for n, attempt in call if n == number]
