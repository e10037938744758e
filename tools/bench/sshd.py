"""sshd in every node of a lab: what is beside the nodes reaches each by `ssh NODE`, as on a cluster."""

import os
import pwd
import shutil
import subprocess

import lab
import listening

SSHD = "/usr/sbin/sshd"
PORT = 22
FOLDER = "/run/ssh"     # memory of the lab
CONFIGS = ["/etc/ssh/ssh_config", os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".ssh/config")]     # as ssh finds them
# A session has the PATH of who made the lab: what is installed on one machine is on all hosts here. Its home is the
# lab's: a shell's start files of this machine may wait for what a killed session has left there, and for ever.
SERVER = f"""
Port {PORT}
HostKey {FOLDER}/host
AuthorizedKeysFile {FOLDER}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
MaxStartups 100
SetEnv "PATH={os.environ.get('PATH', os.defpath)}" "HOME={FOLDER}/home"
"""
CLIENT = f"""
Host *
    User root
    IdentityFile {FOLDER}/user
    IdentitiesOnly yes
    UserKnownHostsFile {FOLDER}/known
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""
# /sys shows the interfaces of the network namespace that it was mounted in.
SERVE = f"mount -t sysfs sysfs /sys && exec {SSHD} -D -e -f {FOLDER}/server"


def missing():
    if not shutil.which("ssh") or not os.path.exists(SSHD):
        return "needs ssh and sshd (Debian packages openssh-client, openssh-server)"
    return None


def write(name, text):
    with open(os.open(f"{FOLDER}/{name}", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def make_keys(nodes):
    for name in "user", "host":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", f"{FOLDER}/{name}"], check=True)
    with open(f"{FOLDER}/host.pub", encoding="ascii") as file:
        key = file.read()
    write("known", "".join(f"{lab.name_of(node)} {key}" for node in range(nodes.nodes)))


def start(nodes):
    """Returns when each node's sshd listens. They end with the lab."""
    if missing():
        raise lab.Unable(missing())
    os.makedirs("/run/sshd", 0o755, exist_ok=True)
    os.makedirs(f"{FOLDER}/home", 0o700)
    make_keys(nodes)
    write("server", SERVER)
    write("client", CLIENT)
    for path in filter(os.path.exists, CONFIGS):
        lab.mount(f"{FOLDER}/client", path, None, lab.MS_BIND)
    with open(f"{FOLDER}/log", "wb") as log:
        servers = [nodes.start(node, ["unshare", "-m", "sh", "-c", SERVE], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                   for node in range(nodes.nodes)]
    for server in servers:
        if not listening.wait_for(server, PORT):
            with open(f"{FOLDER}/log", encoding="utf-8", errors="replace") as log:
                raise lab.Unable(f"sshd: {log.read().strip()}")
