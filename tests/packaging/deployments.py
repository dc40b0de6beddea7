"""Checks the files that run Sublet on Kubernetes and in compose, as far as that goes without either: that they are what
their schemas say, that what they name is there, and that the daemon accepts each config in them. NODE_PROGRAM is the
`sublet` binary."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import compose_spec
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KUBERNETES, COMPOSE = ROOT / "packaging/kubernetes", ROOT / "packaging/compose"
PROGRAM = os.environ["NODE_PROGRAM"]
# The oldest version and the newest whose schemas all fields have to be in.
KUBERNETES_VERSIONS = "1.28", "1.33"
KUSTOMIZE = "kustomize.config.k8s.io/v1beta1"


def check(what, problem):
    """Prints a line as the script that starts this does; returns whether it is well."""
    print(f"ok      {what}" if problem is None else f"FAILED  {what}: {problem}")
    return problem is None


def sublet(*words):
    """What a command says on stderr and stdout if it fails."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}"


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def wrong_resource(resource):
    """What a schema of Kubernetes has against a resource."""
    if resource["apiVersion"] == KUSTOMIZE:
        return None
    for version in KUBERNETES_VERSIONS:
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"{version}: {error.message} at {list(error.path)}"
    return None


def patched(resources):
    """The DaemonSet with cert-manager's patch in it, merged as Kubernetes merges: lists by name."""
    overlay = documents(ROOT / "packaging/kubernetes-key-per-pod/kustomization.yaml")[0]
    patch = yaml.safe_load(overlay["patches"][0]["patch"])
    return merged(daemon_set(resources), patch)


def merged(base, patch):
    if isinstance(base, dict) and isinstance(patch, dict):
        together = {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
        return {key: value for key, value in together.items() if value is not None}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(one, dict) for one in base + patch):
        by_name = {one["name"]: one for one in base}
        for one in patch:
            by_name[one["name"]] = merged(by_name.get(one["name"]), one)
        return list(by_name.values())
    return patch


def daemon_set(resources):
    (found,) = [each for each in resources if each["kind"] == "DaemonSet"]
    return found


def dangling(resources, workload):
    """What a pod mounts and nobody declares, and config maps that are not there."""
    pod = workload["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {
        mount["name"] for container in pod["initContainers"] + pod["containers"] for mount in container["volumeMounts"]
    }
    maps = {each["metadata"]["name"] for each in resources if each["kind"] == "ConfigMap"}
    named = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
    selected = workload["spec"]["selector"]["matchLabels"].items()
    labels = workload["spec"]["template"]["metadata"]["labels"].items()
    problems = []
    if mounted != volumes.keys():
        problems.append(f"volumes {sorted(volumes)}, mounted {sorted(mounted)}")
    if not named <= maps:
        problems.append(f"config maps {sorted(named)}, there are {sorted(maps)}")
    if not selected <= labels:
        problems.append("the selector misses its own pods")
    return "; ".join(problems) or None


def wrong_config(resources, workload, folder):
    """What the daemon has against the config as the init container writes it, on hosts with either kind of address."""
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["initContainers"]
    (template,) = [each["data"]["sublet.toml"] for each in resources if each["kind"] == "ConfigMap"]
    values = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    for address in "10.0.0.1", "fd00::1":
        home = pathlib.Path(tempfile.mkdtemp(dir=folder))
        filled = {"NODE": "node-1.example.net", "HOST_ADDRESS": address}
        for name in "CERTIFICATE", "KEY":
            filled[name] = values[name].replace("$(NODE)", filled["NODE"])
        problem = with_certificates(home, "prod", filled["NODE"], filled)
        problem = problem or run_init(container, template, filled, home)
        if problem:
            return f"{address}: {problem}"
    return None


