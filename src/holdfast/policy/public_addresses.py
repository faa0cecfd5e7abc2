"""Recognizes public addresses: no loopback, no private network, none with a special purpose."""

import ipaddress

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# The registries of special-purpose addresses (IANA, for IPv4 and IPv6) as a whole: what Python knows of them
# differs from version to version.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' own
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's metadata at a public address
        "169.254.0.0/16",  # this link; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112: the nearest node answers, which may be an inner one
        "192.52.193.0/24",  # multicast relays, the nearest too
        "192.88.99.0/24",  # relays to IPv6
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # unspecified, loopback, and IPv4 addresses embedded in it
        "::ffff:0:0/96",  # IPv4 addresses embedded in it
        "64:ff9b::/96",  # NAT64: an IPv4 address embedded in it
        "64:ff9b:1::/48",  # the same of a network's own
        "100::/64",  # discarded
        "100:0:0:1::/64",  # the same, for measurements
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address embedded in it
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",  # multicast
    )
)
_IPV6_IN_USE = ipaddress.ip_network("2000::/3")


def is_public(address: IPAddress) -> bool:
    """Whether an address is public."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or address.scope_id is not None:
            return False  # an IPv4 address embedded in it has no business here, even a public one
        if address not in _IPV6_IN_USE:
            return False
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC)
