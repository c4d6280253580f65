import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.strimzi.api.kafka.Crds;
import io.strimzi.api.kafka.model.common.Condition;
import io.strimzi.api.kafka.model.kafka.Kafka;
import io.strimzi.api.kafka.model.kafka.KafkaBuilder;
import io.strimzi.api.kafka.model.kafka.KafkaStatus;
import io.strimzi.api.kafka.model.kafka.listener.GenericKafkaListenerBuilder;
import io.strimzi.api.kafka.model.kafka.listener.KafkaListenerType;
import io.strimzi.api.kafka.model.kafka.listener.ListenerStatus;
import io.strimzi.api.kafka.model.nodepool.KafkaNodePool;
import io.strimzi.api.kafka.model.nodepool.KafkaNodePoolBuilder;
import io.strimzi.api.kafka.model.nodepool.ProcessRoles;
import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/**
 * A program as its users have written them for Strimzi: creates a cluster, waits until it is ready, reads
 * its status, deletes it and waits until it is gone. Prints a line for each thing that a test looks at.
 */
public class StrimziClient {
    private static final long READY_SECONDS = 300;
    private static final long GONE_SECONDS = 120;
    private static final String NAME = "from-java";
    private static final String POOL = "dual";

    public static void main(String[] arguments) throws Exception {
        Config config = Config.fromKubeconfig(new File(arguments[0]));
        String namespace = arguments[1];
        try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
            client.namespaces()
                    .resource(new NamespaceBuilder().withNewMetadata().withName(namespace).endMetadata().build())
                    .create();
            create(client, namespace);
            report(ready(client, namespace));
            delete(client, namespace);
        }
        System.exit(0);
    }

    private static void create(KubernetesClient client, String namespace) {
        KafkaNodePool pool = new KafkaNodePoolBuilder()
                .withNewMetadata()
                    .withName(POOL)
                    .withNamespace(namespace)
                    .withLabels(Map.of("strimzi.io/cluster", NAME))
                .endMetadata()
                .withNewSpec()
                    .withReplicas(1)
                    .withRoles(ProcessRoles.CONTROLLER, ProcessRoles.BROKER)
                    .withNewJbodStorage()
                        .addNewEphemeralStorageVolume().withId(0).endEphemeralStorageVolume()
                    .endJbodStorage()
                .endSpec()
                .build();
        Kafka kafka = new KafkaBuilder()
                .withNewMetadata().withName(NAME).withNamespace(namespace).endMetadata()
                .withNewSpec()
                    .withNewKafka()
                        .withListeners(
                            new GenericKafkaListenerBuilder()
                                .withName("plain").withPort(9092)
                                .withType(KafkaListenerType.INTERNAL).withTls(false).build(),
                            new GenericKafkaListenerBuilder()
                                .withName("tls").withPort(9093)
                                .withType(KafkaListenerType.INTERNAL).withTls(true).build())
                        .withConfig(Map.of(
                            "offsets.topic.replication.factor", 1,
                            "transaction.state.log.replication.factor", 1,
                            "transaction.state.log.min.isr", 1,
                            "default.replication.factor", 1,
                            "min.insync.replicas", 1))
                    .endKafka()
                .endSpec()
                .build();
        Crds.kafkaNodePoolOperation(client).resource(pool).create();
        Crds.kafkaOperation(client).resource(kafka).create();
        System.out.println("created " + namespace + "/" + NAME);
    }

    private static Kafka ready(KubernetesClient client, String namespace) {
        return Crds.kafkaOperation(client)
                .inNamespace(namespace)
                .withName(NAME)
                .waitUntilCondition(StrimziClient::isReady, READY_SECONDS, TimeUnit.SECONDS);
    }

    private static boolean isReady(Kafka kafka) {
        if (kafka == null || kafka.getStatus() == null) {
            return false;
        }
        KafkaStatus status = kafka.getStatus();
        List<Condition> conditions = status.getConditions();
        return status.getObservedGeneration() == kafka.getMetadata().getGeneration()
                && conditions != null
                && conditions.stream().anyMatch(c -> "Ready".equals(c.getType()) && "True".equals(c.getStatus()));
    }

    private static void report(Kafka kafka) {
        KafkaStatus status = kafka.getStatus();
        System.out.println("clusterId " + status.getClusterId());
        System.out.println("kafkaVersion " + status.getKafkaVersion());
        status.getKafkaNodePools().forEach(pool -> System.out.println("pool " + pool.getName()));
        for (ListenerStatus listener : status.getListeners()) {
            System.out.println("listener " + listener.getName() + " " + listener.getBootstrapServers());
            if (listener.getCertificates() != null) {
                System.out.println("certificates " + listener.getName() + " " + listener.getCertificates().size());
            }
        }
    }

    private static void delete(KubernetesClient client, String namespace) throws InterruptedException {
        Crds.kafkaOperation(client).inNamespace(namespace).withName(NAME).delete();
        Crds.kafkaNodePoolOperation(client).inNamespace(namespace).withName(POOL).delete();
        Crds.kafkaOperation(client).inNamespace(namespace).withName(NAME)
                .waitUntilCondition(Objects::isNull, GONE_SECONDS, TimeUnit.SECONDS);
        Crds.kafkaNodePoolOperation(client).inNamespace(namespace).withName(POOL)
                .waitUntilCondition(Objects::isNull, GONE_SECONDS, TimeUnit.SECONDS);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(GONE_SECONDS);
        while (!client.pods().inNamespace(namespace).list().getItems().isEmpty()) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException("there are still pods");
            }
            Thread.sleep(200);
        }
        System.out.println("gone");
    }
}
