# The agent of a data plane. `cargo xtask dist` puts the program into the build context:
#
#   docker build -f deploy/docker/agent.Dockerfile -t gregor-agent:0.1.0 target/images/context

# A release names the base by its digest: cargo xtask dist.
ARG BASE=debian:12.12-slim

# The authorities that sign for the fleet manager.
FROM ${BASE} AS authorities
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates

FROM ${BASE}
LABEL org.opencontainers.image.title="gregor-agent" \
      org.opencontainers.image.description="The agent of a data plane of Gregor, an elastic control plane for Apache Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=authorities /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY gregor /usr/local/bin/gregor
# No name is needed for a number, and Kubernetes can see that it is not root.
USER 1001
ENTRYPOINT ["/usr/local/bin/gregor", "agent"]
