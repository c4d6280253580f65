# A Kafka node: Apache's Kafka, and gregor as its first process. `cargo xtask dist` puts the program and Kafka, as
# `gregor fetch` assembles it, into the build context:
#
#   docker build -f deploy/docker/kafka.Dockerfile --build-arg KAFKA=4.3.1 \
#       -t gregor-kafka:0.1.0-kafka-4.3.1 target/images/context
#
# One layer per rate of change: Java, Kafka, the classes of both, gregor.

# A release names the base by its digest: cargo xtask dist.
ARG BASE=debian:12.12-slim

FROM ${BASE} AS java
ARG JAVA=17
# Packages that only exist in a graphical system, and documentation, are not needed to link a runtime.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates p11-kit openjdk-${JAVA}-jdk-headless
# All of Java SE, because authorizers and other plugins of users may need any of it, and what Kafka and the JMX exporter
# use besides. A linked runtime has no tools of the compiler.
RUN jlink --output /opt/java --strip-java-debug-attributes --no-header-files --no-man-pages --compress=0 --add-modules \
    java.se,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.jcmd,jdk.jfr,jdk.localedata,jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs
# The authorities of Debian, in the order of their names and without the time at which they were put there.
ARG SOURCE_DATE_EPOCH=315532800
RUN rm -f /opt/java/lib/security/cacerts \
    && trust extract --format=java-cacerts --filter=ca-anchors --purpose=server-auth /opt/java/lib/security/cacerts \
    && /opt/java/bin/java -Xshare:dump \
    && find /opt/java -newermt @${SOURCE_DATE_EPOCH} -exec touch --no-dereference --date=@${SOURCE_DATE_EPOCH} {} +

# Classes as the JVM maps them, which takes a third off a node's start.
FROM ${BASE} AS classes
ARG KAFKA=4.3.1
COPY --from=java /opt/java /opt/java
COPY kafka-${KAFKA} /opt/kafka
COPY gregor /usr/local/bin/gregor
RUN JAVA_HOME=/opt/java gregor node --kafka-home /opt/kafka --class-archive /opt/kafka/class-archives --make-class-archive \
    && rm /opt/kafka/class-archives/*.lock

FROM ${BASE}
ARG KAFKA=4.3.1
LABEL org.opencontainers.image.title="gregor-kafka" \
      org.opencontainers.image.description="A node of Apache Kafka, run by Gregor" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=java /opt/java /opt/java
COPY kafka-${KAFKA} /opt/kafka
COPY --from=classes /opt/kafka/class-archives /opt/kafka/class-archives
COPY gregor /usr/local/bin/gregor
ENV JAVA_HOME=/opt/java GREGOR_KAFKA_HOME=/opt/kafka GREGOR_NODE_CLASS_ARCHIVE=/opt/kafka/class-archives
# No name is needed for a number, and Kubernetes can see that it is not root. Its group is 0, as distributions that
# choose a user at random expect it.
USER 1001
ENTRYPOINT ["/usr/local/bin/gregor", "node"]
