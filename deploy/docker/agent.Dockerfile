# The agent of a data plane. From the root of the repository:
#
#   docker build -f deploy/docker/agent.Dockerfile -t gregor-agent:0.1.0 .

# A release names each base by its digest: cargo xtask dist.
ARG RUST_IMAGE=rust:1.95.0-bookworm
ARG DEBIAN_IMAGE=debian:12.12-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --release --package gregor

FROM ${DEBIAN_IMAGE}
# The authorities that sign for the fleet manager.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/release/gregor /usr/local/bin/gregor
# No name is needed for a number, and Kubernetes can see that it is not root.
USER 1001
ENTRYPOINT ["/usr/local/bin/gregor", "agent"]
