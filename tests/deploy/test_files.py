"""What is in deploy/ fits together and fits the service."""

import re
import stat
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from posse.cli.main import app as cli
from posse.service.http.app import create_app
from posse.service.settings import Limits, Settings, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def paths():
    return set(create_app().openapi()["paths"])


def manifests(file="posse.yml"):
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())}


def options():
    """Every option that posse serve knows."""
    text = CliRunner().invoke(cli, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    return set(re.findall(r"--[a-z-]+", re.sub(r"\x1b\[[0-9;]*m", "", text)))


def test_the_image_copies_what_is_there_and_serves():
    text = (DEPLOY / "Dockerfile").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    assert set(re.findall(r'"(--[a-z-]+)"', text)) <= options()
    extras = re.search(r'"/src\[(.*?)\]"', text)[1].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= set(known)
    # What runs the same steps without an engine installs the same.
    assert f'"$root[{",".join(extras)}]"' in (DEPLOY / "prove-image").read_text()
    assert re.search(r"posse warmup [^&\n>]*", text)[0].strip() in (DEPLOY / "prove-image").read_text()
    assert (DEPLOY / "prove-image").stat().st_mode & stat.S_IXUSR


def test_probes_ask_for_paths_that_there_are(paths):
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in paths
        assert asked["port"] in ports
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {word for word in container["args"] if word.startswith("--")} <= options()


def test_manifests_name_each_other():
    found = manifests()
    assert set(found) == {"Deployment", "Service", "PodDisruptionBudget"}
    pods = found["Deployment"]["spec"]["template"]
    labels = pods["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    budget = found["PodDisruptionBudget"]["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert budget["minAvailable"] < found["Deployment"]["spec"]["replicas"]
    mounts = {mount["name"] for mount in pods["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pods["spec"]["volumes"]}


def test_a_pod_can_write_to_its_compiled_kernels():
    # Numba ignores a cache that it cannot write to, and compiles for minutes.
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)", (DEPLOY / "Dockerfile").read_text())[1]
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,), (copying,) = pod["containers"], pod["initContainers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    (target,) = copying["volumeMounts"]
    assert target["name"] == mounted[cache]
    assert {"name": mounted[cache], "emptyDir": {}} in pod["volumes"]
    assert target["mountPath"] != cache  # the image's own files must not be hidden where they are copied from
    assert copying["command"] == ["cp", "-R", "--preserve=timestamps", f"{cache}/.", target["mountPath"]]
    assert copying["image"] == container["image"]


def test_the_first_keys_are_made_before_the_service_starts():
    text = (DEPLOY / "kubernetes/posse.yml").read_text()
    steps = [line.strip("# \n") for line in text.splitlines() if line.startswith("#   kubectl")]
    (pod,) = manifests("keys.yml").values()
    (container,) = pod["spec"]["containers"]
    create = f"exec {pod['metadata']['name']} -- posse service keys create"
    order = ("apply -f deploy/kubernetes/keys.yml", create, "apply -f deploy/kubernetes/posse.yml")
    places = [next(i for i, step in enumerate(steps) if words in step) for words in order]
    assert places == sorted(places)
    serving = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert (container["env"], container["image"]) == (serving["env"], serving["image"])
    for file in re.findall(r"deploy/kubernetes/\S+\.yml", text):
        assert (ROOT / file).exists()


def test_prometheus_brings_a_key(paths):
    (monitor,) = manifests("monitor.yml").values()
    (endpoint,) = monitor["spec"]["endpoints"]
    service = manifests()["Service"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] in paths
    secret = endpoint["authorization"]["credentials"]
    steps = (DEPLOY / "kubernetes/posse.yml").read_text()
    assert f"create secret generic {secret['name']} " in steps
    assert f'--from-literal={secret["key"]}="$(kubectl' in steps


def test_compose_mounts_what_is_there():
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    services = compose["services"]
    assert set(services) == {"postgres", "posse", "prometheus", "grafana", "proxy"}
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"], volume
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
    command = services["posse"]["command"]
    assert command[command.index("--workers") + 1] == "2"
    assert {word for word in command if word.startswith("--")} <= options()
    assert (DEPLOY / services["posse"]["build"]["context"] / services["posse"]["build"]["dockerfile"]).exists()
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    for file in scraped["rule_files"]:
        assert (DEPLOY / "prometheus" / file).exists()
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["posse:8080"]
    assert job["authorization"]["credentials_file"].removeprefix("/run/secrets/") in services["prometheus"]["secrets"]


def test_the_settings_file_has_the_defaults():
    found = read_settings(str(DEPLOY / "posse.toml"))
    assert found == Settings(limits=Limits())


def test_the_unit_allows_as_many_files_as_connections_need():
    found = re.search(r"^LimitNOFILE=(\d+)$", (DEPLOY / "posse.service").read_text(), re.MULTILINE)
    assert found, "without it the system's default counts, often 1024, which a thousand connections use up"
    # Each connection is a file; the database, snapshots and the log of the service need some more.
    assert int(found[1]) >= 2 * Limits().connections


def test_shards_on_kubernetes_stay_off_the_head_and_on_storage_that_all_see():
    from posse.distributed.running import RESOURCES

    found = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text())}
    cluster, claim = found["RayCluster"]["spec"], found["PersistentVolumeClaim"]
    head = cluster["headGroupSpec"]
    # Ray puts what asks for nothing anywhere, so a shard asks for memory, and the head has none to give.
    assert 0 < int(head["rayStartParams"]["memory"]) < RESOURCES["memory"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for group in (head, *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/fleet"]
