# The operator. `cargo xtask dist` puts the program into the build context:
#
#   docker build -f deploy/docker/operator.Dockerfile -t gregor-operator:0.1.0 target/images/context

# A release names the base by its digest: cargo xtask dist.
ARG BASE=debian:12.12-slim

FROM ${BASE}
LABEL org.opencontainers.image.title="gregor-operator" \
      org.opencontainers.image.description="The operator of Gregor, an elastic control plane for Apache Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY gregor /usr/local/bin/gregor
# No name is needed for a number, and Kubernetes can see that it is not root.
USER 1001
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/gregor", "operator"]
