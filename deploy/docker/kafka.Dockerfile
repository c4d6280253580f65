# A Kafka node: Apache's Kafka, and gregor as its first process. From the root of the repository:
#
#   docker build -f deploy/docker/kafka.Dockerfile --build-arg KAFKA_VERSION=4.3.1 \
#       -t gregor-kafka:0.1.0-kafka-4.3.1 .

ARG KAFKA_VERSION=4.3.1

FROM rust:1.95.0-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --release --package gregor

# The agent through which a node knows how its Kafka is; the version is that of crates/artifacts/kafka/pom.xml.
FROM maven:3.9.11-eclipse-temurin-21 AS agent
ARG JMX_AGENT_VERSION=1.0.1
RUN mvn --batch-mode --quiet dependency:copy -DoutputDirectory=/agents \
    -Dartifact=io.prometheus.jmx:jmx_prometheus_javaagent:${JMX_AGENT_VERSION}

FROM apache/kafka:${KAFKA_VERSION} AS kafka

# Apache's own image is Alpine; gregor needs the C library of Debian and its relatives.
FROM eclipse-temurin:21.0.8_9-jre-noble
COPY --from=kafka /opt/kafka /opt/kafka
COPY --from=agent /agents /opt/kafka/agents
COPY --from=build /source/target/release/gregor /usr/local/bin/gregor
# Classes as the JVM maps them, which takes a third off a node's start. Nodes start without, too.
ENV GREGOR_NODE_CLASS_ARCHIVE=/opt/kafka/class-archives
RUN gregor node --kafka-home /opt/kafka --make-class-archive || echo "nodes start without a class archive"
# Group 0, as Kubernetes distributions that choose a user at random expect it.
RUN mkdir -p /var/lib/kafka && chown -R 1001:0 /var/lib/kafka && chmod -R g=u /var/lib/kafka
ENV GREGOR_KAFKA_HOME=/opt/kafka
USER 1001
ENTRYPOINT ["/usr/local/bin/gregor", "node"]
