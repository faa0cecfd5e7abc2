"""A store in a Postgres database, which several servers can share, and their requests to each other."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="postgres",
    store="backend:BACKEND",
    peers="peers.peers:PeerServers",
    commands={"nodes": "commands:nodes", "store": "commands:store_app"},
)
