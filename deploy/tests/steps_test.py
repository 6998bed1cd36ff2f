"""Steps side by side: what each prints stays together, times are kept, and a failure ends the script."""

import pathlib
import subprocess
import unittest

STEPS = pathlib.Path(__file__).resolve().parents[1] / "steps.sh"
BEGIN = f"set -euo pipefail; source {STEPS}; trap stop_beside EXIT; "


def run(script):
    return subprocess.run(["bash", "-c", BEGIN + script], capture_output=True, text=True, timeout=60, check=False)


class StepsTest(unittest.TestCase):
    def test_steps_beside_others_are_printed_after_them_with_their_times(self):
        done = run(
            "row() { step second echo of-the-row; step third echo also; }\n"
            "begin_beside row\nstep first bash -c 'sleep 0.3; echo in-front'\nend_beside\n"
            'printf "TIME %s\\n" "${step_times[@]}"'
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [done.stdout.index(text) for text in ("in-front", "of-the-row", "also")]
        self.assertEqual(places, sorted(places))
        times = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("TIME ")]
        self.assertEqual(times, ["first", "second", "third"])

    def test_a_failure_beside_ends_the_script_with_its_code(self):
        done = run('row() { step second bash -c "exit 7"; }\nbegin_beside row\nstep first true\nend_beside\necho not-reached')
        self.assertEqual(done.returncode, 7, done.stdout)
        self.assertIn('step "second" failed with exit code 7', done.stdout)
        self.assertNotIn("not-reached", done.stdout)

    def test_a_failure_in_front_ends_what_runs_beside(self):
        done = run("row() { step second sleep 50; }\nbegin_beside row\nsleep 0.3; step first false\nend_beside")
        self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
