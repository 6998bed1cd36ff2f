"""Steps side by side: what each prints stays together, times are kept, and a failure ends the script."""

import pathlib
import subprocess
import tempfile
import unittest

STEPS = pathlib.Path(__file__).resolve().parents[1] / "steps.sh"
BEGIN = f"set -euo pipefail; source {STEPS}; trap stop_beside EXIT; "


def is_running(pid):
    """Whether a process is there, and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


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

    def test_the_oldest_bash_is_enough(self):
        # Once it is unset, it has no value, as in bash 4.4.
        done = run("unset EPOCHREALTIME\nstep first sleep 0.2\n" 'printf "TIME %s\\n" "${step_times[@]}"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"TIME +0\.[2-9] s  first\n")

    def test_a_failure_beside_ends_the_script_with_its_code(self):
        done = run('row() { step second bash -c "exit 7"; }\nbegin_beside row\nstep first true\nend_beside\necho not-reached')
        self.assertEqual(done.returncode, 7, done.stdout)
        self.assertIn('step "second" failed with exit code 7', done.stdout)
        self.assertNotIn("not-reached", done.stdout)

    def test_a_failure_in_front_ends_what_runs_beside_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = pathlib.Path(folder) / "pid"
            child = f"sleep 50 & echo \\$! >{pid_file}; echo of-the-row; wait"
            done = run(f'row() {{ step second bash -c "{child}"; }}\nbegin_beside row\nsleep 0.5; step first false\nend_beside')
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("of-the-row", done.stdout)
            self.assertFalse(is_running(int(pid_file.read_text())), "the child of the child has ended")


if __name__ == "__main__":
    unittest.main()
