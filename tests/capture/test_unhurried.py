"""What was there is left alone by the collector, what is made is not."""

import gc
import weakref

from normdiag.capture.unhurried import unhurried


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.self = self


def test_only_what_is_made_meanwhile_is_collected():
    before = weakref.ref(Knot())
    with unhurried():
        meanwhile = weakref.ref(Knot())
        gc.collect()
        assert meanwhile() is None
        assert before() is not None
    gc.collect()
    assert before() is None
    assert gc.get_freeze_count() == 0


def test_what_another_has_frozen_stays_so():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with unhurried():
            pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()
