"""list and describe: which jobs are found, in which order, and how they are printed."""

import json
import os

from stored import StoreTest, at_once

STATES = ["SUCCEEDED", "FAILED", "CANCELLED"]


class ListTest(StoreTest):
    def setUp(self):
        super().setUp()
        self.jobs("list")  # makes the store
        with self.database() as database:
            for i in range(6):
                time = f"2026-01-0{i + 1}T12:00:00.000000000Z"
                database.execute(
                    "INSERT INTO jobs (id, display_name, state, create_time, start_time, end_time, update_time, labels, directory)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '')",
                    (1000000000000000000 + i, f"train-{'abc'[i % 3]}{i}" if i < 5 else "same", "JOB_STATE_" + STATES[i % 3],
                     time, time, time, time, json.dumps({"team": "blue" if i % 2 else "red"})))
                database.execute("INSERT INTO specs VALUES (?, ?)",
                                 (1000000000000000000 + i, json.dumps({"jobSpec": {"workerPoolSpecs": [{"replicaCount": i}]}})))
        database.close()

    def ids(self, *words):
        return [int(line) % 10 for line in self.jobs("list", "--format=value(name.basename())", *words).split()]

    def test_the_newest_come_first(self):
        self.assertEqual(self.ids(), [5, 4, 3, 2, 1, 0])
        self.assertEqual(self.ids("--limit=2"), [5, 4])
        self.assertEqual(self.ids("--sort-by=displayName"), [5, 0, 3, 1, 4, 2])
        self.assertEqual(self.ids("--sort-by=~displayName", "--limit=1"), [2])

    def test_gclouds_other_flags(self):
        self.assertEqual(self.ids("--sort-by=state,~createTime"), [5, 2, 4, 1, 3, 0])
        self.assertEqual(self.ids("--sort-by=~state,createTime", "--limit=3", "--page-size=2"), [0, 3, 1])
        self.assertEqual(self.ids("--filter=state=FAILED OR state=CANCELLED"), [5, 4, 2, 1])
        self.assertEqual(self.ids("--filter=NOT state=FAILED OR displayName=train-b1"), [5, 3, 2, 1, 0])
        self.assertEqual(self.jobs("list", "--uri", "--limit=1"), "projects/local/locations/local/customJobs/1000000000000000005\n")
        for words in ("--sort-by=state,size",), ("--sort-by=",), ("--page-size=0",), ("--limit=0",), ("--uri=maybe",):
            self.jobs("list", *words, code=2)

    def test_filters(self):
        for expression, found in [
                ("state=SUCCEEDED", [3, 0]), ("state=JOB_STATE_FAILED", [4, 1]), ("state!=succeeded", [5, 4, 2, 1]),
                ("state:CANCEL*", []), ("state:CANCEL", [5, 2]), ('state~"FAILED|CANCELLED"', [5, 4, 2, 1]),
                ("displayName:train*", [4, 3, 2, 1, 0]), ("displayName=same", [5]), ("-displayName=same AND state=CANCELLED", [2]),
                ("NOT displayName=same state=CANCELLED", [2]), ("createTime>2026-01-04T12:00:00Z", [5, 4]),
                ("createTime>=2026-01-05 AND createTime<2026-01-06", [4]), ("createTime=2026-01-02", [1]),
                ("createTime>-P1D", []), ("labels.team=red", [4, 2, 0]), ("labels.none=red", []), ("NOT labels.none=red state=FAILED", [4, 1]),
                ("state=(FAILED SUCCEEDED)", [4, 3, 1, 0]), ("state=(JOB_STATE_FAILED,cancelled)", [5, 4, 2, 1]),
                ("displayName!=(same train-b1)", [4, 3, 2, 0]), ("displayName:(a0 OR b4*, 'same')", [5, 0]),
                ("displayName!=same AND (state=FAILED OR labels.team=blue)", [4, 3, 1]),
                ("(state=FAILED)", [4, 1]), ("NOT (state=FAILED OR state=CANCELLED)", [3, 0]),
                ("labels.team=red state=FAILED OR state=CANCELLED", [4, 2]), ("NOT(state=FAILED)(labels.team=red)", [2, 0]),
                ("((labels.team=red) AND ((state=FAILED) OR NOT state=SUCCEEDED))", [4, 2])]:
            with self.subTest(expression=expression):
                self.assertEqual(self.ids("--filter=" + expression), found)

    def test_keys_in_snake_case(self):
        for expression, found in [("display_name=same", [5]), ("create_time>-P1D", []), ("create_time>=2026-01-05T12:00:00Z", [5, 4]),
                                  ("labels.team=red", [4, 2, 0]), ("labels.my_team=red", [])]:
            self.assertEqual(self.ids("--filter=" + expression), found, expression)
        self.assertEqual(self.ids("--sort-by=~display_name", "--limit=1"), [2])
        self.assertEqual(self.ids("--sort-by=display_name,~create_time", "--limit=2"), [5, 0])
        with self.database() as database:
            database.execute("UPDATE jobs SET labels = '{\"my_team\": \"green\"}' WHERE display_name = 'same'")
        database.close()
        self.assertEqual(self.ids("--filter=labels.my_team=green"), [5])
        for keys, printed in [("create_time.date(),job_spec.worker_pool_specs[0].replica_count", "2026-01-06T12:00:00\t5"),
                              ("display_name,labels.my_team", "same\tgreen")]:
            self.assertEqual(self.jobs("list", "--limit=1", f"--format=value({keys})"), printed + "\n")
        self.assertEqual(self.jobs("list", "--limit=1", "--format=table(display_name,state)").split()[:2], ["DISPLAY_NAME", "STATE"])
        self.assertEqual(self.jobs("describe", "same", "--format=value(job_spec.worker_pool_specs[].replica_count)"), "5\n")
        for words in ("--filter=display__name=same",), ("--filter=_name=a",), ("--sort-by=displayname_",):
            self.jobs("list", *words, code=2)

    def test_a_filter_that_cannot_be_followed_is_refused(self):
        for expression, said in [("a=b", "is none"), ("(state=A", "a ) for each ("), ("state=A)", "a ( for each )"),
                                 ("state=A OR state=B AND name=C", "parentheses where AND and OR are mixed"),
                                 ("state=A AND", "KEY OPERATOR VALUE"), ("state=()", "KEY OPERATOR VALUE"), ("state=(A (B))", "KEY OPERATOR VALUE"),
                                 ("()", "KEY OPERATOR VALUE"), ("(" * 65 + "state=A" + ")" * 65, "at most 64 deep"),
                                 ("createTime>(2026-01-01 2026-01-02)", "with one time"),
                                 ("state", "KEY OPERATOR VALUE"), ("createTime>soon", "a time in UTC"), ("state>A", "compare times"),
                                 ("state~[", "regular expression"), ("", "KEY OPERATOR VALUE")]:
            with self.subTest(expression=expression):
                self.jobs("list", "--filter=" + expression, code=2)
                self.assertIn(said, self.err)

    def test_formats(self):
        table = self.jobs("list", "--limit=1").splitlines()
        self.assertEqual(table[0].split(), ["ID", "DISPLAY_NAME", "STATE", "CREATE_TIME", "END_TIME"])
        self.assertEqual(table[1].split(), ["1000000000000000005", "same", "JOB_STATE_CANCELLED", "2026-01-06T12:00:00",
                                            "2026-01-06T12:00:00"])
        self.assertEqual(self.jobs("list", "--limit=2", "--format=value(name.basename(),jobSpec.workerPoolSpecs[0].replicaCount)"),
                         "1000000000000000005\t5\n1000000000000000004\t4\n")
        self.assertEqual(self.jobs("list", "--limit=2", "--format=yaml").count("---\n"), 2)
        self.assertEqual(self.jobs("list", "--filter=displayName=nothing"), "")
        self.assertIn("Listed 0 items.", self.err)
        self.assertEqual(json.loads(self.jobs("list", "--filter=displayName=nothing", "--format=json")), [])
        self.assertEqual(self.jobs("list", "--filter=displayName=nothing", "--format=csv(displayName,jobSpec)"), "")

    def odd_job(self):
        """The newest job, with a name and labels that CSV must quote."""
        with self.database() as database:
            database.execute("UPDATE jobs SET labels = ?, display_name = ? WHERE display_name = 'same'",
                             (json.dumps({"b": "x", "a": "y"}), 'one, "two"; 3'))
            database.execute("UPDATE specs SET resource = ? WHERE id = 1000000000000000005", (json.dumps(
                {"displayName": "the spec's", "jobSpec": {"workerPoolSpecs": [
                    {"replicaCount": 1, "machineSpec": {"machineType": "n1", "acceleratorCount": 2}}, {},
                    {"replicaCount": 3, "containerSpec": {"args": ["a", " b", "c\nd"]}}], "enableWebAccess": True}}),))
        database.close()

    def newest(self, form):
        return self.jobs("list", "--limit=1", "--format=" + form)

    def test_a_name_is_the_jobs_beside_its_specs_keys(self):
        self.odd_job()
        for form in "value(displayName)", "value(displayName,jobSpec.enableWebAccess)":
            self.assertEqual(self.newest(form).split("\t")[0].strip(), 'one, "two"; 3')
        self.assertEqual(json.loads(self.newest("json"))[0]["displayName"], 'one, "two"; 3')

    def test_gclouds_formats_of_lines(self):
        self.odd_job()
        for form, printed in [
                ("csv(displayName,state)", 'display_name,state\n"one, ""two""; 3",JOB_STATE_CANCELLED\n'),
                ("csv[no-heading](state,startTime.date())", "JOB_STATE_CANCELLED,2026-01-06T12:00:00\n"),
                ("csv[no-transforms,no-heading](startTime.date())", "2026-01-06T12:00:00.000000000Z\n"),
                ('csv[separator=";", no-heading](state,displayName)', 'JOB_STATE_CANCELLED;"one, ""two""; 3"\n'),
                ("csv(state:label='A, B',endTime:label=END)", '"a, b",end\nJOB_STATE_CANCELLED,2026-01-06T12:00:00.000000000Z\n'),
                ("csv[no-heading,no-quote](displayName,state)", 'one, "two"; 3,JOB_STATE_CANCELLED\n'),
                ("csv[no-heading](jobSpec.workerPoolSpecs[2].containerSpec.args,absent,labels)", '"a; b;c\nd",,a=y;b=x\n'),
                ("csv[no-heading](jobSpec.workerPoolSpecs[].replicaCount)", "1;;3\n"),
                ("csv[no-heading,delimiter='|'](jobSpec.workerPoolSpecs[].replicaCount)", "1||3\n"),
                ('value[separator=","](state,name.basename())', "JOB_STATE_CANCELLED,1000000000000000005\n"),
                ('value[separator="\\n",terminator="--\\n"](state,name.basename())', "JOB_STATE_CANCELLED\n1000000000000000005--\n"),
                ("value[quote](displayName)", '"one, ""two""; 3"\n'),
                ("get(name.basename(),state)", "projects/local/locations/local/customJobs/1000000000000000005\tJOB_STATE_CANCELLED\n"),
                ("table[no-heading](name.basename(),state)", "1000000000000000005  JOB_STATE_CANCELLED\n"),
                ("table[box](name.basename():label=ID)", "+---------------------+\n| ID                  |\n+---------------------+\n"
                                                         "| 1000000000000000005 |\n+---------------------+\n"),
                ("csv(jobSpec.workerPoolSpecs[0].machineSpec.machineType,machineType)", "machine_type,machine_type\nn1,\n"),
                ("csv(machineType,jobSpec.workerPoolSpecs[0].machineSpec.machineType)", "machine_type,machine_spec_machine_type\n,n1\n"),
                ("value(name.segment(2),name.segment(-1),name.segment(),name.segment(9))",
                 "locations\t1000000000000000005\t1000000000000000005\t\n"),
                ("value(name.scope(locations),state.scope(locations),state.lower(),labels.a.upper())",
                 "local/customJobs/1000000000000000005\tJOB_STATE_CANCELLED\tjob_state_cancelled\tY\n"),
                ("value(name.scope(cal))", "projects/local/locations/local/customJobs/1000000000000000005\n"),
                ("none", ""), ("disable", ""), ("none(state)", "")]:
            with self.subTest(form=form):
                self.assertEqual(self.newest(form), printed)

    def test_what_is_not_known_of_a_key_is_named(self):
        for key in ("displayName:sort=1", "state:align=right", "name.segment(x)", "name.scope()", "state.upper(1)", "labels.len()",
                    "createTime.date(%Y)", "name.basename(", "name)", "(name)", "name.basename().upper()"):
            with self.subTest(key=key):
                self.jobs("list", f"--format=table({key})", code=2)
                self.assertIn("names with dots between", self.err)
                self.assertIn(f'"{key}" is none', self.err)
        self.jobs("list", "--format=table", code=2)
        self.assertIn("must have keys in parentheses", self.err)

    def test_gclouds_formats_of_parts(self):
        self.odd_job()
        pools = "jobSpec.workerPoolSpecs"
        for keys, printed in [
                ("displayName,state", {"displayName": 'one, "two"; 3', "state": "JOB_STATE_CANCELLED"}),
                ("name.basename()", {"name": "1000000000000000005"}),
                (f"{pools}[].replicaCount", {"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}, None, {"replicaCount": 3}]}}),
                (f"{pools}[0].machineSpec", {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"machineType": "n1", "acceleratorCount": 2}}]}}),
                (f"{pools}[0].machineSpec.machineType,{pools}[2].replicaCount,state",
                 {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"machineType": "n1"}}, None, {"replicaCount": 3}]},
                  "state": "JOB_STATE_CANCELLED"}),
                ("labels.a", {"labels": {"a": "y"}}), ("absent.key", None), ("job_spec.enable_web_access", {"jobSpec": {"enableWebAccess": True}})]:
            with self.subTest(keys=keys):
                self.assertEqual(json.loads(self.newest(f"json({keys})")), [printed])
                self.assertEqual(json.loads(self.jobs("describe", "one", f"--format=json({keys})")), printed)
        self.assertEqual(self.newest("yaml(state,labels)"), "---\nlabels:\n  b: x\n  a: 'y'\nstate: JOB_STATE_CANCELLED\n")
        self.assertEqual(self.newest("default(state)"), "---\nstate: JOB_STATE_CANCELLED\n")
        self.assertEqual(self.jobs("list", "--filter=displayName=nothing", "--format=json(state)"), "[]\n")

    def test_flattened(self):
        self.odd_job()
        lines = self.jobs("describe", "one", "--format=flattened").splitlines()
        for line in ('displayName:                                             one, "two"; 3',
                     "jobSpec.enableWebAccess:                                 True", "jobSpec.workerPoolSpecs[1]:                              {}",
                     'jobSpec.workerPoolSpecs[2].containerSpec.args[1]:        " b"',
                     'jobSpec.workerPoolSpecs[2].containerSpec.args[2]:        "c\\nd"'):
            self.assertIn(line, lines)
        self.assertEqual(len(lines), 18)
        self.assertEqual(lines, sorted(lines))
        self.assertEqual(self.jobs("describe", "one", "--format=text").splitlines(), lines)
        self.assertEqual(self.newest("flattened(state,labels)"), "---\nlabels.a: y\nlabels.b: x\nstate:    JOB_STATE_CANCELLED\n")
        self.assertEqual(self.newest('flattened[no-pad,separator="="](state,displayName:label=WHO)'),
                         '---\nwho=one, "two"; 3\nstate=JOB_STATE_CANCELLED\n')

    def test_a_format_that_there_is_not_is_refused(self):
        for form, said in [("xml", "must be one of json, yaml, flattened"), ("list", "must be one of json"), ("", "must be one of json"),
                           ("csv", "keys in parentheses, such as csv(displayName,state)"), ("table()", "keys in parentheses"),
                           ("csv(name", "keys in parentheses"), ("value(name,,state)", "names with dots between"), ("json(", "keys in parentheses"),
                           ("value(name)x", "keys in parentheses"), ("jsonx(name)", "must be one of"),
                           ("value(name.sha())", "names with dots between"), ("csv(name:sort=1)", "names with dots between"),
                           ("csv[heading](name)", 'must have in csv[...], with commas between, only: no-heading, separator="TEXT", delimiter'),
                           ("csv[separator](name)", "must have in csv"), ("csv[no-heading=1](name)", "must have in csv"),
                           ("csv[no-heading(name)", "must have in csv"), ('csv[separator="](name)', "must have in csv"),
                           ("json[box]", "must have in json[...]"), ("table[no-quote](name)", "only: no-heading, box, no-transforms")]:
            for words in ("list",), ("describe", "same"):
                with self.subTest(form=form, words=words):
                    self.jobs(*words, "--format=" + form, code=2)
                    self.assertIn("summand: --format: must ", self.err)
                    self.assertIn(said, self.err)

    def test_gclouds_global_flags_are_taken_by_every_verb(self):
        flags = ("--region=r", "--project=p", "--account=a", "--impersonate-service-account=a", "--access-token-file=f",
                 "--billing-project=p", "--configuration=c", "--log-http", "--trace-token=t", "--no-user-output-enabled",
                 "--verbosity=debug", "--quiet", "-q")
        for group in "custom-jobs", "hp-tuning-jobs":
            self.summand(group, "list", *flags)
            for verb in "describe", "stream-logs", "wait", "cancel", "delete":
                for words in ("absent", *flags), (*flags, "absent"):
                    self.summand(group, verb, *words, code=1)
                    self.assertIn("absent: there is no such job", self.err)
        self.jobs("prune", "--dry-run", "--older-than=30d", *flags)

    def test_a_short_option_is_named(self):
        for words in ("list", "-x"), ("describe", "same", "-x"), ("describe", "-x", "same"), ("wait", "same", "-qq", "-x"), \
                ("prune", "-x"), ("validate", "-x", "a.json"), ("plan", "a.json", "-x"):
            self.jobs(*words, code=2)
            self.assertEqual(self.err, f"summand: {'-qq' if '-qq' in words else '-x'}: unknown option; --help lists them\n")
        self.assertIn("Usage:", self.jobs("describe", "same", "-h"))
        self.jobs("describe", "--", "-x", code=1)  # a job may be called so
        self.assertIn("-x: there is no such job", self.err)
        self.jobs("validate", "-q", os.path.join(self.dir, "absent.json"), code=2)
        self.assertIn("absent.json: No such file", self.err)

    def name_of(self, word, code=0):
        return self.jobs("describe", word, "--format=value(name.basename())", code=code).strip()

    def test_a_job_is_found_by_what_is_its_alone(self):
        job = "1000000000000000001"
        for word in (job, f"projects/local/locations/local/customJobs/{job}", "train-b1", "train-b1"):
            self.assertEqual(self.name_of(word), job, word)
        self.assertEqual(self.name_of("sa"), "1000000000000000005")
        self.name_of("train", code=1)
        self.assertIn("5 jobs fit", self.err)
        self.assertIn("\n  1000000000000000004  train-b4  JOB_STATE_FAILED  2026-01-05T12:00:00\n", self.err)
        self.name_of("absent", code=1)
        self.assertIn("there is no such job", self.err)
        self.name_of("", code=1)
        self.jobs("describe", code=2)
        self.jobs("describe", "a", "b", code=2)

    def test_a_resource_name_is_whole(self):
        """One that is cut, or of another place, must not be taken for the beginning of another job's id."""
        place = "projects/local/locations/local/"
        for name in (f"{place}customJobs/100000000000000000", f"{place}customJobs/1", f"{place}customJobs/", f"{place}customJobs",
                     f"{place}hyperparameterTuningJobs/1000000000000000001", f"{place}customJobs/train-b1",
                     "projects/other/locations/local/customJobs/1000000000000000001",
                     "projects/local/locations/us/customJobs/1000000000000000001",
                     f"{place}customJobs/1000000000000000001/", f"{place}customJobs/01000000000000000001"):
            for verb in "describe", "cancel", "delete", "wait", "stream-logs":
                self.jobs(verb, name, code=1)
                self.assertIn(f"{name}: there is no such job; `summand custom-jobs list --uri` shows", self.err)
        self.assertEqual(len(self.ids()), 6)


if __name__ == "__main__":
    at_once.main()
