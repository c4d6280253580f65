# A Kafka node: Apache's Kafka, and gregor as its first process. From the root of the repository:
#
#   docker build -f deploy/docker/kafka.Dockerfile --build-arg KAFKA_IMAGE=apache/kafka:4.3.1 \
#       -t gregor-kafka:0.1.0-kafka-4.3.1 .

# A release names each base by its digest: cargo xtask dist.
ARG RUST_IMAGE=rust:1.95.0-bookworm
ARG MAVEN_IMAGE=maven:3.9.11-eclipse-temurin-21
ARG KAFKA_IMAGE=apache/kafka:4.3.1
ARG JRE_IMAGE=eclipse-temurin:21.0.8_9-jre-noble

FROM ${RUST_IMAGE} AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --release --package gregor

# The agent through which a node knows how its Kafka is; the version is that of crates/artifacts/kafka/pom.xml.
FROM ${MAVEN_IMAGE} AS agent
ARG JMX_AGENT_VERSION=1.0.1
WORKDIR /agent
COPY crates/artifacts/kafka/jars-4.3.1.sha256 sums
RUN mvn --batch-mode --quiet --strict-checksums \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory=/agent/agents \
    -Dartifact=io.prometheus.jmx:jmx_prometheus_javaagent:${JMX_AGENT_VERSION} \
    && grep ' agents/' sums > agent.sums && sha256sum --check --strict agent.sums

FROM ${KAFKA_IMAGE} AS kafka

# Apache's own image is Alpine; gregor needs the C library of Debian and its relatives.
FROM ${JRE_IMAGE}
COPY --from=kafka /opt/kafka /opt/kafka
COPY --from=agent /agent/agents /opt/kafka/agents
COPY --from=build /source/target/release/gregor /usr/local/bin/gregor
# Classes as the JVM maps them, which takes a third off a node's start. Nodes start without, too.
ENV GREGOR_NODE_CLASS_ARCHIVE=/opt/kafka/class-archives
RUN gregor node --kafka-home /opt/kafka --make-class-archive || echo "nodes start without a class archive"
# Group 0, as Kubernetes distributions that choose a user at random expect it.
RUN mkdir -p /var/lib/kafka && chown -R 1001:0 /var/lib/kafka && chmod -R g=u /var/lib/kafka
ENV GREGOR_KAFKA_HOME=/opt/kafka
USER 1001
ENTRYPOINT ["/usr/local/bin/gregor", "node"]
