"""Many lines of many replicas at once: all arrive, everywhere, and in order."""

import os
import re

from job import JobTest, at_once, pool

REPLICAS, LINES = 20, 5000
SCRIPT = """
import os, sys
for n in range(%d):
    os.write(1 + n %% 2, b'rank %%s line %%d of a program that says how it is doing\\n' %% (os.environb[b'RANK'], n))
""" % LINES
LINE = re.compile(r"rank (\d+) line (\d+) of a program that says how it is doing")


class FloodTest(JobTest):
    VIEW = ()

    def check(self, where, text):
        """Each replica's lines are in it once, those of each of its streams in order."""
        found = {}
        for rank, number in LINE.findall(text):
            found.setdefault((int(rank), int(number) % 2), []).append(int(number))
        for rank in range(REPLICAS):
            for stream in 0, 1:
                wanted = list(range(stream, LINES, 2)) if stream in where[1] else None
                self.assertEqual(found.get((rank, stream)), wanted, f"{where[0]}: rank {rank}, stream {stream}")

    def test_all_lines_arrive(self):
        command = pool(["python3", "-c", SCRIPT])
        run = self.run_job([command, {**command, "replicaCount": REPLICAS - 1}], labels={"success-policy": "all-workers"})
        self.assert_code(run, 0)
        self.check(("standard output", (0,)), run.out)
        self.check(("standard error", (1,)), run.err)
        self.check(("job.log", (0, 1)), self.read(run, "logs/job.log"))
        logs = [name for name in os.listdir(os.path.join(run.job_dir, "logs")) if name.startswith("workerpool")]
        self.assertEqual(len(logs), REPLICAS)
        self.check(("the replicas' logs", (0, 1)), "".join(self.read(run, f"logs/{name}") for name in logs))


if __name__ == "__main__":
    at_once.main()
