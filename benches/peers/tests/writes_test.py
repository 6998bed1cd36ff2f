"""benches/peers/writes.py: writes that clients may make in any order leave the documents that the plan counts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from writes.plan import APART, Plan

DOCUMENTS, WRITES = 200, 600


def plan():
    rows = [[float(number), 1.0] for number in range(DOCUMENTS + WRITES)]
    return Plan(rows, [[3.0, 4.0]], DOCUMENTS, WRITES)


class Plans(unittest.TestCase):
    def test_the_writes_leave_as_many_documents_as_are_counted(self):
        made = plan()
        live = {document.key for document in made.documents}
        for write in (write for quarter in made.quarters() for write in quarter):
            if write.vector is None:
                live.remove(write.key)
            else:
                live.add(write.key)
        self.assertEqual((len(live), len(made.writes)), (made.documents_after(), WRITES))
        self.assertEqual(made.questions, [[0.6, 0.8]])

    def test_a_document_is_left_alone_after_it_was_written(self):
        last = {}
        for step, write in enumerate(plan().writes):
            self.assertGreaterEqual(step - last.get(write.key, -APART), APART)
            last[write.key] = step

    def test_each_engine_gets_the_same(self):
        self.assertEqual(plan().writes, plan().writes)


if __name__ == "__main__":
    unittest.main()
