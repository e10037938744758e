"""The images of reduction servers and workers, and jobs of Vertex AI's with them: replicas in containers with the names, the
variables and the end that they have there, and nothing of Summand's runner.

tools/package makes the images where a mirror of Debian is reached; elsewhere images of this machine's files are put in their
place, and what is said of the images themselves is not looked at.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.request
import uuid

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
MIRROR = os.environ.get("SUMMAND_MIRROR", "http://deb.debian.org/debian")
LONG = 120
MOST_MEGABYTES = 30
NAME = "summand-test-" + uuid.uuid4().hex[:12]
TRAINER = f"localhost/{NAME}-trainer"
# What Vertex AI sets, and nothing else.
VERTEX = ("CLUSTER_SPEC", "TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "CLOUD_ML_JOB_ID")
# What runs wherever podman does, containers within containers included.
CONFIGURATION = """
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
[containers]
default_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]
"""
# As specs/guide/vertex.md has them.
PLUGIN = {"NCCL_NET_PLUGIN": "summand", "NCCL_TUNER_PLUGIN": "libnccl-net-summand.so", "NCCL_COLLNET_ENABLE": "1"}
SERVER_WITH_TOKEN = 'exec summand-reduction-server --listen=0.0.0.0:2222 --token-file=<(echo "$TOKEN")'
WORKER_WITH_TOKEN = 'umask 077; echo "$TOKEN" >/tmp/token; SUMMAND_TOKEN_FILE=/tmp/token exec summand-digits --epochs=5'


def podman(*words, check=True, timeout=LONG):
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode:
        raise AssertionError(f"podman {' '.join(words)}: {done.stdout}{done.stderr}")
    return done


def libraries(path):
    listing = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(", listing)


def import_image(folder, name, *changes):
    """An image of programs of the build and a shell, with the libraries that they need."""
    programs = [f"{BUILD}/bin/summand-digits", f"{BUILD}/bin/summand-reduction-server", shutil.which("bash")]
    plugin = f"{BUILD}/lib/libnccl-net-summand.so"
    with tarfile.open(f"{folder}/image.tar", "w") as image:
        for program in programs:
            image.add(os.path.realpath(program), "bin/" + os.path.basename(program))
        for library in sorted({plugin, *(one for each in (*programs, plugin) for one in libraries(each))}):
            image.add(os.path.realpath(library), "lib/x86_64-linux-gnu/" + os.path.basename(library)
                      if "ld-linux" not in library else library.lstrip("/"))
        image.add(f"{SOURCE}/worker/examples/digits/digits.txt", "share/summand/digits.txt")
        empty = tarfile.TarInfo("tmp")
        empty.type, empty.mode = tarfile.DIRTYPE, 0o1777
        image.addfile(empty)
    podman("import", "--quiet", "--change=ENV PATH=/bin", "--change=ENV LD_LIBRARY_PATH=/lib/x86_64-linux-gnu",
           *(f"--change={change}" for change in changes), f"{folder}/image.tar", name)


def mirror_is_reached():
    try:
        with urllib.request.urlopen(f"{MIRROR}/dists/stable/Release", timeout=10):
            return True
    except OSError:
        return False


def why_no_image():
    """Why tools/package cannot make one here; None: it can."""
    if os.geteuid() != 0:
        return "images are made by root"
    for program in ("buildah", "debootstrap", "cpack", "dpkg-shlibdeps"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return None if mirror_is_reached() else f"{MIRROR} is not reached"


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="summand-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        os.environ["CONTAINERS_CONF"] = f"{folder}/containers.conf"
        with open(os.environ["CONTAINERS_CONF"], "w", encoding="utf-8") as file:
            file.write(CONFIGURATION)
        import_image(folder, TRAINER)
        cls.addClassCleanup(podman, "rmi", "--force", TRAINER, check=False)
        made = podman("network", "create", NAME, check=False)
        cls.addClassCleanup(podman, "network", "rm", "--force", NAME, check=False)
        if made.returncode == 0:
            made = podman("run", "--rm", f"--network={NAME}", TRAINER, "summand-digits", "--help", check=False)
        if made.returncode:
            raise unittest.SkipTest(f"podman runs no containers with a network here: {made.stderr}")
        cls.reason = why_no_image()
        cls.worker = TRAINER
        if cls.reason:
            cls.image = f"localhost/{NAME}-server"
            import_image(folder, cls.image, 'ENTRYPOINT ["summand-reduction-server"]', 'CMD ["--listen=0.0.0.0:2222"]')
            cls.addClassCleanup(podman, "rmi", "--force", cls.image, check=False)
        else:
            cls.image, cls.worker = cls.make_images(folder)

    @classmethod
    def make_images(cls, folder):
        done = subprocess.run([f"{SOURCE}/tools/package", "--images", f"--tag={NAME}", f"{folder}/packages"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        names = [f"localhost/{name}" for name in done.stdout.split()[-2:]]
        for name in names:
            cls.addClassCleanup(podman, "rmi", "--force", name, check=False)
        return names

    def image_only(self):
        if self.reason:
            self.skipTest(self.reason)

    def test_image_is_small_and_says_what_it_is(self):
        self.image_only()
        [about] = json.loads(podman("image", "inspect", self.image).stdout)
        self.assertLess(about["Size"], MOST_MEGABYTES * 1000000)
        self.assertEqual(about["Config"]["Entrypoint"], ["summand-reduction-server"])
        self.assertEqual(about["Config"]["Cmd"], ["--listen=0.0.0.0:2222"])
        self.assertIn("2222/tcp", about["Config"]["ExposedPorts"])
        self.assertEqual(about["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")

    def test_image_has_the_licences_of_what_is_in_it(self):
        self.image_only()
        script = "for file in /usr/share/doc/*/copyright; do echo ${file%/*}; done"
        found = podman("run", "--rm", "--network=none", "--entrypoint=bash", self.image, "-c", script).stdout.split()
        self.assertLessEqual({f"/usr/share/doc/{name}" for name in ("libc6", "bash", "libssl3", "summand-reduction-server")}, set(found))

    def test_server_does_not_serve_strangers_by_default(self):
        done = podman("run", "--rm", "--network=none", self.image, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--insecure lets in everybody", done.stderr)

    # A job as Vertex AI runs it: 1 chief, 2 workers, 2 reduction servers.

    def contract(self):
        """The variables of each replica that Vertex AI sets too."""
        pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": count,
                  "containerSpec": {"imageUri": image, "command": command}}
                 for count, image, command in ((1, "trainer", ["x"]), (2, "trainer", ["x"]), (2, "reductionserver", []))]
        done = subprocess.run([f"{BUILD}/bin/summand", "custom-jobs", "env", "-", "--format=json"], capture_output=True, text=True,
                              input=json.dumps({"displayName": NAME, "jobSpec": {"workerPoolSpecs": pools}}), check=True)
        return {name: {key: value for key, value in variables.items() if key in VERTEX}
                for name, variables in json.loads(done.stdout).items()}

    def start(self, replicas, name, image, words, options=(), variables=None):
        """A replica with its name on the network, and all names in its /etc/hosts."""
        hosts = [f"--add-host={host}:{address}" for host, address in replicas.values()]
        host, address = replicas[name]
        environment = [f"--env={key}={value}" for key, value in {**self.contract()[name], **(variables or {})}.items()]
        podman("run", "--detach", f"--name={NAME}-{name}", f"--hostname={host}", f"--network={NAME}", f"--ip={address}", *hosts,
               *environment, *options, image, *words)
        self.addCleanup(podman, "rm", "--force", "--time=0", f"{NAME}-{name}", check=False)

    def replicas(self):
        """Where each is: its name on Vertex AI, and an address of the network."""
        [network] = json.loads(podman("network", "inspect", NAME).stdout)
        subnet = re.search(r'"subnet": "(\d+\.\d+\.\d+)\.0/24"', json.dumps(network))[1]
        found = {}
        for name, variables in self.contract().items():
            pool, index = re.fullmatch(r"workerpool(\d)-(\d)", name).groups()
            host = json.loads(variables["CLUSTER_SPEC"])["cluster"][f"workerpool{pool}"][int(index)]
            self.assertRegex(host, r"^cmle-training-workerpool\d-\w+-\d:2222$")
            found[name] = (host.partition(":")[0], f"{subnet}.{100 + len(found)}")
        return found

    def log(self, name):
        done = podman("logs", f"{NAME}-{name}")
        return done.stdout + done.stderr

    def run_job(self, server, worker, variables=None, image=TRAINER):
        """Runs it as Vertex AI does: the chief ends, then all others are asked to. What the workers have said."""
        replicas = self.replicas()
        for name in replicas:
            if name.startswith("workerpool2"):
                self.start(replicas, name, self.image, *server, variables=variables)
            else:
                self.start(replicas, name, image, *worker, variables=variables)
        code = podman("wait", f"{NAME}-workerpool0-0").stdout.strip()
        self.assertEqual(code, "0", "".join(self.log(name) for name in replicas))
        begin = time.monotonic()
        podman("stop", "--time=30", *(f"{NAME}-{name}" for name in replicas if name != "workerpool0-0"))
        self.assertLess(time.monotonic() - begin, 20, "servers must end when they are asked to")
        for name in ("workerpool2-0", "workerpool2-1"):
            self.assertEqual(podman("inspect", "--format={{.State.ExitCode}}", f"{NAME}-{name}").stdout.strip(), "0")
            chunks = re.search(r"ended: (\d+) chunks reduced", self.log(name))
            self.assertGreater(int(chunks[1]), 0, f"{name} must have reduced: {self.log(name)}")
        return "".join(self.log(name) for name in replicas if not name.startswith("workerpool2"))

    def assert_same_weights(self, said):
        weights = set(re.findall(r"weights (\w+)", said))
        self.assertEqual(len(weights), 1, f"all ranks must have the same weights, got {weights}")

    def test_without_a_token(self):
        self.assert_same_weights(self.run_job((["--listen=0.0.0.0:2222", "--insecure"],), (["summand-digits", "--epochs=5"],)))

    def test_with_a_token(self):
        self.assert_same_weights(self.run_job((["-c", SERVER_WITH_TOKEN], ["--entrypoint=bash"]),
                                              (["-c", WORKER_WITH_TOKEN], ["--entrypoint=bash"]),
                                              {"TOKEN": "0123456789abcdef0123456789abcdef"}))

    def test_workers_with_the_plugin(self):
        """In the base image of workers, with the guide's three variables: NCCL's part is tests/nccl_proxy/vertex_worker.c."""
        options = [f"--volume={os.path.realpath(BUILD)}/tests/vertex_worker:/vertex_worker:ro"]
        said = self.run_job((["--listen=0.0.0.0:2222", "--insecure"],), (["/vertex_worker"], options), PLUGIN, self.worker)
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3: 20 all-reduces, 0 wrong elements", said)
        self.assertIn("2 reduction servers", said)

    def test_guide_has_these_commands(self):
        with open(f"{SOURCE}/specs/guide/vertex.md", encoding="utf-8") as file:
            page = file.read().replace('\\"', '"')
        self.assertIn(SERVER_WITH_TOKEN, page)
        self.assertIn(WORKER_WITH_TOKEN.partition("exec")[0], page)
        for name, value in PLUGIN.items():
            self.assertIn(f'{{"name": "{name}", "value": "{value}"}}', page)


    # The same cluster from a Compose file, with the image in place of the spec's.

    def test_compose_file(self):
        if not shutil.which("podman-compose"):
            self.skipTest("podman-compose is not installed")
        folder = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, folder)
        pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": count,
                  "containerSpec": {"imageUri": TRAINER, "command": ["summand-digits"], "args": ["--epochs=3"]}} for count in (1, 2)]
        pools.append({"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": 1,
                      "containerSpec": {"imageUri": "reductionserver"}})
        spec = {"displayName": NAME, "jobSpec": {"workerPoolSpecs": pools,
                                                 "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"}}}
        made = subprocess.run([f"{BUILD}/bin/summand", "custom-jobs", "export", "-", "--to=compose", f"--server-image={self.image}"],
                              input=json.dumps(spec), capture_output=True, text=True, check=True).stdout
        with open(f"{folder}/compose.yaml", "w", encoding="utf-8") as file:
            file.write(made)
        [token] = re.findall(r"^#   (\(umask .*\))$", made, flags=re.MULTILINE)
        subprocess.run(["bash", "-c", token], cwd=folder, check=True)

        def compose(*words):
            return subprocess.run(["podman-compose", "-p", NAME, "-f", "compose.yaml", *words], cwd=folder, capture_output=True,
                                  text=True, timeout=LONG, check=False)

        self.addCleanup(podman, "network", "rm", "--force", f"{NAME}_job", check=False)
        self.addCleanup(compose, "down", "--volumes", "--timeout=1")
        compose("up", "--detach")
        probe = podman("run", "--rm", f"--network={NAME}_job", "--entrypoint=bash", TRAINER, "-c",
                       "exec 3<>/dev/tcp/workerpool2-0/2222", check=False)
        if "Name or service not known" in probe.stderr:
            self.skipTest("podman's networks know no names here: its plugin dnsname is not installed")
        self.assertEqual(podman("wait", f"{NAME}_workerpool0-0_1").stdout.strip(), "0")
        logs = "".join(podman("logs", f"{NAME}_{name}_1").stdout for name in ("workerpool0-0", "workerpool1-0", "workerpool1-1"))
        self.assertEqual(len(set(re.findall(r"weights (\w+)", logs))), 1, logs)


if __name__ == "__main__":
    if not shutil.which("podman") or not shutil.which("runc"):
        print("skipped: podman and runc are not installed")
        sys.exit(77)
    unittest.main()
