"""A key in two partitions is seen at the end, however many keys there are."""

from orderly.spark.sink.clustering import SAMPLE, key_sample, scattered


def test_keys_of_one_partition_each_are_not_scattered():
    assert scattered([key_sample(["a", "b"]), key_sample(["c"]), key_sample([])]) == 0
    assert scattered([]) == 0


def test_a_key_in_two_partitions_is_counted_once():
    samples = [key_sample(["a", "b", "c"]), key_sample(["b"]), key_sample(["b", "c"])]
    assert scattered(samples) == 2


def test_rows_in_one_order_are_one_key():
    assert scattered([key_sample([None]), key_sample([None])]) == 1


def test_a_sample_is_bounded_and_two_tasks_choose_alike():
    one = [f"key-{number}" for number in range(100_000)]
    other = [f"key-{number}" for number in range(50_000, 150_000)]
    samples = [key_sample(one), key_sample(other)]
    assert [len(sample) for sample in samples] == [SAMPLE, SAMPLE]
    assert scattered(samples) > SAMPLE / 3  # half of the keys are shared


def test_numbers_and_texts_are_keys():
    assert scattered([key_sample([1, -1]), key_sample([1])]) == 1
