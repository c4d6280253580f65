# The operator. From the root of the repository:
#
#   docker build -f deploy/docker/operator.Dockerfile -t gregor-operator:0.1.0 .

# A release names each base by its digest: cargo xtask dist.
ARG RUST_IMAGE=rust:1.95.0-bookworm
ARG DEBIAN_IMAGE=debian:12.12-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --release --package gregor

FROM ${DEBIAN_IMAGE}
COPY --from=build /source/target/release/gregor /usr/local/bin/gregor
# No name is needed for a number, and Kubernetes can see that it is not root.
USER 1001
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/gregor", "operator"]
