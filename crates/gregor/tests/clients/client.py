"""The client for Python against a local Kubernetes: creates, watches, reads, runs, changes, deletes."""

import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

SECONDS = 60
SCRIPT = "trap 'exit 0' TERM; echo told $(cat /etc/told/word); while :; do sleep 0.2; done"


def deployment():
    container = client.V1Container(
        name="main",
        image="busybox",
        command=["sh", "-c", SCRIPT],
        env=[client.V1EnvVar(name="WORD", value="spoken")],
        volume_mounts=[client.V1VolumeMount(name="told", mount_path="/etc/told")],
    )
    volume = client.V1Volume(name="told", config_map=client.V1ConfigMapVolumeSource(name="told"))
    labels = {"app": "python"}
    pod = client.V1PodSpec(
        containers=[container], volumes=[volume], termination_grace_period_seconds=2
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="python"),
        spec=client.V1DeploymentSpec(
            replicas=1,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=pod
            ),
        ),
    )


def is_ready(pod):
    conditions = pod.status.conditions or []
    return any(c.type == "Ready" and c.status == "True" for c in conditions)


def watch_until_ready(core, namespace):
    """The phases that were seen, and the pod."""
    seen = []
    events = watch.Watch().stream(
        core.list_namespaced_pod,
        namespace,
        label_selector="app=python",
        timeout_seconds=SECONDS,
    )
    for event in events:
        pod = event["object"]
        seen.append((event["type"], pod.status.phase))
        if is_ready(pod):
            return seen, pod
    raise AssertionError(f"no pod is ready: {seen}")


def eventually(what, holds):
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"{what}: not in time"
        time.sleep(0.1)


def run_command(core, pod, namespace):
    command = ["sh", "-c", "echo $WORD; echo also here >&2; exit 0"]
    said = stream(
        core.connect_get_namespaced_pod_exec,
        pod.metadata.name,
        namespace,
        command=command,
        stderr=True,
        stdin=False,
        stdout=True,
        tty=False,
        _preload_content=False,
    )
    said.run_forever(timeout=SECONDS)
    assert said.read_stdout().strip() == "spoken"
    assert said.read_stderr().strip() == "also here"
    assert said.returncode == 0, said.returncode


def main():
    config.load_kube_config()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    namespace = "python"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    told = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="told"), data={"word": "you so"})
    core.create_namespaced_config_map(namespace, told)
    apps.create_namespaced_deployment(namespace, deployment())

    seen, pod = watch_until_ready(core, namespace)
    assert seen[-1][1] == "Running", seen
    name = pod.metadata.name
    eventually(
        "the log", lambda: core.read_namespaced_pod_log(name, namespace) == "told you so\n"
    )
    run_command(core, pod, namespace)

    apps.patch_namespaced_deployment_scale("python", namespace, {"spec": {"replicas": 2}})
    eventually(
        "two are ready",
        lambda: apps.read_namespaced_deployment("python", namespace).status.ready_replicas == 2,
    )

    try:
        core.create_namespaced_config_map(namespace, told)
        raise AssertionError("made twice")
    except ApiException as error:
        assert error.status == 409, error

    core.delete_namespace(namespace)

    def gone():
        try:
            core.read_namespace(namespace)
            return False
        except ApiException as error:
            assert error.status == 404, error
            return True

    eventually("the namespace is gone", gone)
    assert not core.list_pod_for_all_namespaces(label_selector="app=python").items
    print("all is well")


main()
