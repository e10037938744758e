"""The files that jobs leave, as the page fetches them."""

import unittest
import urllib.parse

from served import JOBS, ServiceTest, job


class Artifacts(ServiceTest):
    def test_files_of_the_output_folder_are_listed_and_fetched_and_no_others(self):
        self.serve()
        spec = job('mkdir -p "$AIP_MODEL_DIR" && cd "$AIP_MODEL_DIR/.." && mkdir -p a/b && echo inside >a/b/c.txt && '
                   'ln -s /etc/passwd out && ln -s / a/all && mkfifo pipe && touch "$(printf "bad\\001name")" && ln a/b/c.txt "a b&c"')
        spec["jobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/folder"}
        path = "/v1/" + self.ask("POST", JOBS, spec)["name"]
        self.await_state(path.rsplit("/", 1)[1], "JOB_STATE_SUCCEEDED")
        found = self.ask("GET", path + "/artifacts")
        names = {file["name"]: file for file in found["artifacts"]}
        inside = [name for name in names if name.endswith("a/b/c.txt")]
        self.assertEqual(len(inside), 1, found)
        top = inside[0].removesuffix("a/b/c.txt")
        self.assertIn(top + "a b&c", names)
        self.assertEqual(names[inside[0]]["sizeBytes"], "7")
        self.assertTrue(found["isTruncated"])
        self.assertFalse([name for name in names if "out" == name.split("/")[-1] or "passwd" in name or "pipe" in name or "bad" in name], names)
        for name in (inside[0], top + "a b&c"):
            connection = self.connect()
            connection.request("GET", path + "/artifacts?artifact=" + urllib.parse.quote(name, safe=""))
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, b"inside\n"))
            self.assertEqual(answer.getheader("Content-Disposition"), "attachment")
            connection.close()
        for name in (top + "out", top + "pipe", top + "a/all/etc/passwd", "../state.json", top + "a/../a/b/c.txt", "/etc/passwd", "",
                     top + "a", "/" + inside[0], "./" + inside[0]):
            self.fails("GET", path + "/artifacts?artifact=" + urllib.parse.quote(name, safe=""), None, 404, "NOT_FOUND")


if __name__ == "__main__":
    unittest.main()
