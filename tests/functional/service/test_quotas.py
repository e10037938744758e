"""What projects may have of a service at once."""

import subprocess
import unittest

from served import JOBS, LONG, SUMMAND, ServiceTest, job, wait_until


class Quotas(ServiceTest):
    def test_a_project_waits_for_its_quota_and_others_do_not_wait_for_it(self):
        self.serve(*self.FLAGS, "--quota=demo=8", "--quota=other=4,1G")
        first = self.create("sleep 300", machine="n1-standard-8")
        self.await_state(first, "JOB_STATE_RUNNING")
        waiting = [self.create("true", machine="n1-standard-4") for _ in range(3)]
        third = "/v1/projects/third/locations/x/customJobs"
        made = self.ask("POST", third, job("true"))["name"]
        self.assertTrue(wait_until(lambda: self.ask("GET", f"/v1/{made}")["state"] == "JOB_STATE_SUCCEEDED"))
        self.assertEqual({self.state_of(number) for number in waiting}, {"JOB_STATE_QUEUED"})
        error = self.fails("POST", JOBS, job(machine="n1-standard-16"), 429, "RESOURCE_EXHAUSTED")
        self.assertRegex(error["message"], r"the project's quota is \d+, (any memory|\d+\.\d GiB) and any number$")
        self.fails("POST", "/v1/projects/other/locations/x/customJobs", job(), 429, "RESOURCE_EXHAUSTED")
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        for number in waiting:
            self.await_state(number, "JOB_STATE_SUCCEEDED")

    def test_a_quota_is_numbers(self):
        for flag in ("demo", "=1", "demo=x", "demo=1,x", "demo=1,1G,x", "demo=-1"):
            run = subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0", f"--quota={flag}"], env=self.env, capture_output=True,
                                 text=True, timeout=LONG, check=False)
            self.assertEqual(run.returncode, 2, flag)


if __name__ == "__main__":
    unittest.main()