def with_certificates(home, cluster, node, filled):
    """Makes the files that the secrets have."""
    tls, etcd = home / "etc/sublet/tls", home / "etc/sublet/etcd"
    tls.mkdir(parents=True)
    etcd.mkdir(parents=True)
    problem = sublet("lend", "ca", "init", "--cluster", cluster, "--dir", tls)
    problem = problem or sublet("lend", "ca", "issue", node, "--dir", tls)
    if problem is None:
        for name, suffix in ("CERTIFICATE", "crt"), ("KEY", "key"):
            wanted = home / filled[name].lstrip("/")
            if wanted != tls / f"{node}.{suffix}":
                (tls / f"{node}.{suffix}").rename(wanted)
        shutil.copy(tls / "ca.crt", etcd / "ca.crt")
        (etcd / "password").write_text("secret\n")
    return problem


def run_init(container, template, filled, home):
    """Runs the init container's own script with its paths below another folder."""
    (home / "template").mkdir()
    (home / "template/sublet.toml").write_text(moved(template, home))
    (home / "bin").mkdir()
    (home / "bin/sublet").symlink_to(pathlib.Path(PROGRAM).resolve())
    words = [*container["command"], *container["args"]]
    script = moved(words[-1], home).replace("/template/", f"{home}/template/")
    env = {"PATH": f"{home}/bin:{os.environ['PATH']}", **{name: moved(text, home) for name, text in filled.items()}}
    done = subprocess.run([*words[:-1], script], env=env, capture_output=True, text=True, timeout=60)
    left = re.findall("@[A-Z]+@", (home / "etc/sublet/sublet.toml").read_text()) if done.returncode == 0 else []
    return f"{done.stdout}{done.stderr}" if done.returncode != 0 else f"{left} was not filled in" if left else None


def moved(text, home):
    return text.replace("/etc/sublet", f"{home}/etc/sublet")


def wrong_compose(stack):
    try:
        compose_spec.PyCompose.from_json(json.dumps(stack))
    except ValueError as error:
        return str(error)
    volumes, services = stack["volumes"].keys(), stack["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            is_there = (COMPOSE / source).is_file() if source.startswith(".") else source in volumes
            if not is_there:
                return f"{name} mounts {source}, which is not there"
        for other in service.get("depends_on", {}):
            if other not in services:
                return f"{name} waits for {other}, which is not there"
    return None


def wrong_node(folder, stack, node):
    """What the daemon has against a node's config, with certificates as the stack makes them."""
    home = pathlib.Path(folder) / "certificates"
    if not home.exists():
        home.mkdir()
        problem = sublet("lend", "ca", "init", "--cluster", "compose", "--dir", home)
        problems = [problem, *(sublet("lend", "ca", "issue", name, "--dir", home) for name in "abc")]
        if any(problems):
            return "; ".join(filter(None, problems))
    if stack["services"][node]["volumes"][0] != f"./{node}.toml:/etc/sublet/sublet.toml:ro":
        return "it has the config of another node"
    config = pathlib.Path(folder) / f"{node}.toml"
    config.write_text((COMPOSE / f"{node}.toml").read_text().replace("/certificates/", f"{home}/"))
    return sublet("config", "check", config)


def main():
    resources = documents(KUBERNETES / "daemonset.yaml")
    with_cert_manager = patched(resources)
    stack = documents(COMPOSE / "compose.yaml")[0]
    passed = []
    for each in resources:
        passed.append(check(f"kubernetes: {each['kind']} is one", wrong_resource(each)))
    passed.append(check("kubernetes: DaemonSet with cert-manager is one", wrong_resource(with_cert_manager)))
    with tempfile.TemporaryDirectory() as folder:
        for label, workload in ("", daemon_set(resources)), (" with cert-manager", with_cert_manager):
            passed.append(check(f"kubernetes{label}: what pods mount is there", dangling(resources, workload)))
            passed.append(check(f"kubernetes{label}: config", wrong_config(resources, workload, folder)))
        passed.append(check("compose: the stack is one", wrong_compose(stack)))
        for node in "abc":
            passed.append(check(f"compose: config of {node}", wrong_node(folder, stack, node)))
    sys.exit(not all(passed))


main()
