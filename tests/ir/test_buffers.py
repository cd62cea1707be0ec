"""BUFFERs: each has a number of its own, is found by its text, and leaves nothing behind."""

import threading

from core.ir import UOp, dtypes, parse, text, uop


def test_a_dead_buffer_leaves_no_entry():
    UOp.new_buffer("ANY", dtypes.float32, (4,))
    before = len(uop._table)
    for _ in range(100):
        UOp.new_buffer("ANY", dtypes.float32, (4,))
    assert len(uop._table) <= before + 2


def test_a_live_buffer_is_found_by_its_text():
    buffer = UOp.new_buffer("ANY", dtypes.float32, (4,))
    assert parse(text(buffer)) is buffer


def test_buffers_of_several_threads_are_distinct():
    made = []

    def make():
        made.extend(UOp.new_buffer("ANY", dtypes.float32, (4,)) for _ in range(500))
        for _ in range(500):
            UOp.new_buffer("ANY", dtypes.float32, (4,))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({b.arg.slot for b in made}) == len(made) == 2000
